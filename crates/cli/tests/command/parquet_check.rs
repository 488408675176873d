//! Tests of `filterblock parquet check`: sizes, damage, missing filters, exit statuses and output.

use std::fs;
use std::sync::Arc;

use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use crate::parquet_add::parquet_file;
use crate::shell::{Run, Shell};

/// Returns a shell with `plain.parquet`, and with `a.parquet`, whose column `id` has filters.
fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("plain.parquet", parquet_file(false));
    add(&shell, "plain.parquet", "a.parquet", &[]);
    shell
}

fn add(shell: &Shell, from: &str, to: &str, options: &[&str]) {
    shell.run(&[&["parquet", "add", from, "--column", "id", "-o", to], options].concat()).exits(0);
}

fn check(shell: &Shell, arguments: &[&str]) -> Run {
    shell.run(&[&["parquet", "check"], arguments].concat())
}

/// Returns the first column of the first file in a report.
fn column(report: &Value) -> &Value {
    &report["files"][0]["columns"][0]
}

/// Fills a part of the first filter with zeros. `from` is the offset of the part from the start of
/// the filter header.
fn clear_filter(shell: &Shell, name: &str, from: usize, len: usize) {
    let report = check(shell, &[name, "--column", "id", "--json"]).json(0);
    let at = column(&report)["chunks"][0]["offset"].as_u64().unwrap() as usize + from;
    let mut bytes = fs::read(shell.path(name)).unwrap();
    bytes[at..at + len].fill(0);
    fs::write(shell.path(name), bytes).unwrap();
}

#[test]
fn right_filters_give_no_findings() {
    let shell = shell();
    for option in [&[][..], &["--values"]] {
        let run = check(&shell, &[&["a.parquet", "--column", "id"], option].concat());
        assert!(run.stderr.is_empty(), "{}", run.stderr);
        let text = run.exits(0);
        assert!(text.starts_with("a.parquet: 3 row groups\n"), "{text}");
        assert!(text.contains("in 3 of 3 row groups: 3 right"), "{text}");
        assert!(text.contains("DuckDB, DataFusion, ClickHouse, hyparquet"), "{text}");
        assert_eq!(text.contains(" about "), option.is_empty(), "{text}");
    }
    let report = check(&shell, &["a.parquet", "--column", "id", "--values", "--json"]).json(0);
    let id = column(&report);
    assert_eq!((&id["distinct_values"], &id["false_negatives"], &id["reads"]), (&6000.into(), &0.into(), &1.into()));
    assert_eq!(id["chunks"].as_array().unwrap().len(), 3);
}

#[test]
fn a_missing_filter_is_a_finding_only_for_a_named_column() {
    let shell = shell();
    let text = check(&shell, &["plain.parquet", "--column", "id"]).exits(1);
    assert!(text.contains("id: row groups 0, 1, 2 without a filter; run filterblock parquet add"), "{text}");
    let text = check(&shell, &["plain.parquet"]).exits(0);
    assert!(text.contains("none; reason against a filter: a Boolean has two values"), "{text}");
    assert!(text.contains("none; reason against a filter: sorted"), "{text}");
    // Without --values, the number of distinct values of `kind` is unknown.
    assert!(text.contains("--column id,user.name,kind -o OUT"), "{text}");
    let text = check(&shell, &["plain.parquet", "--values"]).exits(0);
    assert!(text.contains("none; reason against a filter: at most 5 distinct values in a row group"), "{text}");
    assert!(text.contains("--column id,user.name -o OUT"), "{text}");
}

#[test]
fn the_hint_has_the_rate_of_the_check() {
    let shell = shell();
    let hint = |option: &[&str]| check(&shell, &[&["plain.parquet", "--values"], option].concat()).exits(0);
    let text = hint(&["--fpr", "0.001"]);
    assert!(text.contains("parquet add plain.parquet --column id,user.name --fpr 0.001 -o OUT"), "{text}");
    // Without the option, `parquet add` and `parquet check` have the same default.
    assert!(!hint(&[]).contains("--fpr"));
}

#[test]
fn no_advice_names_a_column_that_parquet_add_refuses() {
    let shell = Shell::new();
    let schema = "message m { required group a { required int64 b; } required int64 a.b; required int64 c; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    for (name, has_filters) in [("plain.parquet", false), ("a.parquet", true)] {
        let properties = WriterProperties::builder().set_bloom_filter_enabled(has_filters);
        let properties = Arc::new(properties.set_dictionary_enabled(false).build());
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema.clone(), properties).unwrap();
        for group in 0..2 {
            let mut row_group = writer.next_row_group().unwrap();
            while let Some(mut column) = row_group.next_column().unwrap() {
                column.typed::<Int64Type>().write_batch(&[7, -9, group], None, None).unwrap();
                column.close().unwrap();
            }
            row_group.close().unwrap();
        }
        writer.close().unwrap();
        shell.write(name, bytes);
    }
    let text = check(&shell, &["plain.parquet"]).exits(0);
    assert!(text.contains("filterblock parquet add plain.parquet --column c -o OUT"), "{text}");
    let text = check(&shell, &["a.parquet"]).exits(0);
    assert_eq!(text.matches("--column").count(), 1, "{text}");
    assert!(text.contains("filterblock parquet add a.parquet --column c --replace -o OUT"), "{text}");
    assert!(
        text.contains("a.b: the filters lie in 2 places, so a reader needs 2 reads; several columns have"),
        "{text}"
    );
}

#[test]
fn sizes_are_judged_and_the_remedy_works() {
    let shell = shell();
    add(&shell, "plain.parquet", "long.parquet", &["--bits-per-key", "90"]);
    let text = check(&shell, &["long.parquet", "--column", "id"]).exits(0);
    assert!(text.contains("3 oversized") && text.contains(" suffice; run filterblock"), "{text}");
    add(&shell, "plain.parquet", "short.parquet", &["--bits-per-key", "2"]);
    let text = check(&shell, &["short.parquet", "--column", "id"]).exits(1);
    assert!(text.contains("row groups 0, 1, 2: the filter is undersized; run"), "{text}");
    add(&shell, "short.parquet", "new.parquet", &["--replace"]);
    check(&shell, &["new.parquet", "--column", "id"]).exits(0);
    check(&shell, &["short.parquet", "--column", "id", "--max-fpr", "0.99"]).exits(0);
}

#[test]
fn a_denied_value_is_damage_and_values_find_it() {
    let shell = shell();
    clear_filter(&shell, "a.parquet", 100, 256);
    check(&shell, &["a.parquet", "--column", "id"]).exits(0);
    let run = check(&shell, &["a.parquet", "--column", "id", "--values"]);
    let text = run.exits(1);
    assert!(text.contains("id: row group 0: the filter denies "), "{text}");
    assert!(text.contains("so readers lose rows; run filterblock parquet add a.parquet"), "{text}");
    let report = check(&shell, &["a.parquet", "--values", "--json"]).json(1);
    let lost = |group: usize| column(&report)["chunks"][group]["false_negatives"].as_u64().unwrap();
    assert!(lost(0) > 10 && lost(0) < 2_000, "{report}");
    assert_eq!((lost(1), lost(2), &column(&report)["false_negatives"]), (0, 0, &lost(0).into()));
}

#[test]
fn a_damaged_header_is_named_with_its_offset() {
    let shell = shell();
    clear_filter(&shell, "a.parquet", 0, 1);
    let report = check(&shell, &["a.parquet", "--column", "id", "--json"]).json(1);
    let id = column(&report);
    assert_eq!((&id["damaged"], &id["right"], &id["filters"]), (&1.into(), &2.into(), &3.into()));
    let offset = id["chunks"][0]["offset"].as_u64().unwrap();
    let text = check(&shell, &["a.parquet"]).exits(1);
    assert!(text.contains(&format!("filter at offset {offset} is not valid")), "{text}");
    assert!(text.contains("in 3 of 3 row groups: 2 right, 1 damaged"), "{text}");
}

#[test]
fn quiet_prints_nothing_and_keeps_the_status() {
    let shell = shell();
    for (file, status) in [("a.parquet", 0), ("plain.parquet", 1)] {
        let run = check(&shell, &[file, "--column", "id", "--quiet"]);
        assert!(run.stderr.is_empty(), "{}", run.stderr);
        assert_eq!(run.exits(status), "");
    }
}

#[test]
fn an_error_in_one_file_does_not_end_the_check() {
    let shell = shell();
    shell.write("bad.parquet", b"PAR1 not a file PAR1");
    let run = check(&shell, &["bad.parquet", "*in.parquet", "a.parquet", "--column", "id", "--json"]);
    assert!(run.stderr.contains("bad.parquet: not a sound Parquet file"), "{}", run.stderr);
    assert!(run.stderr.contains("1 of 3 files could not be checked"), "{}", run.stderr);
    let report = run.json(2);
    assert_eq!((&report["failed"], &report["findings"]), (&1.into(), &1.into()));
    assert_eq!(report["files"].as_array().unwrap().len(), 2);
    check(&shell, &["a.parquet", "--column", "nope"]).fails_with(&["a.parquet: there is no column nope"]);
    check(&shell, &["a.parquet", "--max-fpr", "0.001"]).fails_with(&["--max-fpr 0.001", "--fpr 0.01", "try 0.06"]);
    check(&shell, &["a.parquet", "--fpr", "0.2"]).fails_with(&["--max-fpr 0.06", "--fpr 0.2", "try 0.2"]);
    check(&shell, &["a.parquet", "--quiet", "--json"]).fails_with(&["--json"]);
}

#[test]
fn values_that_cannot_be_read_are_an_error() {
    let shell = shell();
    let mut bytes = fs::read(shell.path("a.parquet")).unwrap();
    bytes[4..12].fill(0xff);
    fs::write(shell.path("a.parquet"), bytes).unwrap();
    check(&shell, &["a.parquet", "--column", "id"]).exits(0);
    let run = check(&shell, &["a.parquet", "--column", "id", "--values"]);
    assert!(run.stderr.contains("a.parquet: row group 0, column id: cannot read the values"), "{}", run.stderr);
    assert!(run.exits(2).contains("3 right"));
}
