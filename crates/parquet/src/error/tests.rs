//! Tests that each message says what to do next.

use std::path::Path;

use super::*;
use filterblock_testkit::check_messages;

#[test]
fn each_message_says_what_to_do_next() {
    let column = || "id".to_owned();
    let table = [
        (Error::Io(io::ErrorKind::PermissionDenied.into()), "permission denied; check the permissions"),
        (
            Error::corrupt(Field::Schema, 99).in_file(Path::new("a.parquet")),
            "a.parquet: not a sound Parquet file: the schema at offset 99 is not valid; restore the file, or let its \
             engine write it again",
        ),
        (
            Error::corrupt(Field::Magic, 0),
            "not a sound Parquet file: the magic PAR1 at offset 0 is not valid; check the path, or restore the file",
        ),
        (
            Error::corrupt(Field::NumRows, 7),
            "not a sound Parquet file: the row groups do not have the number of rows that the footer gives for the file \
             at offset 7, so rows or row groups are missing; restore the file, or let its engine write it again",
        ),
        (
            Error::corrupt(Field::FilterLocation, 7),
            "the footer places a filter at offset 7, inside the pages or another filter or outside the file's data; let \
             the engine write the file again, or replace the filters of the column",
        ),
        (
            Error::corrupt(Field::FilterLen, 7),
            "the bloom_filter_length in the footer contradicts the header of the filter at offset 7; let the engine \
             write the file again, or replace the filters of the column",
        ),
        (
            Error::ChunkMismatch { row_group: 1, column: column(), offset: 7 },
            "row group 1, column \"id\": the footer contradicts its schema at offset 7: the column chunk is missing or \
             surplus, or has another name or physical type; restore the file, or let its engine write it again",
        ),
        (Error::unsupported("the file is old", "write it again"), "the file is old; write it again"),
        (
            Error::Values { row_group: 1, column: column(), reason: "no page".into() },
            "row group 1, column id: cannot read the values: no page; check the file with the engine that wrote it",
        ),
        (
            Error::Denied { row_group: 1, column: column(), values: 2 },
            "row group 1, column id: the written filter denies 2 of its own values, so the new file cannot be used; \
             check disk and memory, and try again",
        ),
        (Error::Changed, "the file changed while it was read or copied; wait for its writer, and try again"),
        (check_rate(2.0).unwrap_err(), "false-positive rate 2: expected a rate above 0 and below 1; try 0.01"),
        (Error::invalid("column", "no column; choose one"), "column: no column; choose one"),
        (
            Error::damaged_index("row 3", 7, WRONG_CHECKSUM),
            "damaged index: row 3 at offset 7: the part fails its checksum; search all indexed files and build the index \
             again",
        ),
        (
            Error::TooLarge { what: "the index" },
            "the index does not fit in memory or in the format; index fewer files, or build the index with a higher FPR",
        ),
        (
            Error::SelfCheckFailed { denied: 3 },
            "the new index denies 3 of its own keys, and nothing was written; build it again, and test this machine's \
             memory",
        ),
    ];
    check_messages!(
        Error {
            Io, InFile, Corrupt, ChunkMismatch, Unsupported, Values, Denied, Changed, Invalid,
            DamagedIndex, TooLarge, SelfCheckFailed,
        } table
    );
}
