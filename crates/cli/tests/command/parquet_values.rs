//! Tests of values of Parquet columns that users write as text: each is exact, or an error.

use std::sync::Arc;

use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::shell::{Run, Shell};

/// Returns a file with one row group, which has these values of the column `v`, and its filter.
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

/// Makes a shell with the file `rows` of these values, and the index `index`.
fn shell<T: DataType>(column: &str, values: &[T::T]) -> Shell {
    let shell = Shell::new();
    shell.write("rows", file_of::<T>(column, values));
    shell.run(&["index", "build", "-o", "index", "--column", "v", "rows"]).exits(0);
    shell
}

/// Asks for a value in every way. Returns the runs of `query`, `index query` and `verify`.
fn ask(shell: &Shell, options: &[&str], value: &str) -> [Run; 3] {
    shell.write("key", format!("{value}\n"));
    let run = |command: &[&str], file: &[&str]| shell.run(&[command, options, file].concat());
    [
        run(&["query", "--column", "v", "rows"], &["--keys", "key"]),
        run(&["index", "query", "index"], &["--keys", "key"]),
        run(&["verify", "--column", "v", "rows"], &["--against", "key"]),
    ]
}

/// Asserts the status of each way to ask: 0 for a present value, 1 for an absent one.
fn assert_exits(shell: &Shell, value: &str, status: i32) {
    for run in ask(shell, &[], value) {
        assert_eq!(run.status, status, "{value}: {run:?}");
    }
}

fn assert_refused(shell: &Shell, value: &str, words: &[&str]) {
    for run in ask(shell, &[], value) {
        assert_eq!(run.status, 2, "{value}: {run:?}");
        words.iter().for_each(|word| assert!(run.stderr.contains(word), "{value}: {word}: {run:?}"));
    }
}

fn fixed(value: &[u8]) -> FixedLenByteArray {
    FixedLenByteArray::from(ByteArray::from(value.to_vec()))
}

#[test]
fn decimals_are_scaled_exactly_or_refused() {
    let shells = [
        shell::<Int32Type>("int32 v (DECIMAL(9,2))", &[200, -1, 0, 999_999_999]),
        shell::<Int64Type>("int64 v (DECIMAL(9,2))", &[200, -1, 0, 999_999_999]),
        shell::<FixedLenByteArrayType>(
            "fixed_len_byte_array(5) v (DECIMAL(9,2))",
            &[200, -1, 0, 999_999_999].map(|number: i64| {
                let mut bytes = number.to_le_bytes();
                bytes.reverse();
                fixed(&bytes[3..])
            }),
        ),
    ];
    for shell in &shells {
        for value in ["2", "2.0", "2.00", "+2.000", " 2 ", "02", "2.", "-0.01", "-.01", "0", "-0", ".0", "9999999.99"] {
            assert_exits(shell, value, 0);
        }
        for value in ["200", "-1", "2.01", "0.02"] {
            assert_exits(shell, value, 1);
        }
        for value in ["2.005", "10000000", "1e3", "1_000", "two", ".", "2,5", "٢"] {
            assert_refused(shell, value, &["decimal(9,2)", "try 7.00"]);
        }
    }
    // --type asks for the stored number.
    for (shell, kind) in [(&shells[0], "int32"), (&shells[1], "int64")] {
        for (value, status) in [("200", 0), ("2", 1), ("-1", 0)] {
            assert_eq!(ask(shell, &["--type", kind], value).map(|run| run.status), [status; 3], "{value}");
        }
    }
    let negative = shell::<FixedLenByteArrayType>(
        "fixed_len_byte_array(17) v (DECIMAL(40,3))",
        &[fixed(&[&[0xff; 16][..], &[0x18]].concat())],
    );
    assert_exits(&negative, "-0.232", 0);
    assert_exits(&negative, "0.024", 1);
}

#[test]
fn integers_follow_the_width_and_the_sign_of_their_type() {
    let unsigned = shell::<Int32Type>("int32 v (INTEGER(32,false))", &[-1, 7]);
    assert_exits(&unsigned, "4294967295", 0);
    assert_refused(&unsigned, "-1", &["uint32", "0 to 4294967295"]);
    assert_refused(&unsigned, "4294967296", &["uint32"]);
    let unsigned = shell::<Int64Type>("int64 v (UINT_64)", &[-1, 7]);
    assert_exits(&unsigned, "18446744073709551615", 0);
    assert_refused(&unsigned, "18446744073709551616", &["uint64"]);
    let small = shell::<Int32Type>("int32 v (INTEGER(8,false))", &[255]);
    assert_exits(&small, "255", 0);
    assert_refused(&small, "256", &["uint8", "0 to 255"]);
    for column in ["int32 v (INTEGER(8,true))", "int32 v (INT_8)"] {
        let small = shell::<Int32Type>(column, &[-5]);
        assert_exits(&small, "-5", 0);
        // The index does not record the width of signed integers, so it answers that 300 is absent.
        let [query, index, verify] = ask(&small, &[], "300").map(|run| run.status);
        assert_eq!((query, index, verify), (2, 1, 2));
    }
    let plain = shell::<Int64Type>("int64 v", &[5, 0]);
    for value in ["5", "+5", " 5", "05", "-0"] {
        assert_exits(&plain, value, 0);
    }
    for value in ["5.", "5.0", "1e3", "1_000", "٥", "9223372036854775808", "0x5"] {
        assert_refused(&plain, value, &["int64"]);
    }
}

#[test]
fn floats_out_of_range_are_refused() {
    let shell = shell::<FloatType>("float v", &[0.0, 1.5, f32::INFINITY]);
    for value in ["0", "-0.0", "+1.5", "15e-1", "inf", "1.50"] {
        assert_exits(&shell, value, 0);
    }
    for value in ["1e400", "-3.5e38", "1e-60", "nan", "1_0", "1,5"] {
        assert_refused(&shell, value, &[]);
    }
}

#[test]
fn dates_and_times_are_written_as_text() {
    for (column, text, zone, unit) in [
        ("int64 v (TIMESTAMP(MILLIS,true))", "1970-01-01T00:00:00.007Z", "in UTC", "milliseconds"),
        ("int64 v (TIMESTAMP(NANOS,false))", "1970-01-01 00:00:00.000000007", "in local time", "nanoseconds"),
        ("int64 v (TIME(MICROS,false))", "00:00:00.000007", "in local time", "microseconds"),
        ("int64 v (TIMESTAMP_MICROS)", "1970-01-01T01:00:00.000007+01:00", "in UTC", "microseconds"),
    ] {
        let shell = shell::<Int64Type>(column, &[7]);
        assert_exits(&shell, text, 0);
        assert_exits(&shell, &text.replace("07", "08"), 1);
        for value in ["7", "x", "1970-01-01"] {
            assert_refused(&shell, value, &[zone, unit, "; try ", "--type int64"]);
        }
        assert_eq!(ask(&shell, &["--type", "int64"], "7").map(|run| run.status), [0; 3]);
        assert_eq!(ask(&shell, &["--hex"], "0700000000000000").map(|run| run.status), [0; 3]);
    }
    for (column, text) in [("int32 v (DATE)", "1970-01-08"), ("int32 v (TIME_MILLIS)", "00:00:00.007Z")] {
        let shell = shell::<Int32Type>(column, &[7]);
        assert_exits(&shell, text, 0);
        assert_refused(&shell, "7", &["; try ", "--type int32"]);
        assert_eq!(ask(&shell, &["--type", "int32"], "7").map(|run| run.status), [0; 3]);
    }
}

#[test]
fn other_logical_types_are_refused_with_a_hint() {
    for (column, value, name) in [
        ("fixed_len_byte_array(2) v (FLOAT16)", &b"\0\x3c"[..], "float16"),
        ("fixed_len_byte_array(12) v (INTERVAL)", &[7; 12], "interval"),
    ] {
        let shell = shell::<FixedLenByteArrayType>(column, &[fixed(value)]);
        assert_refused(&shell, "1", &[name, "--type bytes"]);
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ask(&shell, &["--hex"], &hex).map(|run| run.status), [0; 3]);
    }
    let decimal = shell::<ByteArrayType>("binary v (DECIMAL(9,2))", &[ByteArray::from(vec![7])]);
    assert_refused(&decimal, "0.07", &["--hex"]);
    assert_exits(&shell::<ByteArrayType>("binary v (STRING)", &[ByteArray::from("x")]), "x", 0);
}

const UUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";

/// The commands that ask for given values.
const QUERIES: [&[&str]; 2] = [&["index", "query", "index"], &["query", "--column", "v", "rows"]];

#[test]
fn a_key_of_another_length_is_refused_for_fixed_columns() {
    let shell = shell::<FixedLenByteArrayType>("fixed_len_byte_array(3) v", &[fixed(b"abc")]);
    for query in QUERIES {
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
    let shell =
        shell::<FixedLenByteArrayType>("fixed_len_byte_array(16) v (UUID)", &[fixed(&(0..16).collect::<Vec<u8>>())]);
    for query in QUERIES {
        let run = |more: &[&str]| shell.run(&[query, more].concat());
        run(&[UUID]).exits(0);
        run(&[&UUID.replace('-', "").to_uppercase()]).exits(0);
        run(&["0123456789abcdef"]).fails_with(&["uuid"]);
        run(&["--hex", "000102030405060708090a0b0c0d0e0f"]).exits(0);
    }
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
        let shell = shell::<Int64Type>(one, &[7]);
        shell.write("other", int64(other));
        let index = std::fs::read(shell.path("index")).unwrap();
        shell.run(&["index", "add", "index", "other"]).fails_with(&["other", names[0], names[1]]);
        assert!(std::fs::read(shell.path("index")).unwrap() == index);
        let build = ["index", "build", "-o", "new", "--column", "v", "rows", "other"];
        shell.run(&build).fails_with(&["other", names[0], names[1]]);
    }
    // The converted type of an older writer equals the logical type of a newer writer. INT64
    // without a logical type equals a signed integer of 64 bits.
    for (one, other) in
        [("int64 v (TIMESTAMP_MILLIS)", "int64 v (TIMESTAMP(MILLIS,true))"), ("int64 v", "int64 v (INTEGER(64,true))")]
    {
        let shell = shell::<Int64Type>(one, &[7]);
        shell.write("other", int64(other));
        shell.run(&["index", "add", "index", "other"]).exits(0);
    }
}

#[test]
fn a_zero_in_hex_is_found_with_both_signs() {
    for zero in [0.0_f32, -0.0] {
        let shell = shell::<FloatType>("float v", &[zero, 1.5]);
        for query in QUERIES {
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
