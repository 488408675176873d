//! Tests of `inspect`, `query` and `verify` on SST files, indexes and files of `FileFilter`, on pipes
//! and on files of formats without a filter.

use std::fs;
use std::process::Command;

use filterblock::HashSeed;
use filterblock_family::FileFilter;

use crate::shell::{Run, Shell};

/// Makes a shell with an SST file, an index and a `FileFilter`, each with the keys `apple` and `pear`.
fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("keys", "apple\npear\n");
    shell.write("secret", "00112233445566778899aabbccddeeff\n");
    let load = ["db", "load", "store", "-", "--filter", "bloom:60", "--prefix", "fixed:2"];
    shell.run_with(&load, b"apple\tred\npear\tgreen\n").exits(0);
    fs::copy(shell.find("store", ".sst"), shell.path("sst")).unwrap();
    let load = ["db", "load", "safe", "-", "--filter", "bloom:60", "--secret-file", "secret"];
    shell.run_with(&load, b"apple\tred\npear\tgreen\n").exits(0);
    fs::copy(shell.find("safe", ".sst"), shell.path("safe-sst")).unwrap();
    shell.run(&["index", "build", "-o", "index", "--fpr", "0.0001", "--key-file", "keys"]).exits(0);
    let filter = FileFilter::create(shell.path("file-filter"), 100, 0.0001, HashSeed(1)).unwrap();
    filter.extend(["apple", "pear"]).unwrap();
    filter.close().unwrap();
    shell.run(&["build", "-o", "block", "--filter", "bloom:60", "keys"]).exits(0);
    shell
}

fn through_a_pipe(shell: &Shell, script: &str) -> Run {
    let script = format!("fb() {{ {} \"$@\"; }}; {script}", env!("CARGO_BIN_EXE_filterblock"));
    Run::new(Command::new("sh").args(["-c", &script]).current_dir(shell.dir.path()).output().unwrap())
}

#[test]
fn an_sst_is_inspected_queried_and_verified() {
    let shell = shell();
    let report = shell.run(&["inspect", "--json", "sst"]).json(0);
    assert_eq!((&report["kind"], &report["keys"]), (&"filterblock-sst".into(), &2.into()), "{report}");
    assert_eq!(report["properties"]["largest_key"], "pear");
    assert_eq!((&report["filters"][0]["kind"], report["filters"].as_array().unwrap().len()), (&"bloom".into(), 1));
    assert!(shell.run(&["inspect", "sst", "--what-if"]).exits(0).contains("filterblock-sst"));
    // `fig` lies in the key range, and the filter denies it. `zebra` lies after the key range.
    assert_eq!(
        shell.run(&["query", "sst", "apple", "pear", "fig", "zebra"]).exits(0),
        "maybe\tapple\nmaybe\tpear\nabsent\tfig\nabsent\tzebra\n"
    );
    assert_eq!(shell.run(&["query", "sst", "--prefixes", "ap", "fi"]).exits(0), "maybe\tap\nabsent\tfi\n");
    let verified = shell.run(&["verify", "--json", "sst", "--against", "keys"]).json(0);
    assert_eq!(
        (&verified["keys"], &verified["denied_keys"], &verified["false_negatives"]),
        (&2.into(), &0.into(), &0.into())
    );
    let mut damaged = fs::read(shell.path("sst")).unwrap();
    damaged[3] ^= 1;
    shell.write("damaged", damaged);
    assert!(shell.run(&["verify", "damaged"]).exits(1).starts_with("damaged: damaged: "));
    shell.run(&["query", "sst", "--column", "id", "apple"]).fails_with(&["--column", "filterblock-sst"]);
    shell.run(&["query", "sst", "--ranges", "a..b"]).fails_with(&["--ranges", "filterblock-sst"]);
    for arguments in [&["diff", "sst", "sst"][..], &["merge", "-o", "new", "sst"]] {
        shell.run(arguments).fails_with(&["sst: this is a filterblock-sst, not a filter block"]);
    }
    for command in [&["export", "-o", "new", "sst"][..], &["convert", "-o", "new", "sst"]] {
        shell.run(command).fails_with(&["sst"]);
    }
}

#[test]
fn an_sst_with_a_secret_answers_with_the_secret() {
    let shell = shell();
    assert!(shell.run(&["inspect", "safe-sst"]).exits(0).contains("secret fingerprint"));
    for command in [&["query", "safe-sst", "apple"][..], &["verify", "safe-sst"]] {
        shell.run(command).fails_with(&["safe-sst", "--secret-file"]);
    }
    let query = ["query", "safe-sst", "apple", "fig", "--secret-file", "secret"];
    assert_eq!(shell.run(&query).exits(0), "maybe\tapple\nabsent\tfig\n");
    shell.run(&["verify", "safe-sst", "--secret-file", "secret", "--against", "keys"]).exits(0);
    shell.run(&["query", "sst", "apple", "--secret-file", "secret"]).fails_with(&["--secret-file"]);
}

#[test]
fn an_index_is_inspected_queried_and_verified() {
    let shell = shell();
    let report = shell.run(&["inspect", "--json", "index"]).json(0);
    assert_eq!((&report["kind"], &report["keys"]), (&"filterblock-index".into(), &2.into()), "{report}");
    assert_eq!(report["properties"]["files"], 1);
    assert_eq!(shell.run(&["query", "index", "apple", "fig"]).exits(0), "maybe\tapple\tkeys\nabsent\tfig\n");
    assert_eq!(
        shell.run(&["query", "index", "--keys", "keys", "--count"]).exits(0),
        "maybe\t2\nabsent\t0\ncandidates\t2\n"
    );
    assert!(shell.run(&["verify", "index"]).exits(0).starts_with("index: sound"));
    shell.run(&["query", "index", "--prefixes", "ap"]).fails_with(&["--prefixes"]);
    shell.run(&["query", "index", "--row-group", "0", "ap"]).fails_with(&["--row-group", "filterblock-index"]);
    shell.run(&["export", "-o", "new", "index"]).fails_with(&["an index", "filterblock index query"]);
}

#[test]
fn a_file_filter_is_inspected_queried_and_verified() {
    let shell = shell();
    let report = shell.run(&["inspect", "--json", "file-filter"]).json(0);
    assert_eq!((&report["kind"], &report["keys"]), (&"file-filter".into(), &2.into()), "{report}");
    assert_eq!(report["properties"]["capacity"], 100);
    assert_eq!(shell.run(&["query", "file-filter", "apple", "fig"]).exits(0), "maybe\tapple\nabsent\tfig\n");
    shell.run(&["verify", "file-filter", "--against", "keys"]).exits(0);
    let mut damaged = fs::read(shell.path("file-filter")).unwrap();
    damaged[1_100] ^= 1;
    shell.write("damaged", damaged);
    assert!(shell.run(&["verify", "damaged"]).exits(1).starts_with("damaged: damaged: 1 page"));
    let run = shell.run(&["query", "damaged", "apple", "fig"]);
    assert!(run.stderr.contains("filterblock verify"), "{run:?}");
    assert_eq!(run.exits(0), "maybe\tapple\nmaybe\tfig\n");
}

#[test]
fn a_pipe_is_inspected_queried_and_verified() {
    let shell = shell();
    for name in ["block", "sst", "index", "file-filter"] {
        let plain = shell.run(&["inspect", name]).exits(0);
        let piped = through_a_pipe(&shell, &format!("cat {name} | fb inspect -")).exits(0);
        assert_eq!(plain.replace(&format!("{name}: "), "-: "), piped);
        assert!(through_a_pipe(&shell, &format!("cat {name} | fb query - apple")).exits(0).starts_with("maybe\tapple"));
        assert_eq!(through_a_pipe(&shell, &format!("fb query /dev/stdin fig < {name}")).exits(1), "absent\tfig\n");
        through_a_pipe(&shell, &format!("cat {name} | fb verify -")).exits(0);
        through_a_pipe(&shell, &format!("cat {name} | fb query - -")).fails_with(&["standard input"]);
        let fifo =
            format!("mkfifo fifo && (cat {name} > fifo & fb query fifo --keys keys --count); s=$?; rm fifo; exit $s");
        assert!(through_a_pipe(&shell, &fifo).exits(0).starts_with("maybe\t2\nabsent\t0\n"));
    }
    assert!(through_a_pipe(&shell, "fb build -o - keys | fb inspect -").exits(0).contains("keys             2"));
    through_a_pipe(&shell, "cat block | fb verify - --against keys").exits(0);
    through_a_pipe(&shell, "cat block | fb verify - --against -").fails_with(&["standard input"]);
    let parquet = crate::repository("tests/golden/foreign/parquet/ids.parquet");
    let query = format!("cat {} | fb query - --column id 42", parquet.display());
    assert!(through_a_pipe(&shell, &query).status < 2);
    // No temporary file stays.
    let temporary = Shell::new();
    let run =
        through_a_pipe(&shell, &format!("export TMPDIR={}; cat block | fb inspect -", temporary.dir.path().display()));
    run.exits(0);
    assert!(temporary.files().is_empty());
}

#[test]
fn each_file_without_a_filter_is_named() {
    let shell = Shell::new();
    for (name, content, said) in [
        ("text", &b"apple\npear\n"[..], "a text file, not a filter"),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xa5\xa5", "a gzip file"),
        ("pebble", b"\0\x01\x02\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3", "a Pebble table"),
        ("sqlite", b"SQLite format 3\0\x10\0", "an SQLite database"),
        ("orc", b"ORC\x0a\x00\xa5ORC\x17", "an ORC file"),
        ("log", b"fb-man\r\n\x01\0\0\0", "a log of a store"),
    ] {
        shell.write(name, content);
        for command in [&["inspect", name][..], &["query", name, "apple"], &["verify", name]] {
            shell.run(command).fails_with(&[&format!("{name}: "), said]);
        }
    }
    shell.write("empty", "");
    for command in [&["inspect", "empty"][..], &["query", "empty", "apple"]] {
        shell.run(command).fails_with(&["empty: the file is empty"]);
    }
    assert!(shell.run(&["verify", "empty"]).exits(1).starts_with("empty: the file is empty"));
}
