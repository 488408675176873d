//! What each error says: what is wrong, where, and what to do next.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;

macro_rules! variants {
    ($($variant:ident),* $(,)?) => {
        const VARIANTS: &[&str] = &[$(stringify!($variant)),*];

        /// A new variant does not compile until it is named, and the test fails until the table has it.
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

type Told = (Error, &'static str);

/// Of files, and of what a caller gives.
fn of_files() -> Vec<Told> {
    let mismatch = Error::ChecksumMismatch { field: Field::IndexBlock, offset: 4_096, stored: 1, computed: 2 };
    let batch = Error::InvalidArgument { what: "batch", reason: "it is full; write it first".into() };
    vec![
        (Error::Io(ErrorKind::StorageFull.into()), "no storage space; make room, and try again"),
        (
            Error::Locked.in_file(Path::new("db")),
            "db: already open elsewhere, in this process or another; close it there first",
        ),
        (
            Error::Corrupt { field: Field::Footer, offset: 12 },
            "damaged: invalid footer at offset 12; repair the store with `filterblock db repair`, or restore a copy",
        ),
        (
            mismatch,
            "damaged: wrong checksum of index block at offset 4096 (stored 0x00000001, computed 0x00000002); repair \
             the store with `filterblock db repair`, or restore a copy",
        ),
        (
            Error::Unsupported { field: Field::Version, found: 9 },
            "format version 9 is not supported by this version: a newer version wrote the bytes, or they are damaged; \
             open them with that version",
        ),
        (
            Error::Unsupported { field: Field::Compression, found: 9 },
            "compression 9 is not supported by this version; open it with a newer one",
        ),
        (batch, "invalid batch: it is full; write it first"),
        (
            Error::KeyTooLong { len_bytes: 70_000, max_bytes: 65_535 },
            "a key of 70000 bytes is longer than the 65535 allowed; give a shorter key, or its hash",
        ),
        (Error::OutOfOrder, "a key does not come after the one before it; add keys in strictly ascending order"),
    ]
}

/// Of a store as a whole.
fn of_stores() -> Vec<Told> {
    vec![
        (
            Error::NotAStore,
            "the directory is not empty and holds no store; name the store's directory, or an empty one",
        ),
        (
            Error::ForeignFile { what: "a log of LevelDB" },
            "a log of LevelDB; the directory is not taken for a filterblock store, and nothing was changed; name \
             another",
        ),
        (Error::Locked, "already open elsewhere, in this process or another; close it there first"),
        (
            Error::Poisoned { reason: "disk gone".into() },
            "the store refuses writes since an earlier failure (disk gone); reopen it to recover",
        ),
        (
            Error::NoSpace { free_bytes: 10, kept_bytes: 20 },
            "no space: 10 bytes are free on the disk, and 20 are kept free; delete keys, which is not refused, or make \
             room on the disk",
        ),
        (
            Error::BackgroundFails { reason: "disk full".into() },
            "work in the background fails (disk full); nothing is lost, it is tried again, and the store goes on when \
             it succeeds; remove the cause, or wait",
        ),
        (
            Error::OutOfNumbers { field: Field::FileNumber, last: 7 },
            "the store takes no more writes: file number 7 is near the last there is; copy its pairs to a new store",
        ),
        (
            Error::TooLarge { what: "a memtable" },
            "a memtable of this size does not fit in memory; make it smaller, or free memory",
        ),
        (
            Error::from(filterblock::Error::TooLarge { what: "a filter block" }),
            "a filter block of this size does not fit in memory; make it smaller, or free memory",
        ),
    ]
}

#[test]
fn each_message_says_what_to_do_next() {
    let mut missing = BTreeSet::from_iter(VARIANTS);
    for (error, message) in of_files().into_iter().chain(of_stores()) {
        missing.remove(&name(&error));
        assert_eq!(error.to_string(), message);
        let next = message.rsplit_once("; ").map_or("", |(_, next)| next);
        assert!(next.split(' ').count() > 1, "what to do next? {message}");
    }
    assert!(missing.is_empty(), "no message of {missing:?}");
}
