//! Tests footers of Parquet files that contradict themselves.

use filterblock_parquet::error::Field;
use filterblock_parquet::{Error, ParquetBloomBuilder, ParquetFile};
use filterblock_testkit::foreign::forge;

use crate::parquet_filter;

/// Returns a file with the columns `aa` and `bb`, after `old` was replaced by `new` at its last
/// place.
fn changed(old: &[u8], new: &[u8]) -> Vec<u8> {
    let filter = |value: &[u8]| parquet_filter(ParquetBloomBuilder::with_blocks(1).unwrap(), &[value]);
    let mut bytes = forge::parquet_file(&[(&["aa"], filter(b"x"), false), (&["bb"], filter(b"y"), false)]);
    let at = bytes.windows(old.len()).rposition(|found| found == old).unwrap();
    bytes[at..at + old.len()].copy_from_slice(new);
    bytes
}

#[test]
fn a_chunk_that_contradicts_the_schema_is_named() {
    assert_eq!(ParquetFile::open(changed(b"aa", b"aa")).unwrap().leaves().len(), 2);
    let chunk_of_bb = [&[0x15, 12, 0x19, 0x15, 0, 0x19, 0x18, 2][..], b"bb"].concat();
    let mut of_another_type = chunk_of_bb.clone();
    of_another_type[1] = 4;
    for (old, new, expected) in [
        (&b"aa"[..], &b"ab"[..], "aa"),
        (b"aa", b"bb", "aa"),
        (b"bb", b"aa", "bb"),
        (&chunk_of_bb, &of_another_type, "bb"),
        // The list of columns, of which one is then outside of the list.
        (&[0x19, 0x1c, 0x19, 0x2c], &[0x19, 0x1c, 0x19, 0x0c], "aa"),
    ] {
        match ParquetFile::open(changed(old, new)) {
            Err(Error::ChunkMismatch { row_group: 0, column, offset: 1.. }) => assert_eq!(column, expected),
            other => panic!("{old:x?}: {other:?}"),
        }
    }
}

#[test]
fn a_false_number_of_rows_is_an_error() {
    let opened = ParquetFile::open(changed(&[0x16, 0, 0x19], &[0x16, 2, 0x19]));
    assert!(matches!(opened, Err(Error::Corrupt { field: Field::NumRows, .. })), "{opened:?}");
}
