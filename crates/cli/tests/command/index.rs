//! Tests of `filterblock index`: builds, queries, updates, changed files and damage.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::foreign_files::hex_lines;
use crate::shell::{Run, Shell, command};
use filterblock_testkit::foreign::{self, Case, cases};

/// Returns the numbers of a range, one per line.
fn numbers(range: std::ops::Range<u32>) -> String {
    range.map(|number| format!("{number}\n")).collect()
}

/// Makes a shell with three key lists of 1,000 numbers, and an index of them.
fn shell_with_index() -> Shell {
    let shell = Shell::new();
    for (name, first) in [("a", 0), ("b", 1_000), ("c", 2_000)] {
        shell.write(name, numbers(first..first + 1_000));
    }
    shell
        .run(&[
            "index",
            "build",
            "-o",
            "index",
            "--fpr",
            "0.001",
            "--key-file",
            "a",
            "--key-file",
            "b",
            "--key-file",
            "c",
        ])
        .exits(0);
    shell
}

/// Returns the candidate files for a key, from the output of `--json`. Asserts that answer and exit
/// status agree with them.
fn candidates(shell: &Shell, key: &str) -> Vec<String> {
    let run = shell.run(&["index", "query", "index", "--json", key]);
    assert!(run.status < 2, "{run:?}");
    let status = run.status;
    let line: Value = run.json(status);
    let files: Vec<String> =
        line["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().to_owned()).collect();
    assert_eq!((line["answer"] == "maybe", status), (!files.is_empty(), i32::from(files.is_empty())));
    files
}

#[test]
fn no_key_of_any_file_is_denied() {
    let shell = shell_with_index();
    shell.write("all", numbers(0..3_000));
    let printed = shell.run(&["index", "query", "index", "--keys", "all"]).exits(0);
    for (name, first) in [("a", 0), ("b", 1_000), ("c", 2_000)] {
        for key in first..first + 1_000 {
            assert!(printed.contains(&format!("maybe\t{key}\t{name}\n")), "{key}");
        }
    }
    shell.write("others", numbers(10_000..20_000));
    let counts = shell.run(&["index", "query", "index", "--keys", "others", "--count", "--json"]).json(0);
    // 10,000 absent keys and three files with an FPR of 0.1 % give about 30 candidates.
    assert!(counts["candidates"].as_u64().unwrap() < 80, "{counts}");
    assert_eq!(counts["maybe"].as_u64().unwrap() + counts["absent"].as_u64().unwrap(), 10_000);
}

#[test]
fn answers_and_status_are_those_of_a_query() {
    let shell = shell_with_index();
    assert_eq!(shell.run(&["index", "query", "index", "1500"]).exits(0), "maybe\t1500\tb\n");
    assert_eq!(shell.run(&["index", "query", "index", "x"]).exits(1), "absent\tx\n");
    assert_eq!(shell.run(&["index", "query", "--quiet", "index", "x", "7"]).exits(0), "");
    assert_eq!(shell.run_with(&["index", "query", "index", "-"], b"7\nx\n").exits(0), "maybe\t7\ta\nabsent\tx\n");
    assert_eq!(
        shell.run(&["index", "query", "index", "--count", "7", "x"]).exits(0),
        "maybe\t1\nabsent\t1\ncandidates\t1\n"
    );
    assert_eq!(shell.run(&["index", "query", "index", "--hex", "37"]).exits(0), "maybe\t37\ta\n");
    shell.run(&["index", "query", "index", "--type", "int32", "7"]).fails_with(&["--type", "bytes"]);
    shell.run(&["index", "query", "a", "7"]).fails_with(&["a: a text file, not an index", "--key-file"]);
    shell.run(&["index", "query", "missing", "7"]).fails_with(&["missing"]);
    shell.run(&["index", "query", ".", "7"]).fails_with(&["not a regular file"]);
}

#[test]
fn a_file_can_be_added_and_removed() {
    let shell = shell_with_index();
    shell.write("d", numbers(3_000..3_100));
    assert!(candidates(&shell, "3050").is_empty());
    let report = shell.run(&["index", "add", "index", "--key-file", "d", "--json"]).json(0);
    assert_eq!((&report["files"], &report["files_added"], &report["keys_added"]), (&4.into(), &1.into(), &100.into()));
    assert_eq!(candidates(&shell, "3050"), ["d"]);
    assert_eq!(candidates(&shell, "500"), ["a"]);
    shell.run(&["index", "remove", "index", "a", "c"]).exits(0);
    assert!(candidates(&shell, "500").is_empty());
    assert_eq!(candidates(&shell, "1500"), ["b"]);
    let report = shell.run(&["index", "verify", "index", "--json"]).json(0);
    assert_eq!((&report["generation"], report["files"].as_array().unwrap().len()), (&3.into(), 2));
    shell.run(&["index", "remove", "index", "a"]).fails_with(&["a", "not in the index"]);
    shell.run(&["index", "remove", "index", "b", "d"]).exits(0);
    assert!(shell.run(&["index", "verify", "index"]).exits(0).contains(" file 0 %"));
    shell.run(&["index", "add", "index", "--key-file", "d"]).exits(0);
    shell.run(&["index", "add", "index", "--key-file", "index"]).fails_with(&["also an input"]);
    assert_eq!(shell.files(), ["a", "b", "c", "d", "index"]);
}

#[test]
fn a_changed_file_is_a_candidate_until_it_is_added_again() {
    let shell = shell_with_index();
    shell.write("b", numbers(5_000..6_001));
    let run = shell.run(&["index", "query", "index", "5500"]);
    assert!(run.stderr.contains("b: the file has another size") && run.stderr.contains("1 file changed"), "{run:?}");
    assert_eq!(run.exits(0), "maybe\t5500\tb\n");
    assert_eq!(candidates(&shell, "x"), ["b"]);
    shell.run(&["index", "verify", "index"]).exits(1);
    shell.run(&["index", "query", "index", "--check", "no", "5500"]).exits(1);
    shell.run(&["index", "add", "index", "--key-file", "b"]).exits(0);
    assert_eq!(candidates(&shell, "5500"), ["b"]);
    assert!(candidates(&shell, "x").is_empty() && candidates(&shell, "1500").is_empty());
    shell.run(&["index", "verify", "index"]).exits(0);
}

#[test]
fn equal_size_and_time_do_not_hide_another_content() {
    let shell = shell_with_index();
    let time = fs::metadata(shell.path("b")).unwrap().modified().unwrap();
    shell.write("b", numbers(4_000..5_000));
    fs::File::options().write(true).open(shell.path("b")).unwrap().set_modified(time).unwrap();
    assert_eq!(shell.run(&["index", "query", "index", "--check", "stat", "4500"]).exits(1), "absent\t4500\n");
    assert_eq!(candidates(&shell, "4500"), ["b"]);
}

#[test]
fn missing_files_are_reported_and_stay_candidates() {
    let shell = shell_with_index();
    fs::remove_file(shell.path("a")).unwrap();
    let run = shell.run(&["index", "query", "index", "x"]);
    assert!(run.stderr.contains("a: the file is missing"), "{run:?}");
    assert_eq!(run.exits(0), "maybe\tx\ta\n");
    // Relative paths are looked up in --base.
    fs::create_dir(shell.path("dir")).unwrap();
    for name in ["b", "c"] {
        fs::rename(shell.path(name), shell.path("dir").join(name)).unwrap();
    }
    shell.write("dir/a", "");
    let run = shell.run(&["index", "query", "index", "--base", "dir", "1500", "x"]);
    assert!(run.stderr.contains("a: the file has another size") && !run.stderr.contains("is missing"), "{run:?}");
    assert_eq!(run.exits(0), "maybe\t1500\ta\nmaybe\t1500\tb\nmaybe\tx\ta\n");
}

#[test]
fn a_damaged_index_denies_nothing() {
    let shell = shell_with_index();
    let sound = fs::read(shell.path("index")).unwrap();
    // The last byte belongs to the last row.
    let mut bytes = sound.clone();
    *bytes.last_mut().unwrap() ^= 1;
    shell.write("index", &bytes);
    shell.write("all", numbers(0..3_000));
    let run = shell.run(&["index", "query", "index", "--keys", "all", "--json"]);
    assert!(run.stderr.contains(" met a damaged row, so all files "), "{run:?}");
    let printed = run.exits(0);
    assert!(!printed.contains("absent") && printed.contains("[\"a\",\"b\",\"c\"]"));
    let run = shell.run(&["index", "verify", "index"]);
    assert!(run.stderr.contains("row") && run.stderr.contains("checksum"), "{run:?}");
    run.exits(1);
    let report = shell.run(&["index", "verify", "index", "--json"]).json(1);
    assert_eq!((&report["sound"], &report["damaged_rows"]), (&false.into(), &1.into()));
    shell.run(&["index", "add", "index", "--key-file", "all"]).fails_with(&["damaged index", "build the index again"]);
    assert!(fs::read(shell.path("index")).unwrap() == bytes, "a failed update changed the index");
    for at in [0, 20, 63, 70] {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        shell.write("index", &bytes);
        shell.run(&["index", "query", "index", "7"]).fails_with(&["damaged index", "search all indexed files"]);
        shell.run(&["index", "verify", "index"]).exits(1);
    }
    // A program that reads the JSON learns the damage of the header, too.
    let run = shell.run(&["index", "verify", "index", "--json"]);
    let report = run.json(1);
    assert_eq!((&report["index"], &report["sound"]), (&"index".into(), &false.into()));
    assert!(report["damage"].as_str().unwrap().starts_with("index: damaged index: "), "{report}");
    let mut newer = sound;
    newer[8] = 2;
    newer[60] ^= 1;
    shell.write("index", &newer);
    shell.run(&["index", "query", "index", "7"]).fails_with(&["format version 2", "search all indexed files"]);
    shell.run(&["index", "verify", "index"]).fails_with(&["format version 2"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_old_index_and_no_litter() {
    use std::process::Command;
    let shell = shell_with_index();
    shell.write("more", numbers(0..20_000));
    let (old, files) = (fs::read(shell.path("index")).unwrap(), shell.files());
    assert!(old.len() > 2_048);
    // `add` exceeds the file size limit with its hashes, and `remove` with the new index.
    for arguments in [&["add", "index", "--key-file", "more"][..], &["remove", "index", "a"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 1; exec \"$0\" index \"$@\"", env!("CARGO_BIN_EXE_filterblock")]);
        let output = command.args(arguments).current_dir(shell.dir.path()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("filterblock: index: "), "{output:?}");
        assert_eq!(shell.files(), files);
        assert!(fs::read(shell.path("index")).unwrap() == old, "{arguments:?} changed the index");
    }
    assert_eq!(candidates(&shell, "500"), ["a"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_update_leaves_the_old_index_or_the_new_one() {
    use std::time::Duration;
    let shell = shell_with_index();
    shell.write("more", numbers(0..500_000));
    let files = shell.files();
    for wait in [0, 10, 30, 60, 90, 120, 150, 200, 300] {
        let mut command = crate::shell::with_default_signals(env!("CARGO_BIN_EXE_filterblock"));
        command.args(["index", "add", "index", "--key-file", "more"]).current_dir(shell.dir.path());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        crate::interrupted::kill("TERM", child.id());
        child.wait().unwrap();
        assert_eq!(shell.files(), files, "after {wait} ms");
        shell.run(&["index", "verify", "index"]).exits(0);
        assert!(candidates(&shell, "1500").contains(&"b".to_owned()), "after {wait} ms");
    }
}

#[test]
fn an_index_of_one_row_is_reported() {
    let shell = Shell::new();
    let mut build = vec!["index".to_owned(), "build".into(), "-o".into(), "index".into(), "--force".into()];
    for number in 0..16 {
        shell.write(&format!("list{number}"), numbers(number..number + 1));
        build.extend(["--key-file".into(), format!("list{number}")]);
    }
    let arguments: Vec<&str> = build.iter().map(String::as_str).collect();
    assert!(shell.run(&arguments).stderr.contains("each query reads all of it"));
    (0..16).for_each(|number| shell.write(&format!("list{number}"), numbers(0..1_000)));
    assert!(!shell.run(&arguments).stderr.contains("each query reads all of it"));
}

#[test]
fn two_updates_at_once_are_refused() {
    let shell = shell_with_index();
    let locked = fs::File::open(shell.path("index")).unwrap();
    locked.lock().unwrap();
    shell.run(&["index", "remove", "index", "a"]).fails_with(&["another command or program has locked"]);
    // A query needs no lock.
    assert_eq!(candidates(&shell, "500"), ["a"]);
    drop(locked);
    shell.run(&["index", "remove", "index", "a"]).exits(0);
}

#[test]
fn wrong_inputs_are_named() {
    let shell = shell_with_index();
    shell.write("rows.parquet", foreign::file("parquet", "pyarrow.parquet"));
    let build = |more: &[&str]| shell.run(&[&["index", "build", "-o", "new"], more].concat());
    build(&["a"]).fails_with(&["a: ", "--key-file"]);
    build(&["rows.parquet"]).fails_with(&["rows.parquet", "--column"]);
    build(&["--column", "none", "rows.parquet"]).fails_with(&["no column \"none\"", "i64"]);
    build(&["--column", "i64", "--key-file", "a"]).fails_with(&["--column", "Parquet"]);
    build(&["--column", "i64", "rows.parquet", "--key-file", "a"]).fails_with(&["a: ", "type bytes", "INT64"]);
    build(&["--key-file", "a", "--key-file", "a"]).fails_with(&["given twice"]);
    build(&["--key-file", "."]).fails_with(&["not a regular file"]);
    build(&["--key-file", "-"]).fails_with(&["from a file"]);
    build(&["--key-file", "missing"]).fails_with(&["missing"]);
    for fpr in ["0", "1", "x", "nan"] {
        build(&["--fpr", fpr, "--key-file", "a"]).fails_with(&["false-positive rate"]);
    }
    shell.run(&["index", "build", "-o", "index", "--key-file", "a"]).fails_with(&["exists", "--force"]);
    shell.run(&["index", "build", "-o", "a", "--force", "--key-file", "a"]).fails_with(&["also an input"]);
    assert!(!shell.files().contains(&"new".to_owned()));
}

#[test]
fn an_option_that_fits_no_input_is_refused() {
    let shell = shell_with_index();
    for (name, folder, file) in [
        ("level.ldb", "leveldb", "tbl-n100.ldb"),
        ("rocks.sst", "rocksdb-7.8.3", "fv5-bloom-n2500.sst"),
        ("rows.parquet", "parquet", "pyarrow.parquet"),
    ] {
        shell.write(name, foreign::file(folder, file));
    }
    shell.run(&["db", "put", "store", "key", "value"]).exits(0);
    let sst = shell.find("store", ".sst").to_str().unwrap().to_owned();
    let build = |more: &[&str]| shell.run(&[&["index", "build", "-o", "new"], more].concat());
    for input in [&["rocks.sst"][..], &[&sst], &["--key-file", "a"], &["rows.parquet", "--column", "i64"]] {
        let key_form = [input, &["--key-form", "internal"]].concat();
        build(&key_form).fails_with(&["--key-form is for LevelDB tables", "omit --key-form"]);
    }
    for input in [&["rocks.sst"][..], &["level.ldb"], &[&sst], &["--key-file", "a"]] {
        let from_filters = [input, &["--from-filters"]].concat();
        build(&from_filters).fails_with(&["--from-filters is for Parquet files", "omit --from-filters"]);
    }
    let add = ["index", "add", "index", "--key-file", "a"];
    shell.run(&[&add[..], &["--key-form", "user"]].concat()).fails_with(&["--key-form is for LevelDB tables"]);
    shell.run(&[&add[..], &["--from-filters"]].concat()).fails_with(&["--from-filters is for Parquet files"]);
    // The problem of an unknown file matters more than the option.
    build(&["a", "--key-form", "user"]).fails_with(&["a: not a Parquet file"]);
    assert!(!shell.files().contains(&"new".to_owned()));
    // The option is for the LevelDB table among the inputs.
    build(&["rocks.sst", "level.ldb", "--key-form", "user"]).exits(0);
}

/// Asserts that an index has all values of the case, and that at most `candidates_max` absent
/// values get the answer "maybe".
fn agrees(shell: &Shell, case: &Case, candidates_max: u64) {
    shell.write("present", hex_lines(&case.plain_values()));
    shell.write("absent", hex_lines(&case.absent_plain_values()));
    let count = |file| {
        let run = shell.run(&["index", "query", "index", "--hex", "--count", "--json", "--keys", file]);
        let status = run.status;
        run.json(status)
    };
    let present = count("present");
    assert_eq!((&present["absent"], present["maybe"].as_u64().unwrap()), (&0.into(), case.number("n")));
    let found = count("absent")["maybe"].as_u64().unwrap();
    assert!(found <= candidates_max, "{}: {found} of {} absent values", case.name(), case.number("absent_count"));
}

#[test]
fn values_and_filters_of_parquet_files_are_indexed() {
    for column in ["bytes", "i64", "i32", "f64", "flba"] {
        let shell = Shell::new();
        shell.write("rows.parquet", foreign::file("parquet", "pyarrow.parquet"));
        let build = ["index", "build", "-o", "index", "--force", "--column", column, "rows.parquet"];
        let of_column = |case: &Case| case.text("name").starts_with("pyarrow") && case.text("column") == column;
        let of_column: Vec<Case> = cases("parquet").into_iter().filter(of_column).collect();
        assert!(of_column.len() >= 2);
        shell.run(&build).exits(0);
        of_column.iter().for_each(|case| agrees(&shell, case, case.number("absent_count") / 50));
        // The index takes the filters of two row groups. Their FPRs add up.
        let report = shell.run(&[&build[..], &["--from-filters", "--json"]].concat()).json(0);
        let fpr = report["highest_fpr"].as_f64().unwrap();
        assert!(fpr > 0.0 && fpr <= 0.011, "{report}");
        of_column.iter().for_each(|case| agrees(&shell, case, case.number("absent_count") / 50));
    }
}

#[test]
fn values_are_written_in_the_type_of_the_column() {
    let shell = Shell::new();
    shell.write("rows.parquet", foreign::file("parquet", "pyarrow.parquet"));
    let build = |column: &str| {
        shell.run(&["index", "build", "-o", "index", "--force", "--column", column, "rows.parquet"]).exits(0);
    };
    build("i64");
    let case = cases("parquet").into_iter().find(|case| case.text("name") == "pyarrow-rg0-i64").unwrap();
    let value = i64::from_le_bytes(case.plain_values()[3].clone().try_into().unwrap());
    assert_eq!(
        shell.run(&["index", "query", "index", &value.to_string()]).exits(0),
        format!("maybe\t{value}\trows.parquet\n")
    );
    shell.run(&["index", "query", "index", "-1"]).exits(1);
    shell.run(&["index", "query", "index", "--type", "utf8", "x"]).fails_with(&["Int64", "utf8"]);
    shell.run(&["index", "query", "index", "x"]).fails_with(&["int64"]);
    shell.run(&["index", "query", "index", "--hex", "00"]).fails_with(&["8 bytes"]);
    shell.write("list", "1\n");
    shell.run(&["index", "add", "index", "--key-file", "list"]).fails_with(&["list", "bytes", "INT64"]);
}

#[test]
fn zero_is_found_with_both_signs() {
    let shell = Shell::new();
    shell.write("rows.parquet", foreign::file("parquet", "pyarrow.parquet"));
    shell.run(&["index", "build", "-o", "index", "--column", "f64", "rows.parquet"]).exits(0);
    let case = cases("parquet").into_iter().find(|case| case.text("name") == "pyarrow-rg0-f64").unwrap();
    for value in case.plain_values().into_iter().take(50) {
        let value = f64::from_le_bytes(value.try_into().unwrap());
        let written = format!("{value:?}");
        assert_eq!(shell.run(&["index", "query", "index", "--count", "--", &written]).status, 0, "{written}");
    }
    // The key 0 has two encodings, and its neighbours have one each.
    let printed = shell.run(&["index", "query", "index", "--json", "1e300", "0", "2e300"]);
    let lines: Vec<Value> =
        String::from_utf8(printed.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys: Vec<&str> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["1e300", "0", "2e300"]);
    shell.run(&["index", "query", "index", "NaN"]).fails_with(&["NaN", "--hex"]);
}

#[test]
fn tables_of_all_engines_are_indexed() {
    let shell = Shell::new();
    shell.write("pairs", (0..2_000).map(|i| format!("key-{i}\tvalue\n")).collect::<String>());
    shell.run(&["db", "load", "store", "pairs"]).exits(0);
    let ssts: Vec<String> = fs::read_dir(shell.path("store"))
        .unwrap()
        .map(|entry| format!("store/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|name| name.ends_with(".sst"))
        .collect();
    assert!(!ssts.is_empty(), "{:?}", fs::read_dir(shell.path("store")).unwrap().collect::<Vec<_>>());
    shell.write("level.ldb", foreign::file("leveldb", "db-n1500.ldb"));
    shell.write("rocks.sst", foreign::file("rocksdb-7.8.3", "fv5-bloom-n2500.sst"));
    shell.run(&["index", "build", "-o", "other", "--key-form", "internal", "level.ldb"]).exits(0);
    let mut arguments = vec!["index", "build", "-o", "index", "level.ldb", "rocks.sst"];
    arguments.extend(ssts.iter().map(String::as_str));
    shell.run(&arguments).exits(0);
    shell.write("keys", (0..2_000).map(|i| format!("key-{i}\n")).collect::<String>());
    let printed = shell.run(&["index", "query", "index", "--keys", "keys"]).exits(0);
    assert_eq!(printed.lines().filter(|line| line.contains("\tstore/")).count(), 2_000);
    for (name, file, folder) in
        [("db-n1500", "level.ldb", "leveldb"), ("fv5-bloom-n2500", "rocks.sst", "rocksdb-7.8.3")]
    {
        let case = cases(folder).into_iter().find(|case| case.text("name") == name).unwrap();
        shell.write("keys", hex_lines(&case.keys()));
        let printed = shell.run(&["index", "query", "index", "--hex", "--keys", "keys"]).exits(0);
        let found = printed.lines().filter(|line| line.ends_with(file)).count();
        assert_eq!(found, case.keys().len(), "{name}");
    }
}

/// Runs a command, and keeps renaming another index to `index` until the command has ended. Asserts
/// that the command fails and that the other index stays.
fn loses_to_a_replacement(arguments: &[&str]) {
    let shell = shell_with_index();
    shell.write("more", numbers(0..400_000));
    shell.run(&["index", "build", "-o", "other", "--key-file", "a"]).exits(0);
    let other = fs::read(shell.path("other")).unwrap();
    let mut child = shell.spawn(arguments);
    while child.try_wait().unwrap().is_none() {
        shell.write("next", &other);
        fs::rename(shell.path("next"), shell.path("index")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Run::new(child.wait_with_output().unwrap()).fails_with(&["another command"]);
    assert!(fs::read(shell.path("index")).unwrap() == other);
}

#[test]
#[cfg(unix)]
fn an_update_never_overwrites_a_newer_index() {
    loses_to_a_replacement(&["index", "add", "index", "--key-file", "more"]);
    loses_to_a_replacement(&["index", "build", "-o", "index", "--force", "--key-file", "more"]);
}

#[test]
fn a_file_that_changes_during_a_query_is_a_candidate() {
    let shell = shell_with_index();
    let mut child = shell.spawn(&["index", "query", "index", "-"]);
    let (mut keys, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let batch = "5500\n".repeat(256);
    keys.write_all(batch.as_bytes()).unwrap();
    for _ in 0..256 {
        assert_eq!(answers.next().unwrap().unwrap(), "absent\t5500");
    }
    shell.write("b", numbers(5_000..6_001));
    keys.write_all(b"5500\n").unwrap();
    drop(keys);
    assert_eq!(answers.next().unwrap().unwrap(), "maybe\t5500\tb");
    assert!(child.wait().unwrap().success());
}

#[test]
fn another_file_of_the_same_name_replaces_no_record() {
    let shell = shell_with_index();
    fs::create_dir(shell.path("dir")).unwrap();
    shell.write("dir/a", numbers(7_000..7_100));
    let add = |more: &[&str]| {
        let mut child = command();
        child.args([&["index", "add", "../index", "--key-file", "a"], more].concat());
        Run::new(child.current_dir(shell.path("dir")).stdin(Stdio::null()).output().unwrap())
    };
    add(&[]).fails_with(&["a: ", "another file", "--base"]);
    assert_eq!(candidates(&shell, "500"), ["a"]);
    // With --base, the command reads the file that the index recorded.
    add(&["--base", ".."]).exits(0);
    assert_eq!(candidates(&shell, "500"), ["a"]);
    assert!(candidates(&shell, "7050").is_empty());
}

#[test]
fn folders_and_patterns_stand_for_their_files() {
    let shell = Shell::new();
    std::fs::create_dir_all(shell.path("lake/old")).unwrap();
    for name in ["lake/a.parquet", "lake/old/b.parquet", "c.parquet"] {
        shell.write(name, crate::parquet_add::parquet_file(false));
    }
    shell.write("lake/notes.txt", "no Parquet file");
    let paths = |index: &str| {
        let report = shell.run(&["index", "verify", index, "--json", "--base", "."]).json(0);
        let files = report["files"].as_array().unwrap();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    shell.run(&["index", "build", "-o", "one", "--column", "id", "lake", "*.parquet"]).exits(0);
    assert_eq!(paths("one"), ["lake/a.parquet", "lake/old/b.parquet", "c.parquet"]);
    shell.run(&["index", "build", "--column", "id", "-o", "two", "c.parquet"]).exits(0);
    shell.run(&["index", "add", "two", "lake/**/b.parquet"]).exits(0);
    assert_eq!(paths("two"), ["c.parquet", "lake/old/b.parquet"]);
    // With --base, the index stores the paths below it.
    shell.run(&["index", "build", "-o", "base", "--column", "id", "--base", "lake", "old", "a.parquet"]).exits(0);
    let report = shell.run(&["index", "verify", "base", "--base", "lake", "--json"]).json(0);
    assert_eq!(report["files"][0]["path"], "old/b.parquet");
    shell.run(&["index", "build", "-o", "none", "lake/old"]).fails_with(&["*.sst, *.ldb"]);
    shell.run(&["index", "query", "c.parquet", "1"]).fails_with(&["this is a Parquet file, not an index"]);
}
