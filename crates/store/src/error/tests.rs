//! Tests a message of each error variant, and the conversion of errors of the crate `filterblock`.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;

macro_rules! variants {
    ($($variant:ident),* $(,)?) => {
        const VARIANTS: &[&str] = &[$(stringify!($variant)),*];

        /// Returns the name of the variant. A new variant compiles only after it is added to the
        /// list below, and the test fails until a message of that variant is listed.
        fn name(error: &Error) -> &'static str {
            match error { $(Error::$variant { .. } => stringify!($variant),)* }
        }
    };
}

variants!(
    Io,
    InFile,
    Corrupt,
    ChecksumMismatch,
    Unsupported,
    InvalidArgument,
    KeyTooLong,
    OutOfOrder,
    NotAStore,
    ForeignFile,
    Locked,
    Poisoned,
    NoSpace,
    BackgroundFails,
    OutOfNumbers,
    TooLarge,
    Filter
);

/// An error and its expected message.
type Message = (Error, &'static str);

/// Returns errors about files and arguments, each with its expected message.
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
            "db: already open in this process or in another one; close it there first",
        ),
        (
            Error::Corrupt { field: Field::Footer, offset: 12 },
            "damaged: invalid footer at offset 12; run \"filterblock db repair\", or restore the file from a backup",
        ),
        (
            Error::Corrupt { field: Field::LogHeader, offset: 0 },
            "damaged: the write-ahead log is missing or has no header; run \"filterblock db repair\", or restore the \
             file from a backup",
        ),
        (
            mismatch,
            "damaged: wrong checksum of index block at offset 4096 (stored 0x00000001, computed 0x00000002); run \
             \"filterblock db repair\", or restore the file from a backup",
        ),
        (
            Error::Unsupported { field: Field::Version, found: 9 },
            "format version 9 is not supported by this version of filterblock: a newer version wrote the bytes, or \
             they are damaged; use a newer version, or restore the file from a backup",
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

/// Returns errors about a whole store or a filter block, each with its expected message.
fn store_messages() -> Vec<Message> {
    vec![
        (
            Error::NotAStore,
            "the directory holds no store, or holds files where an empty directory is needed; give the directory of an \
             existing store, or an empty directory for a new one",
        ),
        (
            Error::ForeignFile { what: "a log of LevelDB" },
            "a log of LevelDB; the directory is not opened as a filterblock store, and nothing was changed; give \
             another directory, or move the file away if this directory is a filterblock store",
        ),
        (Error::Locked, "already open in this process or in another one; close it there first"),
        (
            Error::Poisoned { reason: "disk gone".into() },
            "the store refuses writes after an earlier failure (disk gone); reopen the store to recover",
        ),
        (
            Error::NoSpace { free_bytes: 10, kept_bytes: 20 },
            "no space: 10 bytes are free on the disk, and 20 bytes are kept free for deletes and compactions; delete \
             keys, or free disk space",
        ),
        (
            Error::BackgroundFails { reason: "disk full".into() },
            "a background task fails and is retried (disk full); no data is lost, and the store continues when the \
             task succeeds; remove the cause, or wait",
        ),
        (
            Error::OutOfNumbers { field: Field::FileNumber, last: 7 },
            "the store accepts no more writes: file number 7 is close to the largest possible one; copy the data to a \
             new store",
        ),
        (
            Error::TooLarge { what: "a memtable" },
            "a memtable of this size does not fit in memory; free memory, or use a machine with more memory",
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

/// A store that had too little memory to load a filter tries again later. So it must recognize this
/// error of the crate `filterblock`.
#[test]
fn lack_of_memory_in_the_core_is_too_large() {
    let error = Error::from(filterblock::Error::TooLarge { what: "a filter" }.in_file(Path::new("t.sst")));
    assert!(matches!(error.root(), Error::TooLarge { what: "a filter" }), "{error:?}");
}

#[test]
fn each_message_says_what_to_do_next() {
    let mut missing = BTreeSet::from_iter(VARIANTS);
    for (error, message) in file_messages().into_iter().chain(store_messages()) {
        missing.remove(&name(&error));
        assert_eq!(error.to_string(), message);
        let next = message.rsplit_once("; ").map_or("", |(_, next)| next);
        assert!(next.split(' ').count() > 1, "the message does not say what to do next: {message}");
    }
    assert!(missing.is_empty(), "no message is listed for {missing:?}");
}
