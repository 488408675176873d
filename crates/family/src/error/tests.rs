//! Tests the text of each error message, and the conversion of the errors of filter blocks.

use std::io::ErrorKind;
use std::path::Path;

use super::*;
use filterblock_testkit::check_messages;

type Told = (Error, &'static str);

/// Returns errors about files, bytes, arguments and sizes, with their messages.
fn of_bytes() -> Vec<Told> {
    let mismatch = Error::ChecksumMismatch { field: Field::CompressedBits, offset: 0, stored: 1, computed: 2 };
    vec![
        (Error::Io(ErrorKind::PermissionDenied.into()), "permission denied; check the permissions"),
        (
            Error::Locked.in_file(Path::new("seen.filter")),
            "seen.filter: the filter is or may be open for writing, in this process or another; close it there and \
             try again, or open it for reading only",
        ),
        (
            Error::Corrupt { field: Field::Magic, offset: 0 },
            "not a filter of this type, or damaged: invalid magic at offset 0; check where the bytes come from, \
             use an undamaged copy, or build the filter again from its keys",
        ),
        (
            Error::Corrupt { field: Field::Page, offset: 512 },
            "damaged: invalid page at offset 512; use an undamaged copy, or build the filter again from its keys",
        ),
        (
            mismatch,
            "damaged: wrong checksum of compressed bits at offset 0 (stored 0x00000001, computed 0x00000002); use an \
             undamaged copy, or build the filter again from its keys",
        ),
        (
            Error::Unsupported { field: Field::Version, found: 9 },
            "format version 9 is not supported by this version of filterblock: a newer version wrote the filter, or it \
             is damaged; open it with a newer version, or use an undamaged copy",
        ),
        (
            Error::invalid("capacity", 0, "expected one key or more; try 1000"),
            "invalid capacity \"0\": expected one key or more; try 1000",
        ),
        (
            Error::TooLarge { what: "a filter" },
            "a filter of this size does not fit in memory; make it smaller, or free memory",
        ),
        (
            Error::TooLarge { what: "the filter has more bits than the limit; pass a larger limit" },
            "the filter has more bits than the limit; pass a larger limit",
        ),
    ]
}

/// Returns errors about filters and about the files of filters, with their messages.
fn of_filters() -> Vec<Told> {
    let unlike = Error::Unlike { what: "hash seed", left: "1".into(), right: "2".into() };
    vec![
        (Error::KeyAbsent, "the key is certainly absent, and nothing was changed; remove only keys that were added"),
        (
            Error::NoRoom { capacity: 72 },
            "the filter, designed for 72 keys, has no space for this key, and nothing was changed; create a larger \
             filter",
        ),
        (
            unlike,
            "the filters do not match: hash seed is 1 in one filter and 2 in the other; create both with the same size \
             and settings, or build one filter from all keys",
        ),
        (Error::ReadOnly, "the filter was opened for reading only; open it for writing to change it"),
        (
            Error::Locked,
            "the filter is or may be open for writing, in this process or another; close it there and try again, or \
             open it for reading only",
        ),
        (
            Error::Displaced { reason: "was changed by other code or damaged" },
            "the filter's file was changed by other code or damaged while the filter was open for writing, so the file \
             may lack new keys; if the filter is still open, copy the filter to a new file; otherwise insert the new \
             keys again",
        ),
        (
            Error::Poisoned { reason: "disk gone".into() },
            "the filter refuses writes after an earlier failure (disk gone); close the filter, open its file again, \
             and insert again the keys that were inserted since the last sync",
        ),
        (
            Error::LengthUnknown { reason: "a page of the filter was damaged" },
            "the number of keys is unknown: a page of the filter was damaged; count the keys in your program, \
             or use estimated_keys()",
        ),
        (
            Error::from(filterblock::Error::Corrupt { field: filterblock::Field::Page, offset: 64 }),
            "damaged: invalid page at offset 64; answer without the filter, and build it again from its keys",
        ),
    ]
}

#[test]
fn each_message_says_what_to_do_next() {
    let table = of_bytes().into_iter().chain(of_filters());
    check_messages!(
        Error {
            Io,
            InFile,
            Corrupt,
            ChecksumMismatch,
            Unsupported,
            Invalid,
            TooLarge,
            KeyAbsent,
            NoRoom,
            Unlike,
            ReadOnly,
            Locked,
            Displaced,
            Poisoned,
            LengthUnknown,
            Filter
        } table
    );
}

#[test]
fn an_error_of_a_filter_block_keeps_its_kind_and_file() {
    let io = filterblock::Error::Io(ErrorKind::NotFound.into()).in_file(Path::new("a.filter"));
    let Error::InFile { path, source } = Error::from(io) else { panic!("the error names no file") };
    assert!(path == Path::new("a.filter") && matches!(*source, Error::Io(_)));
    assert!(matches!(Error::from(filterblock::Error::invalid("a", 1, "b; c")), Error::Invalid { what: "a", .. }));
    assert!(matches!(Error::from(filterblock::Error::TooLarge { what: "a" }), Error::TooLarge { what: "a" }));
    let damage = Error::from(filterblock::Error::Corrupt { field: filterblock::Field::Page, offset: 1 });
    assert!(matches!(damage, Error::Filter(_)) && damage.is_damage() && !damage.is_unsupported());
    let newer = Error::from(filterblock::Error::Unsupported { field: filterblock::Field::Kind, found: 99 });
    assert!(newer.is_unsupported() && !newer.is_damage());
}
