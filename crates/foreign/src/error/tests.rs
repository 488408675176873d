//! Tests that each message says what to do next, and that an error of a filter block keeps its kind
//! and file.

use std::io::ErrorKind;
use std::path::Path;

use super::*;
use filterblock_testkit::check_messages;

#[test]
fn each_message_says_what_to_do_next() {
    let mismatch = Error::ChecksumMismatch { field: Field::DataBlock, offset: 4_096, stored: 1, computed: 2 };
    let table = [
        (Error::Io(ErrorKind::PermissionDenied.into()), "permission denied; check the permissions"),
        (
            Error::Corrupt { field: Field::Restarts, offset: 99 }.in_file(Path::new("000012.ldb")),
            "000012.ldb: damaged: invalid restart points at offset 99; restore the file, or let its engine write it \
             again",
        ),
        (
            Error::Corrupt { field: Field::Footer, offset: 12 },
            "damaged: invalid footer at offset 12; restore the file, or let its engine write it again",
        ),
        (
            mismatch,
            "damaged: wrong checksum of data block at offset 4096 (stored 0x00000001, computed 0x00000002); \
             restore the file, or let its engine write it again",
        ),
        (
            Error::Unsupported { field: Field::Compression, found: 3 },
            "compression 3, or its dictionary, is not supported by this version of filterblock; use a newer version, \
             or let the engine write the file with another compression and without a dictionary",
        ),
        (
            Error::Unsupported { field: Field::IndexKind, found: 9 },
            "index type 9 is not supported by this version of filterblock; use a newer version, or let the engine \
             write the file with another index type",
        ),
        (
            Error::Unsupported { field: Field::BlockFeatures, found: 4 },
            "a block has features that this version of filterblock cannot read (flags 0x4); use a newer version, or \
             let the engine write the file without them",
        ),
        (
            Error::Unsupported { field: Field::UserDefinedIndex, found: 1 },
            "the table has a user-defined index, which this version of filterblock cannot read; let the engine write \
             the file without it",
        ),
        (
            Error::invalid("number of blocks", 0, "expected 1 to 67108863; try 1024"),
            "invalid number of blocks \"0\": expected 1 to 67108863; try 1024",
        ),
        (
            Error::OutOfOrder,
            "the key does not come after the previous key, and nothing was changed; add keys in ascending order, and \
             the versions of a key from the newest to the oldest",
        ),
        (
            Error::from(filterblock::Error::SelfCheckFailed { denied: 3 }),
            "the new filter denies 3 of its own keys and was discarded; build it again, and test this machine's \
             memory if it happens twice",
        ),
    ];
    check_messages!(
        Error { Io, InFile, Corrupt, ChecksumMismatch, Unsupported, Invalid, OutOfOrder, Filter } table
    );
}

#[test]
fn an_error_of_a_filter_block_keeps_its_kind_and_file() {
    let io = filterblock::Error::Io(ErrorKind::NotFound.into()).in_file(Path::new("t.sst"));
    let Error::InFile { path, source } = Error::from(io) else { panic!("no file") };
    assert!(path == Path::new("t.sst") && matches!(*source, Error::Io(_)));
    assert!(matches!(Error::from(filterblock::Error::invalid("a", 1, "b; c")), Error::Invalid { what: "a", .. }));
    let damage = || filterblock::Error::Corrupt { field: filterblock::Field::Page, offset: 1 };
    let moved = Error::from(damage()).moved_by(9);
    assert!(matches!(moved, Error::Filter(filterblock::Error::Corrupt { offset: 10, .. })), "{moved}");
    assert!(Error::from(damage()).is_damage() && !Error::from(damage()).is_unsupported());
    let newer = Error::from(filterblock::Error::Unsupported { field: filterblock::Field::Kind, found: 99 });
    assert!(newer.is_unsupported() && !newer.is_damage());
}
