//! Tests a message of each error variant, and the conversion of errors of the crate `filterblock`.

use std::io::ErrorKind;
use std::path::Path;

use super::*;
use filterblock_testkit::check_messages;

/// An error and its expected message.
type Message = (Error, &'static str);

fn file_messages() -> Vec<Message> {
    let mismatch = Error::ChecksumMismatch { field: Field::IndexBlock, offset: 4_096, stored: 1, computed: 2 };
    let batch = Error::InvalidArgument { what: "batch", reason: "it is full; write it first".into() };
    vec![
        (Error::Io(ErrorKind::StorageFull.into()), "no storage space; free disk space, and try again"),
        (Error::Io(ErrorKind::NotADirectory.into()), "not a directory; check the path"),
        (
            Error::Io(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file; remove it")),
            "it is not a regular file; remove it",
        ),
        (
            Error::Locked.in_file(Path::new("db")),
            "db: the store is already open in this process or in another one; close it there first",
        ),
        (
            Error::Corrupt { field: Field::Footer, offset: 12 },
            "damaged: invalid footer at offset 12; run \"filterblock db repair\" on the store, or restore from a \
             backup",
        ),
        (
            Error::Corrupt { field: Field::LogHeader, offset: 0 },
            "damaged: the write-ahead log is missing or has no sound header; run \"filterblock db repair\" on the \
             store, or restore from a backup",
        ),
        (
            Error::Corrupt { field: Field::LogSequence, offset: 0 },
            "damaged: invalid sequence number; run \"filterblock db repair\" on the store, or restore from a backup",
        ),
        (
            mismatch,
            "damaged: wrong checksum of index block at offset 4096 (stored 0x00000001, computed 0x00000002); run \
             \"filterblock db repair\" on the store, or restore from a backup",
        ),
        (
            Error::Unsupported { field: Field::Version, found: 9 },
            "format version 9 is not supported by this version of filterblock: a newer version wrote the file, or \
             the file is damaged; use a newer version, or restore from a backup",
        ),
        (
            Error::Unsupported { field: Field::Compression, found: 9 },
            "compression 9 is not supported by this version of filterblock; open the file with a newer version",
        ),
        (batch, "invalid batch: it is full; write it first"),
        (
            Error::KeyTooLong { len_bytes: 70_000, max_bytes: 65_535 },
            "the key has 70000 bytes, and the limit is 65535; use a shorter key, or a hash of the key",
        ),
        (Error::OutOfOrder, "the key is not greater than the key before it; add keys in strictly ascending order"),
    ]
}

fn store_messages() -> Vec<Message> {
    vec![
        (
            Error::NotAStore,
            "the directory holds no store, or holds files where an empty directory is needed; give another directory, \
             or run \"filterblock db repair\" if a store here has lost its file CURRENT",
        ),
        (
            Error::ForeignFile { what: "a log of LevelDB" },
            "a log of LevelDB; the directory is not opened as a filterblock store, and no file was changed; give \
             another directory, or, if this is the directory of a store, move this file away and restore the store's \
             own file of this name, if there was one",
        ),
        (Error::Locked, "the store is already open in this process or in another one; close it there first"),
        (
            Error::Poisoned { reason: "disk gone".into() },
            "writes are refused after an earlier failure (disk gone); reopen the store, or use a new writer",
        ),
        (
            Error::NoSpace { free_bytes: 10, kept_bytes: 20 },
            "no space: 10 bytes are free on the disk, or would be free after the refused write, and 20 bytes must be \
             free for the log, for deletes and for compactions; free disk space, or delete keys",
        ),
        (
            Error::BackgroundFails { reason: "disk full".into() },
            "a background task failed (disk full); no accepted write is lost, and the store tries the task again \
             while it is open; remove the cause",
        ),
        (
            Error::OutOfNumbers { field: Field::FileNumber, last: 7 },
            "the store accepts no more writes: file number 7 is close to the largest possible one; if a file with \
             such a number does not belong to the store, move it away and reopen the store; otherwise copy the data to \
             a new store",
        ),
        (
            Error::OutOfNumbers { field: Field::LogSequence, last: 7 },
            "the store accepts no more writes: sequence number 7 is close to the largest possible one; copy the data \
             to a new store",
        ),
        (
            Error::TooLarge { what: "a memtable" },
            "a memtable of this size does not fit in memory; free memory, or use a machine with more memory",
        ),
    ]
}

fn filter_messages() -> Vec<Message> {
    let unexpected = |field, found: &str, expected: &str| {
        let (found, expected) = (found.to_owned(), expected.to_owned());
        Error::from(filterblock::Error::Unexpected { field, found, expected })
    };
    vec![
        (
            unexpected(filterblock::Field::NumKeys, "3", "2"),
            "filter block damaged: number of keys is 3, but 2 is expected; no key is lost, because filters only save \
             reads; run \"filterblock db repair\"",
        ),
        (
            unexpected(filterblock::Field::HashId, "xxh3", "siphash-1-3"),
            "hash function is xxh3, but siphash-1-3 is expected: the keys were hashed with another hasher; give the \
             hash function and the seed of the store or SST file, or run \"filterblock db repair\"",
        ),
        (
            unexpected(filterblock::Field::Flags, "only whole keys", "prefixes of keys"),
            "filter block damaged: it holds only whole keys, but prefixes of keys are expected; no key is lost, because \
             filters only save reads; run \"filterblock db repair\"",
        ),
        (
            Error::from(filterblock::Error::ChecksumMismatch {
                field: filterblock::Field::Page,
                offset: 12_288,
                stored: 1,
                computed: 2,
            }),
            "filter block damaged: wrong checksum of page at offset 12288 (stored 0x00000001, computed 0x00000002); \
             no key is lost, because filters only save reads; run \"filterblock db repair\"",
        ),
        (
            Error::from(filterblock::Error::ChecksumMismatch {
                field: filterblock::Field::Checksum,
                offset: 90,
                stored: 1,
                computed: 2,
            }),
            "filter block damaged: wrong checksum of trailer at offset 90 (stored 0x00000001, computed 0x00000002); \
             no key is lost, because filters only save reads; run \"filterblock db repair\"",
        ),
        (
            Error::from(filterblock::Error::Corrupt { field: filterblock::Field::Params, offset: 70 }),
            "filter block damaged: invalid filter parameters at offset 70; no key is lost, because filters only \
             save reads; run \"filterblock db repair\"",
        ),
        (
            Error::from(filterblock::Error::TooLarge { what: "a filter block" }),
            "a filter block of this size does not fit in memory; free memory, or use a machine with more memory",
        ),
    ]
}

/// A store that had too little memory to load a filter tries again later. So it must recognize
/// `TooLarge` of the crate `filterblock`.
#[test]
fn lack_of_memory_in_the_core_is_too_large() {
    let error = Error::from(filterblock::Error::TooLarge { what: "a filter" }.in_file(Path::new("t.sst")));
    assert!(matches!(error.root(), Error::TooLarge { what: "a filter" }), "{error:?}");
}

#[test]
fn each_message_says_what_to_do_next() {
    let table = file_messages().into_iter().chain(store_messages()).chain(filter_messages());
    check_messages!(Error { Io, InFile, Corrupt, ChecksumMismatch, Unsupported, InvalidArgument, KeyTooLong, OutOfOrder, NotAStore, ForeignFile, Locked, Poisoned, NoSpace, BackgroundFails, OutOfNumbers, TooLarge, Filter } table);
}
