//! Tests of `filterblock parquet add`: files, folders, options, and files that are refused.

use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use filterblock_parquet::{Footer, append};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{ReaderProperties, WriterProperties};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::shell::Shell;

const SCHEMA: &str = "message m {
    required int64 id; optional group user { optional binary name (UTF8); } required int64 step; required boolean flag;
    required int64 kind;
}";
const ROWS: u64 = 2_000;
const GROUPS: u64 = 3;

pub fn id(row: u64) -> i64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed()
}

/// Returns a file of three row groups, with or without filters.
pub fn parquet_file(has_filters: bool) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_bloom_filter_enabled(has_filters);
    let properties = Arc::new(properties.set_dictionary_enabled(false).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for group in 0..GROUPS {
        let rows = group * ROWS..(group + 1) * ROWS;
        let mut row_group = writer.next_row_group().unwrap();
        let mut number = |make: &dyn Fn(u64) -> i64| {
            let mut column = row_group.next_column().unwrap().unwrap();
            let values: Vec<i64> = rows.clone().map(make).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        };
        number(&id);
        let mut column = row_group.next_column().unwrap().unwrap();
        let names: Vec<ByteArray> = rows.clone().map(|row| format!("user {row}").into_bytes().into()).collect();
        column.typed::<ByteArrayType>().write_batch(&names, Some(&vec![2; names.len()]), None).unwrap();
        column.close().unwrap();
        let mut number = |make: &dyn Fn(u64) -> i64| {
            let mut column = row_group.next_column().unwrap().unwrap();
            let values: Vec<i64> = rows.clone().map(make).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        };
        number(&|row| row.cast_signed());
        let mut column = row_group.next_column().unwrap().unwrap();
        let flags: Vec<bool> = rows.clone().map(|row| row % 2 == 0).collect();
        column.typed::<BoolType>().write_batch(&flags, None, None).unwrap();
        column.close().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let kinds: Vec<i64> = rows.map(|row| (row % 5).cast_signed()).collect();
        column.typed::<Int64Type>().write_batch(&kinds, None, None).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("a.parquet", parquet_file(false));
    shell
}

/// Returns the filters of a column, as the crate `parquet` reads them.
fn filters(shell: &Shell, name: &str, leaf: usize) -> Vec<Option<Sbbf>> {
    let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
    let options = ReadOptionsBuilder::new().with_reader_properties(properties).build();
    let file = fs::File::open(shell.path(name)).unwrap();
    let file = SerializedFileReader::new_with_options(file, options).unwrap();
    let filter = |group| file.get_row_group(group).unwrap().get_column_bloom_filter(leaf).cloned();
    (0..file.num_row_groups()).map(filter).collect()
}

fn assert_has_ids(shell: &Shell, name: &str) {
    for (group, filter) in filters(shell, name, 0).into_iter().enumerate() {
        let filter = filter.unwrap();
        let rows = group as u64 * ROWS..(group as u64 + 1) * ROWS;
        assert!(rows.clone().all(|row| filter.check(&id(row))), "{name} {group}");
        let others = (0..ROWS).filter(|row| filter.check(&id(row + 100 * ROWS))).count();
        assert!(others < 60, "{others} of {ROWS} absent values pass");
    }
}

#[test]
fn a_new_file_begins_with_the_old_one_and_has_the_filters() {
    let shell = shell();
    let run = shell.run(&["parquet", "add", "a.parquet", "--column", "id,user.name", "-o", "b.parquet"]);
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    let text = run.exits(0);
    assert!(text.starts_with("a.parquet -> b.parquet: 6 filters added; "), "{text}");
    assert!(text.contains("  id: 3 filters, together 6,000 distinct values and "), "{text}");
    let (old, new) = (fs::read(shell.path("a.parquet")).unwrap(), fs::read(shell.path("b.parquet")).unwrap());
    assert_eq!(old, parquet_file(false));
    assert!(new.starts_with(&old) && new.len() > old.len());
    assert_has_ids(&shell, "b.parquet");
    assert!(filters(&shell, "b.parquet", 1).iter().all(Option::is_some));
    assert!(filters(&shell, "b.parquet", 2).iter().all(Option::is_none));
    assert_eq!(shell.files(), ["a.parquet", "b.parquet"]);
    for row in ["user 0", "user 3999"] {
        let found = shell.run(&["query", "b.parquet", "--column", "user.name", row]).exits(0);
        assert!(found.contains("maybe"), "{found}");
    }
    shell.run(&["query", "b.parquet", "--column", "id", "42"]).exits(1);
}

#[test]
fn the_report_as_json_has_sizes_and_rates() {
    let shell = shell();
    let arguments = ["parquet", "add", "a.parquet", "--column", "id", "--exact-size", "-o", "b.parquet", "--json"];
    let report = shell.run(&arguments).json(0);
    let (file, column) = (&report["files"][0], &report["files"][0]["columns"][0]);
    assert_eq!((file["filters_added"].as_u64(), column["distinct_values"].as_u64()), (Some(3), Some(3 * ROWS)));
    let len = fs::metadata(shell.path("b.parquet")).unwrap().len();
    assert_eq!(file["new_len_bytes"].as_u64(), Some(len));
    let bits = column["len_bytes"].as_f64().unwrap() * 8.0 / (3 * ROWS) as f64;
    assert!((10.0..10.8).contains(&bits), "{bits}");
    assert!((0.005..=0.0101).contains(&column["fpr"].as_f64().unwrap()), "{column}");
    assert_has_ids(&shell, "b.parquet");
}

#[test]
fn in_place_replaces_the_file_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let shell = shell();
    let path = shell.path("a.parquet");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--in-place"]).exits(0);
    assert_has_ids(&shell, "a.parquet");
    assert!(fs::read(&path).unwrap().starts_with(&parquet_file(false)));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // A second run finds the filters and changes nothing.
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let text = shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--in-place"]).exits(0);
    assert_eq!(text, "a.parquet: 3 filters kept (--replace builds new ones)\n");
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(shell.files(), ["a.parquet"]);
}

#[test]
fn existing_filters_are_kept_unless_replaced() {
    let shell = Shell::new();
    shell.write("a.parquet", parquet_file(true));
    let run = |output: &str, option: &[&str]| {
        shell.run(&[&["parquet", "add", "a.parquet", "--column", "id", "-o", output], option].concat()).exits(0)
    };
    assert_eq!(run("kept.parquet", &[]), "a.parquet -> kept.parquet: 3 filters kept (--replace builds new ones)\n");
    assert_eq!(fs::read(shell.path("kept.parquet")).unwrap(), fs::read(shell.path("a.parquet")).unwrap());
    assert!(run("new.parquet", &["--replace"]).contains("3 filters added"));
    assert_has_ids(&shell, "new.parquet");
    let text = shell.run(&["parquet", "add", "a.parquet", "--fix-lengths", "--in-place"]).exits(0);
    assert_eq!(text, "a.parquet: nothing to add\n");
}

/// Returns the file with a footer that lacks the lengths of filters.
fn without_lengths(bytes: Vec<u8>) -> Vec<u8> {
    let footer_len = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let footer = bytes.len() - 8 - footer_len;
    let mut file = ParquetMetaDataReader::decode_metadata(&bytes[footer..bytes.len() - 8]).unwrap().into_builder();
    for group in file.take_row_groups() {
        let mut group = group.into_builder();
        for column in group.take_columns() {
            group = group.add_column_metadata(column.into_builder().set_bloom_filter_length(None).build().unwrap());
        }
        file = file.add_row_group(group.build().unwrap());
    }
    let mut out = bytes[..footer].to_vec();
    ParquetMetaDataWriter::new(&mut out, &file.build()).finish().unwrap();
    out
}

#[test]
fn a_damaged_filter_does_not_keep_lengths_from_the_others() {
    let shell = Shell::new();
    let mut bytes = without_lengths(parquet_file(true));
    let footer = Footer::read(&mut Cursor::new(&bytes)).unwrap();
    let num = footer.num_row_groups() * footer.leaves().len();
    let at = footer.chunk(1, 0).unwrap().filter.unwrap().offset;
    bytes[at as usize] = 0;
    shell.write("old.parquet", &bytes);
    let fix = |option: &[&str]| shell.run(&[&["parquet", "add", "old.parquet", "--fix-lengths"], option].concat());
    let run = fix(&["-o", "fixed.parquet"]);
    let told = format!(
        "old.parquet: row group 1, column id: the filter cannot be used, so its length is not added: the header \
                        of the filter at offset {at} is not valid; run filterblock parquet check old.parquet"
    );
    assert!(run.stderr.contains(&told), "{}", run.stderr);
    let added = format!("{} filter lengths added", num - 1);
    assert!(run.exits(0).contains(&added));
    let fixed = fs::read(shell.path("fixed.parquet")).unwrap();
    assert!(fixed.starts_with(&bytes));
    let footer = Footer::read(&mut Cursor::new(&fixed)).unwrap();
    let lacking: Vec<_> = append::without_length(&footer).map(|chunk| (chunk.row_group, chunk.leaf)).collect();
    assert_eq!(lacking, [(1, 0)]);
    let report = fix(&["--dry-run", "--json"]).json(0);
    let (file, damaged) = (&report["files"][0], &report["files"][0]["damaged_filters"][0]);
    assert_eq!(file["lengths_added"].as_u64(), Some(num as u64 - 1));
    assert_eq!((damaged["column"].as_str(), damaged["row_group"].as_u64()), (Some("id"), Some(1)));
    // A second run finds no length to add, and changes nothing.
    let arguments = ["parquet", "add", "fixed.parquet", "--fix-lengths", "--in-place"];
    assert_eq!(shell.run(&arguments).exits(0), "fixed.parquet: nothing to add\n");
    assert_eq!(fs::read(shell.path("fixed.parquet")).unwrap(), fixed);
}

#[test]
fn a_dry_run_estimates_the_growth_by_lengths() {
    let shell = Shell::new();
    shell.write("old.parquet", without_lengths(parquet_file(true)));
    let growth = |option: &[&str]| {
        let report =
            shell.run(&[&["parquet", "add", "old.parquet", "--fix-lengths", "--json"], option].concat()).json(0);
        let file = &report["files"][0];
        assert!(file["lengths_added"].as_u64().unwrap() > 0, "{file}");
        file["new_len_bytes"].as_f64().unwrap() - file["old_len_bytes"].as_f64().unwrap()
    };
    let (estimate, growth) = (growth(&["--dry-run"]), growth(&["-o", "fixed.parquet"]));
    assert!((0.9..1.1).contains(&(estimate / growth)), "{estimate} of {growth}");
}

#[test]
fn a_folder_keeps_its_structure_in_the_output() {
    let shell = Shell::new();
    for name in ["lake/day=1/a.parquet", "lake/day=2/a.parquet", "lake/_metadata", "lake/.hidden.parquet", "lake/x.txt"]
    {
        fs::create_dir_all(shell.path(name).parent().unwrap()).unwrap();
        shell.write(name, parquet_file(false));
    }
    shell.run(&["parquet", "add", "lake", "--column", "id", "-o", "out"]).exits(0);
    for name in ["out/day=1/a.parquet", "out/day=2/a.parquet"] {
        assert_has_ids(&shell, name);
    }
    assert!(!shell.path("out/_metadata").exists() && !shell.path("out/x.txt").exists());
    shell.run(&["parquet", "add", "lake/day=*/*.parquet", "--column", "id", "-o", "glob/"]).exits(0);
    assert_has_ids(&shell, "glob/day=2/a.parquet");
    let same = ["parquet", "add", "lake/day=1/a.parquet", "lake/day=2/a.parquet", "--column", "id", "-o", "o/"];
    shell.run(&same).fails_with(&["o/a.parquet", "two of the given files"]);
}

#[test]
fn an_error_in_one_file_does_not_stop_the_others() {
    let shell = shell();
    shell.write("bad.parquet", b"PAR1 not a file PAR1");
    let arguments = ["parquet", "add", "bad.parquet", "a.parquet", "--column", "id", "-o", "out/"];
    let run = shell.run(&arguments);
    assert!(run.stderr.contains("bad.parquet: not a sound Parquet file"), "{}", run.stderr);
    assert!(run.stderr.contains("1 of 2 files failed"), "{}", run.stderr);
    run.exits(2);
    assert_has_ids(&shell, "out/a.parquet");
    assert!(!shell.path("out/bad.parquet").exists());
}

#[test]
fn an_error_for_an_unknown_column_names_similar_ones() {
    let shell = shell();
    let fails = |name: &str, parts: &[&str]| {
        shell.run(&["parquet", "add", "a.parquet", "--column", name, "-o", "new/b.parquet"]).fails_with(parts);
    };
    fails("user.nam", &["there is no column user.nam", "did you mean user.name"]);
    fails("user", &["did you mean user.name?"]);
    fails("qqq", &["the columns are id, user.name, step, flag, kind"]);
    fails("flag", &["flag is Boolean"]);
    assert_eq!(shell.files(), ["a.parquet"]);
}

#[test]
fn columns_that_gain_little_get_a_tip() {
    let shell = shell();
    let run = shell.run(&["parquet", "add", "a.parquet", "--column", "kind,step", "--column", "id", "-o", "b.parquet"]);
    assert!(run.stderr.contains("column kind: few distinct values (at most 5 in a row group)"), "{}", run.stderr);
    assert!(run.stderr.contains("column step: sorted"), "{}", run.stderr);
    assert!(!run.stderr.contains("column id"), "{}", run.stderr);
    run.exits(0);
}

#[test]
fn the_advised_columns_of_each_file_get_filters() {
    let shell = shell();
    shell.run(&["parquet", "add", "a.parquet", "--column", "id", "-o", "lake/id.parquet"]).exits(0);
    shell.write("lake/none.parquet", parquet_file(false));
    let text = shell.run(&["parquet", "check", "lake"]).exits(0);
    assert!(text.contains("1 file: user.name, step, flag, kind none; id right (such as lake/id.parquet)"), "{text}");
    assert!(text.contains("filterblock parquet add lake --advised -o OUT"), "{text}");
    let (one, other) = ("lake/id.parquet", "lake/none.parquet");
    let text = shell.run(&["parquet", "check", "--fpr", "0.001", one, other, one, other]).exits(0);
    assert!(text.contains("filterblock parquet add FILE... --advised --fpr 0.001 -o OUT"), "{text}");
    let text = shell.run(&["parquet", "add", "--advised", "lake", "-o", "out"]).exits(0);
    assert_eq!(text.lines().filter(|line| line.starts_with("  id: 3 filters")).count(), 1, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("  user.name: 3 filters")).count(), 2, "{text}");
    assert!(!text.contains("  step: ") && !text.contains("  flag: "), "{text}");
    let text = shell.run(&["parquet", "check", "out/*.parquet", "--column", "id,user.name", "--values"]).exits(0);
    assert_eq!(text, "2 files: id, user.name right\n");
    let each = shell.run(&["parquet", "check", "--each", "--column", "id", "out"]).exits(0);
    assert!(
        each.contains("out/id.parquet: 3 row groups\n") && each.contains("out/none.parquet: 3 row groups\n"),
        "{each}"
    );
    let text = shell.run(&["parquet", "check", "--column", "id", "lake"]).exits(1);
    assert!(text.contains("1 file: id none") && text.contains("1 finding; --each names the files"), "{text}");
}

#[test]
fn a_dry_run_tells_the_size_and_writes_nothing() {
    let shell = shell();
    let dry = shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--dry-run", "--json"]).json(0);
    assert_eq!(shell.files(), ["a.parquet"]);
    let real = shell.run(&["parquet", "add", "a.parquet", "--column", "id", "-o", "b.parquet", "--json"]).json(0);
    let len = |report: &serde_json::Value| report["files"][0]["new_len_bytes"].as_f64().unwrap();
    assert!((len(&dry) / len(&real) - 1.0).abs() < 0.01, "{} {}", len(&dry), len(&real));
    let text = shell.run(&["parquet", "add", "a.parquet", "--column", "id", "--dry-run"]).exits(0);
    assert!(text.contains("3 filters would be added; about "), "{text}");
}

#[test]
fn companions_existing_outputs_and_missing_options_are_refused() {
    let shell = shell();
    shell.write("_metadata", parquet_file(false));
    let fails =
        |arguments: &[&str], parts: &[&str]| shell.run(&[&["parquet", "add"], arguments].concat()).fails_with(parts);
    fails(&["_metadata", "--column", "id", "-o", "b"], &["_metadata", "give the files with the data"]);
    fails(&["a.parquet", "--column", "id", "-o", "_metadata"], &["--force"]);
    fails(&["a.parquet", "--column", "id", "-o", "a.parquet", "--force"], &["also an input", "--in-place"]);
    fails(&["--column", "id", "--in-place"], &["missing <FILE>"]);
    fails(&["a.parquet", "--column", "id"], &["one of --output <OUT>, --in-place, --dry-run"]);
    fails(&["a.parquet", "--in-place"], &["--column"]);
    fails(&["a.parquet", "--column", "id", "--fpr", "1", "-o", "b"], &["false-positive rate 1", "try 0.01"]);
    fails(&["missing.parquet", "--column", "id", "-o", "b"], &["missing.parquet"]);
    fails(&["none*.parquet", "--column", "id", "-o", "b"], &["no file matches the pattern"]);
    assert_eq!(shell.files(), ["_metadata", "a.parquet"]);
}

/// Returns a shell with the file `a.parquet`, and `b.parquet` in the folders `in`, `in/day`, `out`
/// and `out/day`.
fn shell_with_folders() -> Shell {
    let shell = shell();
    for folder in ["in/day", "out/day", "in", "out"] {
        fs::create_dir_all(shell.path(folder)).unwrap();
        shell.write(&format!("{folder}/b.parquet"), parquet_file(true));
    }
    shell
}

#[test]
fn an_output_that_is_any_input_of_the_run_is_refused() {
    use std::os::unix::fs::symlink;
    let shell = shell_with_folders();
    // The output of in/day/b.parquet is out/day/b.parquet, which is an input too.
    let run = |files: &[&str], output: &str| {
        shell.run(&[&["parquet", "add"], files, &["--column", "id", "--force", "-o", output]].concat())
    };
    run(&["in", "out/day/b.parquet"], "out").fails_with(&["out/day/b.parquet", "also an input"]);
    run(&["in/b.parquet", "out/b.parquet"], "out").fails_with(&["out/b.parquet", "also an input", "--in-place"]);
    run(&["in/b.parquet", "out/b.parquet"], "in/../out").fails_with(&["also an input"]);
    run(&["out/b.parquet", "a.parquet"], "out").fails_with(&["also an input"]);
    symlink("out", shell.path("link")).unwrap();
    run(&["a.parquet", "in/b.parquet", "link/b.parquet"], "out").fails_with(&["also an input"]);
    run(&["in", "out/b.parquet"], "link").fails_with(&["also an input"]);
    // A hard link is another name of an input.
    fs::create_dir(shell.path("names")).unwrap();
    fs::hard_link(shell.path("a.parquet"), shell.path("names/b.parquet")).unwrap();
    run(&["in/b.parquet", "a.parquet"], "names").fails_with(&["names/b.parquet", "also an input"]);
    for (name, has_filters) in
        [("a.parquet", false), ("in/b.parquet", true), ("out/b.parquet", true), ("out/day/b.parquet", true)]
    {
        assert_eq!(fs::read(shell.path(name)).unwrap(), parquet_file(has_filters), "{name}");
    }
    assert_eq!(fs::read_dir(shell.path("out")).unwrap().count(), 2);
}

#[test]
fn an_output_folder_in_an_input_folder_is_refused() {
    let shell = shell_with_folders();
    std::os::unix::fs::symlink("in", shell.path("link")).unwrap();
    for output in ["in", "in/", "in/new", "in/new/deep/", "./in/../in/new", "link/new", "link"] {
        let run = shell.run(&["parquet", "add", "in", "--column", "id", "--force", "-o", output]);
        run.fails_with(&["is the input folder in or lies in it", "--in-place"]);
    }
    shell.run(&["parquet", "add", "in", "--column", "id", "-o", "new/../in"]).fails_with(&["`..`"]);
    assert_eq!(fs::read(shell.path("in/b.parquet")).unwrap(), parquet_file(true));
    assert_eq!(shell.files(), ["a.parquet", "in", "link", "out"]);
    shell.run(&["parquet", "add", "in", "--column", "id", "-o", "in2"]).exits(0);
}

#[test]
fn a_file_that_comes_twice_is_refused_in_place() {
    let shell = shell();
    std::os::unix::fs::symlink("a.parquet", shell.path("link.parquet")).unwrap();
    let run = shell.run(&["parquet", "add", "a.parquet", "link.parquet", "--column", "id", "--in-place"]);
    run.fails_with(&["link.parquet", "given twice"]);
    assert_eq!(fs::read(shell.path("a.parquet")).unwrap(), parquet_file(false));
}
