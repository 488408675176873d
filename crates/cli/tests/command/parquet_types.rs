//! Tests of the types with which an engine loses rows if their columns have filters.

use std::fs;
use std::sync::Arc;

use filterblock_parquet::Loss;
use parquet::basic::Type;
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::repository;
use crate::shell::Shell;

/// The fields of the refused types, with the names of their types.
const REFUSED: [(&str, &str); 9] = [
    ("required fixed_len_byte_array(2) c (FLOAT16)", "float16"),
    ("required fixed_len_byte_array(12) c (INTERVAL)", "interval"),
    ("required fixed_len_byte_array(17) c (DECIMAL(39,0))", "decimal256"),
    ("required fixed_len_byte_array(32) c (DECIMAL(76,2))", "decimal256"),
    ("required binary c (DECIMAL(39,2))", "decimal256"),
    ("required binary c (DECIMAL(76,76))", "decimal256"),
    ("required group g { required fixed_len_byte_array(12) c (INTERVAL); }", "interval"),
    ("optional group g (LIST) { repeated group list { required binary c (DECIMAL(50,2)); } }", "decimal256"),
    ("required group g { repeated fixed_len_byte_array(2) c (FLOAT16); }", "float16"),
];
const ACCEPTED: [&str; 14] = [
    "required fixed_len_byte_array(16) c (UUID)",
    "required fixed_len_byte_array(16) c (DECIMAL(38,2))",
    "required fixed_len_byte_array(32) c (DECIMAL(38,38))",
    "required fixed_len_byte_array(1) c (DECIMAL(1,0))",
    "required binary c (DECIMAL(1,0))",
    "required binary c (DECIMAL(38,0))",
    "required int32 c (DECIMAL(9,2))",
    "required int64 c (DECIMAL(18,2))",
    "required int64 c (TIMESTAMP(NANOS,true))",
    "required binary c (JSON)",
    "required binary c (BSON)",
    "required fixed_len_byte_array(2) c",
    "required fixed_len_byte_array(12) c",
    "required group g { required int64 c; }",
];
const ROWS: usize = 300;

/// Returns a file with one leaf column and one row group.
fn file(field: &str) -> Vec<u8> {
    file_with(field, WriterProperties::builder())
}

fn file_with(field: &str, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let end = if field.ends_with('}') { "" } else { ";" };
    let schema = Arc::new(parse_message_type(&format!("message m {{ {field}{end} }}")).unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(properties.set_dictionary_enabled(false).build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let column = writer.schema_descr().column(0);
    let value = |row: usize| [&[0; 8][..], &(row as u64).to_le_bytes(), &[0; 16]].concat();
    let mut row_group = writer.next_row_group().unwrap();
    let mut chunk = row_group.next_column().unwrap().unwrap();
    let (defined, repeated) = (vec![column.max_def_level(); ROWS], vec![0; ROWS]);
    let levels = || (Some(&defined[..]), Some(&repeated[..]));
    let (def, rep) = levels();
    let num = match column.physical_type() {
        Type::INT32 => chunk.typed::<Int32Type>().write_batch(&(0..ROWS as i32).collect::<Vec<_>>(), def, rep),
        Type::INT64 => chunk.typed::<Int64Type>().write_batch(&(0..ROWS as i64).collect::<Vec<_>>(), def, rep),
        Type::BYTE_ARRAY => {
            let values: Vec<ByteArray> = (0..ROWS).map(|row| value(row)[..16].to_vec().into()).collect();
            chunk.typed::<ByteArrayType>().write_batch(&values, def, rep)
        }
        _ => {
            let len = column.type_length() as usize;
            let at = if len < 8 { 16 - len } else { 0 };
            let values = (0..ROWS).map(|row| ByteArray::from(value(row)[at..at + len].to_vec()));
            let values: Vec<FixedLenByteArray> = values.map(Into::into).collect();
            chunk.typed::<FixedLenByteArrayType>().write_batch(&values, def, rep)
        }
    };
    assert_eq!(num.unwrap(), ROWS);
    chunk.close().unwrap();
    row_group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// Returns the path of the column `c` in a file with this field.
fn path_of(field: &str) -> &'static str {
    match field {
        _ if field.contains("LIST") => "g.list.c",
        _ if field.contains("group g") => "g.c",
        _ => "c",
    }
}

#[test]
fn a_type_with_which_an_engine_loses_rows_is_refused() {
    for (field, name) in REFUSED {
        let (shell, path) = (Shell::new(), path_of(field));
        shell.write("a.parquet", file(field));
        let loss = Loss::ALL.iter().find(|loss| loss.name == name).unwrap();
        let force = format!("--force-type {name}");
        for target in [&["-o", "b.parquet"][..], &["--in-place"], &["--dry-run"]] {
            let run = shell.run(&[&["parquet", "add", "a.parquet", "--column", path], target].concat());
            run.fails_with(&[path, loss.kind, "DuckDB 2.0", "loses rows", "omit this column", &force]);
        }
        assert_eq!(shell.files(), ["a.parquet"], "{field}");
        assert_eq!(fs::read(shell.path("a.parquet")).unwrap(), file(field), "{field}");
    }
}

#[test]
fn other_types_are_accepted() {
    for field in ACCEPTED {
        let (shell, path) = (Shell::new(), path_of(field));
        shell.write("a.parquet", file(field));
        shell.run(&["parquet", "add", "a.parquet", "--column", path, "-o", "b.parquet"]).exits(0);
        let text = shell.run(&["parquet", "check", "b.parquet", "--column", path, "--values"]).exits(0);
        assert!(!text.contains("loses rows") && text.contains("1 of 1 row groups: 1 "), "{field}: {text}");
        assert!(!fs::read(shell.path("b.parquet")).unwrap().windows(12).any(|part| part == b"filterblock."), "{field}");
    }
}

/// UTF8, TIMESTAMP_MILLIS and INT_16 are annotations of older writers.
#[test]
fn check_names_the_engines_that_use_the_filters_of_a_type() {
    let all = &["DuckDB", "DataFusion", "ClickHouse", "hyparquet"][..];
    let but_one = &["DuckDB", "ClickHouse", "hyparquet"][..];
    for (fields, engines) in [
        (
            &[
                "required binary c (STRING)",
                "required binary c (UTF8)",
                "required int64 c",
                "required int64 c (UINT_64)",
            ][..],
            all,
        ),
        (&["required int32 c (INTEGER(16,true))", "required int32 c (INT_16)"], but_one),
        (&["required group g { required int64 c; }"], but_one),
        (&["required binary c (JSON)", "required int32 c (DECIMAL(9,2))"], &["DuckDB", "DataFusion"]),
        (&["required fixed_len_byte_array(16) c (DECIMAL(38,2))"], &["DataFusion"]),
        (&["required int32 c (DATE)", "required int64 c (TIMESTAMP(MILLIS,true))"], &["DuckDB"]),
        (&["required int64 c (TIMESTAMP_MILLIS)", "required fixed_len_byte_array(16) c (UUID)"], &["DuckDB"]),
        (&["required fixed_len_byte_array(2) c (FLOAT16)"], &[]),
    ] {
        for field in fields {
            let shell = Shell::new();
            shell.write("a.parquet", file(field));
            let report = shell.run(&["parquet", "check", "a.parquet", "--json"]).json(0);
            assert_eq!(report["files"][0]["columns"][0]["engines"], serde_json::json!(engines), "{field}");
        }
    }
    for untried in ["required binary c (BSON)", "required group g { repeated int64 c; }", "required binary c (ENUM)"] {
        let shell = Shell::new();
        shell.write("a.parquet", file(untried));
        let report = shell.run(&["parquet", "check", "a.parquet", "--json"]).json(0);
        assert!(report["files"][0]["columns"][0]["engines"].is_null(), "{untried}: {report}");
    }
}

#[test]
fn a_forced_type_leaves_a_mark_that_check_shows() {
    for (field, name) in REFUSED {
        let (shell, path) = (Shell::new(), path_of(field));
        shell.write("a.parquet", file(field));
        let add = ["parquet", "add", "a.parquet", "--column", path, "-o", "b.parquet", "--force", "--force-type"];
        shell
            .run(&[&add[..], &["nothing"]].concat())
            .fails_with(&["--force-type nothing", "float16, decimal256, interval"]);
        for accepted in [name, path, &name.to_uppercase()] {
            let run = shell.run(&[&add[..], &[accepted]].concat());
            assert!(run.stderr.contains("forced: ") && run.stderr.contains("DuckDB 2.0"), "{}", run.stderr);
            run.exits(0);
            for values in [&[][..], &["--values"]] {
                let check = [&["parquet", "check", "b.parquet", "--column", path][..], values].concat();
                let text = shell.run(&check).exits(1);
                assert!(text.contains("1 unsafe") && text.contains("added with --force-type"), "{field}: {text}");
                assert!(!text.contains("right") && !text.contains("parquet add"), "{field}: {text}");
                let report = shell.run(&[&check[..], &["--json"]].concat()).json(1);
                let column = &report["files"][0]["columns"][0];
                assert_eq!((&column["right"], &column["unsafe"]), (&0.into(), &1.into()), "{field}");
                assert_eq!((&column["is_forced"], &column["chunks"][0]["filter"]), (&true.into(), &"unsafe".into()));
            }
        }
    }
}

#[test]
fn filters_of_intervals_that_duckdb_wrote_are_right() {
    let shell = Shell::new();
    let field = "required fixed_len_byte_array(12) c (INTERVAL)";
    let key = KeyValue::new("duckdb.interval_bloom_filter".to_owned(), "normalized-v1".to_owned());
    for (keys, status, verdict) in [(vec![key], 0, "1 right"), (vec![], 1, "1 unsafe")] {
        let properties = WriterProperties::builder().set_bloom_filter_enabled(true).set_bloom_filter_max_ndv(300);
        shell.write("a.parquet", file_with(field, properties.set_key_value_metadata(Some(keys))));
        let text = shell.run(&["parquet", "check", "a.parquet", "--values"]).exits(status);
        assert!(text.contains(verdict), "{text}");
        let add = ["parquet", "add", "a.parquet", "--column", "c", "--replace", "-o", "b.parquet", "--force"];
        shell.run(&[&add[..], &["--force-type", "c"]].concat()).exits(0);
        let text = shell.run(&["parquet", "check", "b.parquet", "--values"]).exits(1);
        assert!(text.contains("1 unsafe") && text.contains("added with --force-type"), "{text}");
    }
}

#[test]
fn check_does_not_advise_filters_for_a_refused_type() {
    for (field, _) in REFUSED {
        let (shell, path) = (Shell::new(), path_of(field));
        shell.write("a.parquet", file(field));
        let text = shell.run(&["parquet", "check", "a.parquet"]).exits(0);
        assert!(text.contains("DuckDB 2.0 loses rows") && !text.contains("parquet add"), "{field}: {text}");
        let text = shell.run(&["parquet", "check", "a.parquet", "--column", path]).exits(1);
        assert!(text.contains("omit this column") && !text.contains("parquet add"), "{field}: {text}");
    }
}

#[test]
fn the_page_and_the_help_name_each_refused_type() {
    let page = fs::read_to_string(repository("docs/PARQUET.md")).unwrap();
    let help = Shell::new().run(&["parquet", "add", "--help"]).exits(0);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for Loss { name, kind, engine, reason, .. } in Loss::ALL {
        let row = format!("| `{name}` | {kind} | {engine} | {reason} |");
        assert!(page.contains(&row), "docs/PARQUET.md lacks the row {row}");
        assert!(help.contains(name) && help.contains(kind), "the help lacks {name} or {kind}");
    }
}
