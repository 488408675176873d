//! Tests of the command on stores: `db` and `bench point-miss`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::shell::{Run, Shell, flip};
use serde_json::Value;

#[test]
fn pairs_are_put_got_scanned_and_deleted() {
    let shell = Shell::new();
    shell.run(&["db", "put", "store", "apple", "red"]).exits(0);
    shell.run(&["db", "put", "store", "pear", "green", "--sync"]).exits(0);
    shell.run(&["db", "put", "store", "plum", "blue"]).exits(0);
    assert_eq!(shell.run(&["db", "get", "store", "pear"]).exits(0), "green\n");
    assert_eq!(shell.run(&["db", "get", "store", "zebra"]).exits(1), "");
    shell.run(&["db", "delete", "store", "pear"]).exits(0);
    shell.run(&["db", "delete", "store", "never there"]).exits(0);
    assert_eq!(shell.run(&["db", "get", "store", "pear"]).exits(1), "");
    assert_eq!(shell.run(&["db", "scan", "store"]).exits(0), "apple\tred\nplum\tblue\n");
    assert_eq!(shell.run(&["db", "scan", "store", "--reverse", "--limit", "1"]).exits(0), "plum\tblue\n");
    assert_eq!(shell.run(&["db", "scan", "store", "--from", "b", "--to", "z"]).exits(0), "plum\tblue\n");
    shell.run(&["db", "scan", "store", "--from", "z", "--to", "b"]).fails_with(&["--from", "exchange the bounds"]);
    shell.run(&["db", "scan", "store", "--hex", "--from", "62", "--to", "61"]).fails_with(&["exchange the bounds"]);
    assert_eq!(shell.run(&["db", "scan", "store", "--from", "plum", "--to", "plum"]).exits(0), "");
    assert_eq!(
        shell.run(&["db", "scan", "store", "--to", "b", "--hex"]).status,
        2,
        "an odd number of hexadecimal digits was not refused"
    );
    assert_eq!(shell.run(&["db", "scan", "store", "--to", "62", "--hex"]).exits(0), "6170706c65\t726564\n");
}

#[test]
fn many_pairs_are_loaded_compacted_and_verified() {
    let shell = Shell::new();
    let pairs: String = (0..5_000).map(|i| format!("key-{i:05}\tvalue {i}\r\n")).collect();
    let loaded = shell.run_with(&["db", "load", "store", "-"], pairs.as_bytes());
    assert!(loaded.stderr.contains("5,000 pairs stored"), "{loaded:?}");
    loaded.exits(0);
    shell.run(&["db", "compact", "store"]).exits(0);
    let stats = shell.run(&["db", "stats", "store", "--json"]).json(0);
    assert_eq!((&stats["total"]["entries"], &stats["total"]["tables"]), (&5_000.into(), &1.into()));
    assert!(stats["total"]["bits_per_key"].as_f64().unwrap() > 8.0, "{stats}");
    assert!(shell.run(&["db", "stats", "store"]).exits(0).contains("5,000"));
    assert!(shell.run(&["db", "verify", "store"]).exits(0).contains("sound"));
    assert_eq!(shell.run(&["db", "get", "store", "key-04999"]).exits(0), "value 4999\n");
    assert_eq!(shell.run(&["db", "scan", "store"]).exits(0).lines().count(), 5_000);
}

#[test]
fn scans_within_a_prefix_skip_ssts_and_changes_are_reported() {
    let shell = Shell::new();
    for pair in [["ann/age", "31"], ["ann/name", "Ann"], ["bob/age", "32"]] {
        shell.run(&["db", "put", "store", pair[0], pair[1], "--prefix", "delimiter:/"]).exits(0);
    }
    assert_eq!(shell.run(&["db", "scan", "store", "--starts-with", "ann/"]).exits(0), "ann/age\t31\nann/name\tAnn\n");
    assert_eq!(shell.run(&["db", "scan", "store", "--starts-with", "ava/", "--reverse"]).exits(0), "");
    let stats = shell.run(&["db", "stats", "store"]).exits(0);
    assert!(stats.ends_with("prefix extractor: delimiter:/\n"), "{stats}");
    let told = shell.run(&["db", "get", "store", "bob/age", "--prefix", "fixed:2"]);
    assert!(told.stderr.contains("\"fixed:2\"") && told.stderr.contains("\"delimiter:/\""), "{}", told.stderr);
    assert_eq!(told.exits(0), "32\n");
    let stats = shell.run(&["db", "stats", "store", "--json"]).json(0);
    assert_eq!(
        (&stats["prefix_extractor"], &stats["total"]["tables_without_prefixes"]),
        (&"fixed:2".into(), &3.into())
    );
    shell.run(&["db", "compact", "store"]).exits(0);
    let stats = shell.run(&["db", "stats", "store", "--json"]).json(0);
    assert_eq!((&stats["reports"], &stats["total"]["tables_without_prefixes"]), (&serde_json::json!([]), &0.into()));
    assert_eq!(shell.run(&["db", "scan", "store", "--starts-with", "ann/"]).exits(0), "ann/age\t31\nann/name\tAnn\n");
    shell.run(&["db", "verify", "store"]).exits(0);
    shell.run(&["db", "scan", "store", "--starts-with", "a", "--from", "b"]).fails_with(&["--starts-with", "--from"]);
}

#[test]
fn scans_ask_range_filters_and_other_filters_are_refused() {
    let shell = Shell::new();
    for (key, ranges) in [("a1", "grafite:fpr=0.01"), ("a3", "none"), ("a5", "above-bottom:grafite:L=16:fpr=0.01")] {
        shell.run(&["db", "put", "store", key, "v", "--range-filter", ranges]).exits(0);
    }
    let stats = shell.run(&["db", "stats", "store"]).exits(0);
    assert!(stats.ends_with("\nrange filters: 2 of 3 SST files\n"), "{stats}");
    for (from, to, found) in
        [("a0", "a9", "a1\tv\na3\tv\na5\tv\n"), ("a2", "a3", ""), ("a3", "a4", "a3\tv\n"), ("b", "c", "")]
    {
        assert_eq!(shell.run(&["db", "scan", "store", "--from", from, "--to", to]).exits(0), found);
    }
    shell.run(&["db", "compact", "store", "--range-filter", "grafite:L=1024:fpr=0.01"]).exits(0);
    let stats = shell.run(&["db", "stats", "store", "--json"]).json(0);
    assert_eq!((&stats["total"]["tables"], &stats["total"]["tables_with_ranges"]), (&1.into(), &1.into()));
    shell.run(&["db", "verify", "store"]).exits(0);
    let put = ["db", "put", "store", "key", "value", "--range-filter"];
    shell.run(&[&put[..], &["bloom:10"]].concat()).fails_with(&["bloom:10", "grafite:fpr=0.01"]);
    shell.run(&[&put[..], &["grafite:L=0:9"]].concat()).fails_with(&["range length"]);
}

#[test]
fn a_bad_line_is_named_and_the_lines_before_it_are_stored() {
    let shell = Shell::new();
    let pairs = format!("a\t1\n{}\t2\nb\t3\n", "x".repeat(1 << 20));
    shell.run_with(&["db", "load", "store"], pairs.as_bytes()).fails_with(&["standard input: line 2", "65536"]);
    assert_eq!(shell.run(&["db", "scan", "store"]).exits(0), "a\t1\n");
    let hex = shell.run_with(&["db", "load", "store", "--hex"], b"00\t6g\n");
    hex.fails_with(&["standard input: line 1, column 5"]);
    shell.run_with(&["db", "load", "store", "--hex"], b"00ff\t0a\n").exits(0);
    assert_eq!(shell.run(&["db", "get", "store", "--hex", "00ff"]).exits(0), "0a\n");
}

#[test]
fn a_directory_without_a_store_is_refused_unchanged() {
    let shell = Shell::new();
    fs::create_dir(shell.path("other")).unwrap();
    shell.write("other/file", "precious");
    for arguments in [["get", "other", "k"], ["delete", "other", "k"], ["get", "none", "k"], ["delete", "none", "k"]] {
        shell.run(&[&["db"], &arguments[..]].concat()).fails_with(&[arguments[1]]);
    }
    for command in ["scan", "stats", "verify", "compact"] {
        shell.run(&["db", command, "none"]).fails_with(&["none"]);
    }
    shell.run(&["db", "load", "none", "other"]).fails_with(&["other: not a regular file"]);
    shell.run(&["db", "put", "other", "k", "v"]).fails_with(&["other", "holds no store"]);
    shell.run(&["db", "verify", "missing"]).fails_with(&["missing"]);
    shell.run(&["db", "scan", "missing"]).fails_with(&["missing: there is no store here; check the path"]);
    shell.run(&["db", "scan", "other/file"]).fails_with(&["other/file: not a directory"]);
    assert_eq!(shell.files(), ["other"]);
    assert_eq!(fs::read(shell.path("other/file")).unwrap(), b"precious");
}

#[test]
fn a_scan_without_a_store_is_an_error_for_every_range() {
    let shell = Shell::new();
    for range in [&["--from", "b", "--to", "a"][..], &["--from", "a", "--to", "a"], &["--limit", "0"], &[]] {
        shell.run(&[&["db", "scan", "nosuch"], range].concat()).fails_with(&["nosuch"]);
    }
    assert!(shell.files().is_empty());
    shell.run(&["db", "put", "store", "a", "1"]).exits(0);
    assert_eq!(shell.run(&["db", "scan", "store", "--from", "a", "--to", "a"]).exits(0), "");
}

#[test]
fn a_store_that_is_open_in_another_process_is_an_error() {
    let shell = Shell::new();
    let db = filterblock_store::lsm::Db::open(shell.path("store"), filterblock_store::lsm::Options::default()).unwrap();
    shell.run(&["db", "put", "store", "k", "v"]).fails_with(&["store", "already open"]);
    db.close().unwrap();
    shell.run(&["db", "put", "store", "k", "v"]).exits(0);
}

#[test]
fn a_damaged_table_is_found_by_verify() {
    let shell = Shell::new();
    let pairs: String = (0..2_000).map(|i| format!("key-{i:05}\tvalue {i}\n")).collect();
    shell.run_with(&["db", "load", "store"], pairs.as_bytes()).exits(0);
    shell.run(&["db", "compact", "store"]).exits(0);
    // The largest file is the SST file; its first bytes are data.
    let table = shell.find("store", ".sst");
    flip(&table, 100, 4);
    let said = shell.run(&["db", "verify", "store"]).exits(1);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(said.contains(name), "{said}");
    let report = shell.run(&["db", "verify", "store", "--json"]).json(1);
    assert!(report["damage"][0].as_str().unwrap().contains(name), "{report}");
    fs::remove_file(&table).unwrap();
    let said = shell.run(&["db", "verify", "store"]).exits(1);
    assert!(
        said.contains(&format!(
            "store/{name}: this file of the store is missing; restore it from a backup, or run \"filterblock db repair \
             store\""
        )),
        "{said}"
    );
}

#[test]
fn a_store_with_a_damaged_manifest_is_damaged() {
    let shell = Shell::new();
    shell.run(&["db", "put", "store", "k", "v"]).exits(0);
    shell.run(&["db", "verify", "store"]).exits(0);
    shell.write("store/CURRENT", "nonsense");
    let report = shell.run(&["db", "verify", "store", "--json"]).json(1);
    assert_eq!(report["sound"], false);
    let said = shell.run(&["db", "verify", "store"]).exits(1);
    assert!(said.ends_with("store: damaged; its SST files were not checked\n"), "{said}");
}

#[test]
fn a_damaged_log_is_an_error_that_names_salvage() {
    let shell = Shell::new();
    let options = || filterblock_store::lsm::Options {
        durability: filterblock_store::lsm::Durability::Sync,
        ..filterblock_store::lsm::Options::default()
    };
    let db = filterblock_store::lsm::Db::open(shell.path("store"), options()).unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key.as_bytes(), &[b'x'; 200]).unwrap();
    }
    // The copied files of an open store equal the files that a crash leaves.
    shell.copy_folder("store", "copy", |log| {
        let middle = log.len() / 2;
        log[middle] ^= 4;
    });
    shell.run(&["db", "get", "copy", "a"]).fails_with(&["damaged", "--salvage"]);
    assert!(shell.run(&["db", "verify", "copy"]).exits(1).contains("--salvage"));
    let kept = shell.run(&["db", "get", "copy", "d", "--salvage"]);
    assert!(kept.stderr.contains(".log"), "the skipped log is not reported: {kept:?}");
    kept.exits(0);
    shell.run(&["db", "verify", "copy"]).exits(0);
}

/// A manifest is always read strictly, so `--salvage` cannot help.
#[test]
fn a_damaged_manifest_is_an_error_without_the_advice_to_salvage() {
    let shell = Shell::new();
    shell.run(&["db", "put", "store", "a", "1"]).exits(0);
    // The changed byte is the first byte of the first edit. Later edits are sound, so the first
    // edit is not a torn tail.
    flip(&shell.find("store", "MANIFEST"), 48 + 24, 4);
    for arguments in [&["db", "get", "store", "a"][..], &["db", "get", "store", "a", "--salvage"]] {
        let refused = shell.run(arguments);
        assert!(!refused.stderr.contains("--salvage"), "{arguments:?}: {refused:?}");
        refused.fails_with(&["MANIFEST", "log record", "filterblock db repair"]);
    }
}

/// The test copies an open store and changes the end of its log. Missing bytes and zeros are a torn
/// tail, other changes are damage.
#[test]
fn an_incomplete_log_record_is_damage_unless_bytes_are_missing() {
    use filterblock_store::lsm::{Db, Durability, Options};
    let shell = Shell::new();
    let db = Db::open(shell.path("store"), Options { durability: Durability::Sync, ..Options::default() }).unwrap();
    for key in ["a", "b"] {
        db.put(key.as_bytes(), &[b'x'; 200]).unwrap();
    }
    // The second record begins after the log header and the first record. A record has a header, an
    // operation, the length of the key, the key, the length of the value, and the value.
    let (begin, len) = (48 + 24 + 1 + 1 + 1 + 2 + 200, 24 + 1 + 1 + 1 + 2 + 200);
    type Edit = fn(&mut Vec<u8>);
    let cases: [(&str, Edit, u64, i32); 5] = [
        ("whole", |_| {}, 0, 0),
        ("cut", |log| log.truncate(log.len() - 10), len - 10, 0),
        ("flipped", |log| *log.last_mut().unwrap() ^= 1, len, 1),
        ("zeros", |log| log.extend([0; 100]), 100, 0),
        ("noise", |log| log.extend([0x5a; 100]), 100, 1),
    ];
    for (name, edit, torn, status) in cases {
        shell.copy_folder("store", name, edit);
        let report = shell.run(&["db", "verify", name, "--json"]).json(status);
        assert_eq!(report["sound"], status == 0, "{name}: {report}");
        let warnings = report["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), usize::from(torn > 0), "{name}: {report}");
        for warning in warnings {
            let offset = if matches!(name, "cut" | "flipped") { begin } else { begin + len };
            assert_eq!((&warning["offset"], &warning["len_bytes"]), (&offset.into(), &torn.into()), "{name}: {report}");
            assert_eq!(warning["suspect"], status == 1, "{name}: {report}");
            assert!(warning["file"].as_str().unwrap().ends_with(".log"), "{name}: {report}");
        }
        assert!(report["reports"].as_array().unwrap().is_empty(), "the tail is reported twice, {name}: {report}");
        let again = format!("{name} again");
        shell.copy_folder("store", &again, edit);
        let said = shell.run(&["db", "verify", &again]).exits(status);
        assert_eq!(said.contains("not a sound record"), torn > 0, "{name}: {said}");
        shell.run(&["db", "verify", &again]).exits(0);
    }
}

const ROW: [&str; 14] = [
    "filter",
    "layout",
    "workload",
    "filters_consulted",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "gets_per_second",
    "block_reads_per_get",
    "bits_per_key",
    "false_positive_rate",
    "expected_false_positive_rate",
    "false_negatives",
];

fn assert_rows(report: &Value, rows: usize) {
    assert_eq!(report["rows"].as_array().unwrap().len(), rows);
    for part in ["machine", "versions", "settings", "stores"] {
        assert!(!report[part].is_null(), "{part}");
    }
    for row in report["rows"].as_array().unwrap() {
        for name in ROW {
            assert!(row.get(name).is_some(), "{name} is missing in {row}");
        }
        assert_eq!(row["false_negatives"], 0, "{row}");
        assert!(row["mean_ns"].as_f64().unwrap() > 0.0);
        let consulted = row["filters_consulted"].as_bool().unwrap();
        let reads = row["block_reads_per_get"].as_f64().unwrap();
        match (row["workload"].as_str().unwrap(), consulted) {
            ("absent", true) => {
                let runs = row["runs"].as_f64().unwrap();
                assert!(reads < 0.1 * runs, "the filters were not used: {row}");
                assert!(row["false_positive_rate"].as_f64().unwrap() < 0.2, "{row}");
            }
            ("absent" | "present", _) => assert!(reads >= 0.9, "{row}"),
            ("mixed", _) => assert!(reads >= 0.4, "{row}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_benchmark_reports_every_filter_layout_and_workload() {
    let shell = Shell::new();
    let bench = ["bench", "point-miss", "--count", "2000", "--lookups", "2000", "--rounds", "1", "--layout", "all"];
    let report = shell.run(&[&bench[..], &["--json", "-", "--dir", ".", "--svg", "plot.svg"]].concat()).json(0);
    // The number of rows is the product of filters, layouts, workloads, and filters on or off.
    assert_rows(&report, 3 * 6 * 3 * 2);
    assert_eq!((&report["settings"]["lookups"], &report["settings"]["command"]), (&2_000.into(), &Value::Null));
    assert_eq!(report["settings"]["layouts"].as_array().unwrap().len(), 6);
    let runs = |layout: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["layout"] == layout).unwrap()["runs"].as_u64().unwrap()
    };
    assert_eq!((runs("compacted"), runs("runs-1"), runs("runs-5"), runs("runs-36")), (1, 1, 5, 36));
    let maps = report["stores"].as_array().unwrap().iter().map(|store| store["map_bytes"].as_u64().unwrap() > 0);
    assert_eq!(
        maps.collect::<Vec<_>>(),
        [false, false, false, false, true, true].repeat(3),
        "layouts with several runs"
    );
    assert_eq!(shell.files(), ["plot.svg"], "the stores are removed");
    assert!(fs::read_to_string(shell.path("plot.svg")).unwrap().contains("no filters"));
}

#[test]
fn the_benchmark_takes_lines_as_keys_and_reads_cold_files() {
    let shell = Shell::new();
    let lines: String = (0..3_000).map(|i| format!("package-{}\r\n", i % 1_500)).collect();
    shell.write("names", lines);
    let mut arguments = vec!["bench", "point-miss", "--keys", "names", "--lookups", "500", "--rounds", "1"];
    arguments.extend(["--filter", "bloom:12", "--layout", "compacted", "--verify", "on-first-touch"]);
    arguments.extend(["--json", "report.json", "--dir", "."]);
    if cfg!(target_os = "linux") {
        arguments.extend(["--cold", "--io", "direct"]);
    }
    let run = shell.run(&arguments);
    if run.stderr.contains("tmpfs") {
        // Cold reads are impossible on the file system of this test.
        return run.fails_with(&["--dir"]);
    }
    let text = run.exits(0);
    assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| line.chars().count() <= 120), "{text}");
    assert!(
        text.starts_with("With bloom:12, a get of an absent key (compacted) costs ")
            && text.contains("False negatives: 0"),
        "{text}"
    );
    let report: Value = serde_json::from_slice(&fs::read(shell.path("report.json")).unwrap()).unwrap();
    assert_rows(&report, 6);
    assert_eq!(report["settings"]["keys"], 1_500);
}

#[test]
fn the_benchmark_takes_policies_and_makes_levels() {
    let shell = Shell::new();
    let mut arguments =
        vec!["bench", "point-miss", "--count", "200", "--lookups", "500", "--rounds", "1", "--dir", "."];
    arguments.extend(["--layout", "levels-4", "--layout", "runs-7", "--run-map-trigger", "off", "--json", "-"]);
    arguments.extend(["--filter", "monkey:bloom:10", "--filter", "budget:bloom:64KiB"]);
    let report = shell.run(&arguments).json(0);
    assert_eq!(report["rows"].as_array().unwrap().len(), 2 * 2 * 3 * 2);
    assert!(report["rows"].as_array().unwrap().iter().all(|row| row["false_negatives"] == 0), "{report}");
    assert!(report["stores"].as_array().unwrap().iter().all(|store| store["map_bytes"] == 0), "{report}");
    shell.run(&["bench", "point-miss", "--filter", "budget:64Mb"]).fails_with(&["budget:64Mb", "budget:BYTES"]);
}

#[test]
fn the_benchmark_refuses_impossible_settings() {
    let shell = Shell::new();
    shell.write("few", "a\nb\n");
    shell.run(&["bench", "point-miss", "--count", "1"]).fails_with(&["--count"]);
    shell.run(&["bench", "point-miss", "--keys", "few"]).fails_with(&["few: 2 distinct keys"]);
    shell.run(&["bench", "point-miss", "--json", "nowhere/x"]).fails_with(&["nowhere/x"]);
    shell.run(&["bench", "point-miss", "--count", "16", "--dir", "nowhere"]).fails_with(&["nowhere"]);
    shell.run(&["bench", "point-miss", "--value-size=-1"]).fails_with(&["--value-size"]);
    shell.run(&["bench", "point-miss", "--lookups", "18446744073709551615"]).fails_with(&["--lookups"]);
    shell.run(&["bench", "point-miss", "--count", "10000000000"]).fails_with(&["--count"]);
    if Path::new("/dev/shm").exists() {
        let cold = shell.run(&["bench", "point-miss", "--count", "16", "--cold", "--dir", "/dev/shm"]);
        cold.fails_with(&["/dev/shm", "tmpfs", "--dir"]);
    }
    assert_eq!(shell.files(), ["few"]);
}

#[cfg(target_os = "linux")]
#[test]
fn too_many_open_files_are_explained() {
    use filterblock_store::lsm::{Db, Options};
    let shell = Shell::new();
    let db = Db::open(shell.path("store"), Options { auto_compaction: false, ..Options::default() }).unwrap();
    for number in 0..60 {
        db.put(format!("key {number}").as_bytes(), b"value").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let limited = |limit: u64, arguments: &str| {
        let script = format!("ulimit -n {limit} && exec {} {arguments}", env!("CARGO_BIN_EXE_filterblock"));
        Run::new(Command::new("sh").args(["-c", &script]).current_dir(shell.dir.path()).output().unwrap())
    };
    limited(40, "db get store 'key 7'").fails_with(&["may open 40 files", "ulimit -n", "the store has 60 SST files"]);
    assert_eq!(limited(200, "db get store 'key 7'").exits(0), "value\n");
    assert!(limited(200, "db stats store").exits(0).contains("limit of this process (ulimit -n): 200\n"));
    assert_eq!(limited(200, "db stats store --json").json(0)["open_files_limit"], 200);
}
