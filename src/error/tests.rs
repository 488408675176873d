//! Tests the messages and the offsets of the errors.

use filterblock_testkit::check_messages;
use std::io::ErrorKind;
use std::path::Path;

use super::*;

type ErrorAndMessage = (Error, &'static str);

/// Returns errors of reading bytes, with their messages.
fn of_bytes() -> Vec<ErrorAndMessage> {
    let mismatch = |field, offset| Error::ChecksumMismatch { field, offset, stored: 1, computed: 0xdead_beef };
    let unexpected = |field| Error::Unexpected { field, found: "7".into(), expected: "8".into() };
    vec![
        (Error::Io(ErrorKind::NotFound.into()), "entity not found; check the path"),
        (
            Error::Corrupt { field: Field::Params, offset: 70 },
            "damaged: invalid filter parameters at offset 70; answer without the filter, and build it again from \
             its keys",
        ),
        (
            Error::Corrupt { field: Field::Length, offset: 0 }.in_file(Path::new("a.filter")),
            "a.filter: damaged: invalid length at offset 0; answer without the filter, and build it again from its \
             keys",
        ),
        (
            mismatch(Field::Page, 12_288),
            "damaged: wrong checksum of page at offset 12288 (stored 0x00000001, computed 0xdeadbeef); answer without \
             the filter, and build it again from its keys",
        ),
        (
            mismatch(Field::CompactFilter, 0),
            "wrong checksum of filter in compact form at offset 0 (stored 0x00000001, computed 0xdeadbeef): the bytes are \
             damaged, or another hasher hashed the keys; answer without the filter, and build it again from its keys",
        ),
        (
            Error::Unsupported { field: Field::Version, found: 9 },
            "format version 9 is not supported by this version of filterblock: a newer version wrote the bytes, or \
             they are damaged; open them with a newer version, or build the filter again",
        ),
        (
            Error::Unsupported { field: Field::Kind, found: 99 },
            "filter kind: the value 99 is not supported by this version of filterblock; open the block with a newer \
             version",
        ),
        (
            unexpected(Field::Seed),
            "hash seed is 7, but 8 is expected: the keys were hashed with another hasher; answer without the filter, \
             or give the hash function and the seed that hashed its keys",
        ),
        (
            unexpected(Field::Extension),
            "the extractor 7 took the prefixes, but 8 is expected; answer without the filter, or build it again with \
             the expected extractor",
        ),
        (
            unexpected(Field::TableId),
            "table id is 7, but 8 is expected: this is not the expected block; answer without it, and check which \
             file and offset it was read from",
        ),
    ]
}

/// Returns errors of fields that have a message of their own, with their messages.
fn of_special_fields() -> Vec<ErrorAndMessage> {
    let unexpected = |field| Error::Unexpected { field, found: "7".into(), expected: "8".into() };
    vec![
        (
            Error::Corrupt { field: Field::Magic, offset: 116 },
            "not a filter block, or damaged: invalid magic at offset 116; check which file and offset it was read \
             from, or build the filter again from its keys",
        ),
        (
            Error::Corrupt { field: Field::PartitionNumber, offset: 52 },
            "wrong partition number at offset 52: the bytes are not the expected filter or partition, or they are \
             damaged; check which file and offset they were read from, or build the filter again",
        ),
        (
            Error::ChecksumMismatch { field: Field::Checksum, offset: 64, stored: 1, computed: 2 },
            "damaged: wrong checksum of trailer at offset 64 (stored 0x00000001, computed 0x00000002); answer without \
             the filter, and build it again from its keys",
        ),
        (
            unexpected(Field::Flags),
            "the filter holds 7, but 8 are expected; answer without the filter, or build it again with the expected \
             keys or prefixes",
        ),
        (
            unexpected(Field::Kind),
            "filter kind is 7, but 8 is expected; check which file and offset the block was read from, or call the \
             function for the kind of block that was found",
        ),
    ]
}

/// Returns the errors that callers and the machine cause, with their messages.
fn of_callers() -> Vec<ErrorAndMessage> {
    let hash = HashKind::SipHash13;
    let (stored, given) = (Fingerprint::from_bytes([1; 8]), Fingerprint::from_bytes([2; 8]));
    vec![
        (
            Error::Secret { hash, stored: None, given: None },
            "siphash-1-3 hashes keys under a secret; give the secret that hashed the keys, or 16 or 32 random bytes if \
             there are no keys yet",
        ),
        (
            Error::Secret { hash, stored: Some(stored), given: None },
            "keys were hashed by siphash-1-3 under a secret; give the secret that hashed them (fingerprint \
             0101010101010101)",
        ),
        (
            Error::Secret { hash, stored: Some(stored), given: Some(given) },
            "keys were hashed by siphash-1-3 under another secret (fingerprint 0101010101010101; the given secret \
             has the fingerprint 0202020202020202); give the secret that hashed the keys",
        ),
        (
            Error::Secret { hash, stored: None, given: Some(given) },
            "keys were hashed by siphash-1-3 under another secret than the given one (fingerprint 0202020202020202); \
             give the secret that hashed them",
        ),
        (
            Error::invalid("filter", "bloom", "missing budget; try bloom:10 or bloom:fpr=0.01"),
            "invalid filter \"bloom\": missing budget; try bloom:10 or bloom:fpr=0.01",
        ),
        (
            Error::TooLarge { what: "a filter block" },
            "a filter block of this size does not fit in memory; make it smaller, or free memory",
        ),
        (
            Error::SelfCheckFailed { denied: 3 },
            "the new filter denies 3 of its own keys and was discarded; build it again, and test this machine's \
             memory if it happens twice",
        ),
    ]
}

#[test]
fn each_message_says_what_to_do_next() {
    let table = of_bytes().into_iter().chain(of_special_fields()).chain(of_callers());
    check_messages!(
        Error {
            Io,
            InFile,
            Corrupt,
            ChecksumMismatch,
            Unsupported,
            Unexpected,
            Secret,
            Invalid,
            TooLarge,
            SelfCheckFailed
        } table
    );
}

#[test]
fn an_io_error_says_what_to_check() {
    for (kind, next) in [
        (ErrorKind::NotFound, "check the path"),
        (ErrorKind::NotADirectory, "check the path"),
        (ErrorKind::IsADirectory, "check the path"),
        (ErrorKind::InvalidFilename, "check the path"),
        (ErrorKind::PermissionDenied, "check the permissions"),
        (ErrorKind::AlreadyExists, "choose another name"),
        (ErrorKind::StorageFull, "free disk space, and try again"),
        (ErrorKind::QuotaExceeded, "free disk space, and try again"),
        (ErrorKind::FileTooLarge, "raise the limit of the file size, and try again"),
        (ErrorKind::UnexpectedEof, "check that the file is complete, and try again"),
        (ErrorKind::OutOfMemory, "free memory, and try again"),
        (ErrorKind::InvalidData, "check the content of the file"),
        (ErrorKind::ReadOnlyFilesystem, "choose a writable directory"),
        (ErrorKind::Other, "check the device and the limits of the process, and try again"),
    ] {
        let message = Error::Io(kind.into()).to_string();
        assert_eq!(message.rsplit_once("; ").unwrap().1, next, "{message}");
    }
}

#[test]
fn a_moved_error_counts_its_offset_from_the_file_start() {
    let moved = Error::Corrupt { field: Field::Page, offset: 10 }.moved_by(100);
    assert!(matches!(moved, Error::Corrupt { offset: 110, .. }), "{moved}");
    let mismatch = Error::ChecksumMismatch { field: Field::Page, offset: 10, stored: 0, computed: 1 };
    let moved = mismatch.moved_by(u64::MAX);
    assert!(matches!(moved, Error::ChecksumMismatch { offset: u64::MAX, .. }), "{moved}");
}
