//! Tests of keys that are values of a Parquet column.

use std::sync::Arc;

use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type};
use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::shell::Shell;

/// Returns a file with one row group and one required column `v`, which has a filter.
fn file_of<T: DataType>(column: &str, values: &[T::T]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ required {column}; }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_bloom_filter_enabled(true).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut row_group = writer.next_row_group().unwrap();
    let mut column = row_group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, None, None).unwrap();
    column.close().unwrap();
    row_group.close().unwrap();
    writer.close().unwrap();
    bytes
}

fn fixed(column: &str, value: &[u8]) -> Vec<u8> {
    file_of::<FixedLenByteArrayType>(column, &[FixedLenByteArray::from(ByteArray::from(value.to_vec()))])
}

/// Makes a shell with the file `rows` and an index of it.
fn indexed(rows: &[u8]) -> Shell {
    let shell = Shell::new();
    shell.write("rows", rows);
    shell.run(&["index", "build", "-o", "index", "--column", "v", "rows"]).exits(0);
    shell
}

const UUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";

#[test]
fn a_key_of_another_length_is_refused_for_fixed_columns() {
    let shell = indexed(&fixed("fixed_len_byte_array(3) v", b"abc"));
    for query in [&["index", "query", "index"][..], &["query", "--column", "v", "rows"]] {
        let run = |more: &[&str]| shell.run(&[query, more].concat());
        run(&["abc"]).exits(0);
        run(&["abcd"]).fails_with(&["3 bytes", "--hex"]);
        run(&["--type", "utf8", "ab"]).fails_with(&["3 bytes"]);
        run(&["--type", "uuid", UUID]).fails_with(&["3 bytes"]);
        run(&["--hex", "616263"]).exits(0);
        run(&["--hex", "6162"]).fails_with(&["3 bytes"]);
    }
}

#[test]
fn the_text_of_a_uuid_is_converted() {
    let shell = indexed(&fixed("fixed_len_byte_array(16) v (UUID)", &(0..16).collect::<Vec<u8>>()));
    for query in [&["index", "query", "index"][..], &["query", "--column", "v", "rows"]] {
        let run = |more: &[&str]| shell.run(&[query, more].concat());
        run(&[UUID]).exits(0);
        run(&[&UUID.replace('-', "").to_uppercase()]).exits(0);
        run(&["0123456789abcdef"]).fails_with(&["uuid"]);
        run(&["--hex", "000102030405060708090a0b0c0d0e0f"]).exits(0);
    }
}

#[test]
fn plain_text_is_refused_where_it_is_not_the_stored_value() {
    for (column, hint) in
        [("int64 v (TIMESTAMP(MILLIS,true))", "--type int64"), ("int64 v (TIME(MICROS,false))", "--type int64")]
    {
        let shell = indexed(&file_of::<Int64Type>(column, &[7]));
        shell.run(&["index", "query", "index", "7"]).fails_with(&["--hex", hint]);
        shell.run(&["index", "query", "index", "--type", "int64", "7"]).exits(0);
        shell.run(&["index", "query", "index", "--hex", "0700000000000000"]).exits(0);
    }
    let shell = indexed(&file_of::<Int32Type>("int32 v (DATE)", &[7]));
    shell.run(&["index", "query", "index", "7"]).fails_with(&["--hex", "--type int32"]);
    shell.run(&["index", "query", "index", "--type", "int32", "7"]).exits(0);
    let shell = indexed(&fixed("fixed_len_byte_array(2) v (FLOAT16)", b"\0\x3c"));
    for query in [&["index", "query", "index"][..], &["query", "--column", "v", "rows"]] {
        shell.run(&[query, &["1."]].concat()).fails_with(&["--hex"]);
        shell.run(&[query, &["--hex", "003c"]].concat()).exits(0);
    }
    let shell = indexed(&file_of::<ByteArrayType>("binary v (DECIMAL(9,2))", &[ByteArray::from(vec![7])]));
    shell.run(&["index", "query", "index", "0.07"]).fails_with(&["--hex"]);
    let shell = indexed(&file_of::<ByteArrayType>("binary v (STRING)", &[ByteArray::from("x")]));
    shell.run(&["index", "query", "index", "x"]).exits(0);
}

#[test]
fn unsigned_columns_take_unsigned_numbers() {
    let shell = indexed(&file_of::<Int32Type>("int32 v (INTEGER(32,false))", &[-2]));
    shell.run(&["index", "query", "index", "4294967294"]).exits(0);
    shell.run(&["index", "query", "index", "-2"]).fails_with(&["uint32"]);
}

#[test]
fn files_of_another_logical_type_are_refused() {
    let int64 = |column: &str| file_of::<Int64Type>(column, &[7]);
    for (one, other, names) in [
        (
            "int64 v (TIMESTAMP(MILLIS,true))",
            "int64 v (TIMESTAMP(MICROS,true))",
            ["timestamp(ms,utc)", "timestamp(us,utc)"],
        ),
        (
            "int64 v (TIMESTAMP(MILLIS,true))",
            "int64 v (TIMESTAMP(MILLIS,false))",
            ["timestamp(ms,utc)", "timestamp(ms,local)"],
        ),
        ("int64 v (DECIMAL(9,2))", "int64 v (DECIMAL(9,3))", ["decimal(9,2)", "decimal(9,3)"]),
        ("int64 v", "int64 v (INTEGER(64,false))", ["none", "uint64"]),
    ] {
        let shell = indexed(&int64(one));
        shell.write("other", int64(other));
        let index = std::fs::read(shell.path("index")).unwrap();
        shell.run(&["index", "add", "index", "other"]).fails_with(&["other", names[0], names[1]]);
        assert!(std::fs::read(shell.path("index")).unwrap() == index);
        let build = ["index", "build", "-o", "new", "--column", "v", "rows", "other"];
        shell.run(&build).fails_with(&["other", names[0], names[1]]);
    }
    // The converted type of an older writer equals the logical type of a newer writer. INT64
    // without a logical type equals a signed integer of 64 bits.
    let shell = indexed(&int64("int64 v (TIMESTAMP_MILLIS)"));
    shell.write("other", int64("int64 v (TIMESTAMP(MILLIS,true))"));
    shell.run(&["index", "add", "index", "other"]).exits(0);
    let shell = indexed(&int64("int64 v"));
    shell.write("other", int64("int64 v (INTEGER(64,true))"));
    shell.run(&["index", "add", "index", "other"]).exits(0);
}

#[test]
fn a_zero_in_hex_is_found_with_both_signs() {
    for zero in [0.0_f32, -0.0] {
        let shell = indexed(&file_of::<FloatType>("float v", &[zero, 1.5]));
        for query in [&["index", "query", "index"][..], &["query", "--column", "v", "rows"]] {
            for written in ["00000000", "00000080"] {
                shell.run(&[query, &["--hex", written]].concat()).exits(0);
            }
        }
    }
}

#[test]
fn filters_that_are_provably_damaged_are_refused() {
    let sound = file_of::<Int64Type>("int64 v", &(0..1_000).collect::<Vec<i64>>());
    let file = filterblock_parquet::ParquetFile::open(sound.clone()).unwrap();
    let chunk = file.column_chunks()[0].clone();
    let (start, len) = (chunk.filter.unwrap().offset as usize, chunk.filter.unwrap().len_bytes.unwrap() as usize);
    let bits = file.filter(&chunk).unwrap().unwrap().bits().len();
    let bits = start + len - bits..start + len;
    let build = |bytes: &[u8]| {
        let shell = Shell::new();
        shell.write("rows", bytes);
        shell.run(&["index", "build", "-o", "index", "--column", "v", "--from-filters", "rows"])
    };
    build(&sound).exits(0);
    let mut zero = sound.clone();
    zero[bits.clone()].fill(0);
    build(&zero).fails_with(&["rows", "no bit", "--from-filters"]);
    let mut lane = sound;
    lane[bits.start..bits.start + 4].fill(0);
    build(&lane).fails_with(&["rows", "block 0", "--from-filters"]);
}

#[test]
fn a_chunk_with_only_nulls_may_have_an_empty_filter() {
    let schema = Arc::new(parse_message_type("message m { optional int64 v; }").unwrap());
    let properties = Arc::new(WriterProperties::builder().set_bloom_filter_enabled(true).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for (values, levels) in [(vec![], vec![0; 9]), (vec![7], vec![1])] {
        let mut row_group = writer.next_row_group().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    let shell = Shell::new();
    shell.write("rows", bytes);
    shell.run(&["index", "build", "-o", "index", "--column", "v", "--from-filters", "rows"]).exits(0);
    shell.run(&["index", "query", "index", "7"]).exits(0);
}
