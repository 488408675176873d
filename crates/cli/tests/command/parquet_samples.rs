//! Tests of small files of pyarrow, pandas and fastparquet: empty row groups, columns of nulls, and
//! encryption. `samples.py` beside the files says how they were made.

use std::fs;
use std::path::PathBuf;

use crate::parquet_add::parquet_file;
use crate::shell::Shell;

const EMPTY: [&str; 4] =
    ["pandas-empty.parquet", "pyarrow-empty.parquet", "pyarrow-no-row-groups.parquet", "fastparquet-empty.parquet"];

fn sample(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../parquet/tests/golden");
    fs::read(folder.join(name)).unwrap()
}

#[test]
fn empty_files_pass_every_command() {
    for name in EMPTY {
        eprintln!("{name}");
        let shell = Shell::new();
        shell.write("a.parquet", sample(name));
        for options in [&[][..], &["--values"], &["--column", "id"], &["--column", "id", "--values"]] {
            let text = shell.run(&[&["parquet", "check", "a.parquet"], options].concat()).exits(0);
            assert!(!text.contains("parquet add"), "{text}");
        }
        for options in [&["-o", "out.parquet"][..], &["--in-place"], &["--dry-run"], &["--replace", "--in-place"]] {
            let text = shell.run(&[&["parquet", "add", "a.parquet", "--column", "id"], options].concat()).exits(0);
            assert!(text.contains("nothing to add"), "{text}");
        }
        assert!(fs::read(shell.path("out.parquet")).unwrap() == sample(name));
        shell.run(&["parquet", "add", "a.parquet", "--fix-lengths", "--in-place"]).exits(0);
        for options in [&[][..], &["--from-filters"]] {
            let build = ["index", "build", "--force", "-o", "index", "--column", "id", "a.parquet"];
            shell.run(&[&build[..], options].concat()).exits(0);
            shell.run(&["index", "query", "index", "1"]).exits(1);
        }
        shell.run(&["verify", "a.parquet"]).exits(0);
    }
}

#[test]
fn an_empty_file_does_not_stop_a_lake() {
    let shell = Shell::new();
    fs::create_dir(shell.path("lake")).unwrap();
    for name in EMPTY {
        shell.write(&format!("lake/{name}"), sample(name));
    }
    shell.write("lake/full.parquet", parquet_file(false));
    shell.run(&["parquet", "add", "lake", "--column", "id", "--in-place"]).exits(0);
    shell.run(&["parquet", "check", "lake", "--column", "id", "--values"]).exits(0);
}

#[test]
fn an_empty_row_group_gets_no_filter() {
    let shell = Shell::new();
    shell.write("a.parquet", sample("pyarrow-empty-row-group.parquet"));
    let text = shell.run(&["parquet", "check", "a.parquet", "--column", "id", "--values"]).exits(1);
    assert!(text.contains("id: row groups 0, 2 without a filter"), "{text}");
    let add = ["parquet", "add", "a.parquet", "--column", "id,name", "--in-place"];
    let text = shell.run(&add).exits(0);
    assert!(text.contains("4 filters added"), "{text}");
    let text = shell.run(&add).exits(0);
    assert!(text.contains("4 filters kept") && !text.contains("added"), "{text}");
    let text = shell.run(&[&add[..], &["--replace"]].concat()).exits(0);
    assert!(text.contains("4 filters added") && !text.contains("kept"), "{text}");
    shell.run(&["parquet", "check", "a.parquet", "--column", "id,name", "--values"]).exits(0);
    for options in [&[][..], &["--from-filters"]] {
        let build = ["index", "build", "--force", "-o", "index", "--column", "id", "a.parquet"];
        shell.run(&[&build[..], options].concat()).exits(0);
        let text = shell.run(&["index", "query", "index", "1", "2", "3", "4", "5", "--count"]).exits(0);
        assert_eq!(text, "maybe\t5\nabsent\t0\ncandidates\t5\n");
    }
    assert_eq!(shell.run(&["query", "a.parquet", "--column", "id", "4", "77"]).exits(0), "maybe\t4\nabsent\t77\n");
    shell.run(&["query", "a.parquet", "--column", "id", "--row-group", "1", "4"]).exits(1);
}

#[test]
fn nulls_without_statistics_are_no_values() {
    let shell = Shell::new();
    shell.write("a.parquet", sample("pyarrow-nulls.parquet"));
    for column in ["id", "list.list.element"] {
        eprintln!("{column}");
        for options in [&[][..], &["--from-filters"]] {
            let build = ["index", "build", "--force", "-o", "index", "--column", column, "a.parquet"];
            shell.run(&[&build[..], options].concat()).exits(0);
            shell.run(&["index", "query", "index", "1"]).exits(1);
        }
        for _ in 0..2 {
            shell.run(&["parquet", "add", "a.parquet", "--column", column, "--in-place"]).exits(0);
            for options in [&[][..], &["--values"]] {
                shell.run(&[&["parquet", "check", "a.parquet", "--column", column], options].concat()).exits(0);
            }
        }
        shell.run(&["query", "a.parquet", "--column", column, "1"]).exits(0);
    }
}

#[test]
fn encryption_is_named() {
    let shell = Shell::new();
    for (name, word) in [("column", "encrypted columns: secret"), ("footer", "footer is encrypted")] {
        shell.write("a.parquet", sample(&format!("pyarrow-encrypted-{name}.parquet")));
        for column in ["id", "secret"] {
            for command in [&["add", "--in-place"][..], &["check"], &["check", "--values"]] {
                let run = [&["parquet", command[0], "a.parquet", "--column", column], &command[1..]].concat();
                shell.run(&run).fails_with(&["a.parquet", word, "without encryption"]);
            }
        }
    }
    shell.run(&["query", "a.parquet", "--column", "id", "1"]).fails_with(&["a.parquet", "encrypted"]);
    shell.run(&["index", "build", "-o", "i", "--column", "id", "a.parquet"]).fails_with(&["a.parquet", "encrypted"]);
    shell.write("a.parquet", sample("pyarrow-encrypted-column.parquet"));
    // The plain columns can be read.
    shell.run(&["index", "build", "-o", "i", "--column", "id", "a.parquet"]).exits(0);
    shell.run(&["index", "query", "i", "7"]).exits(0);
    shell.run(&["index", "query", "i", "1007"]).exits(1);
    let secret = ["index", "build", "-o", "j", "--column", "secret", "a.parquet"];
    shell.run(&secret).fails_with(&["a.parquet", "secret", "encrypted"]);
    shell.run(&[&secret[..], &["--from-filters"]].concat()).fails_with(&["a.parquet", "secret"]);
    for column in ["id", "secret"] {
        shell.run(&["query", "a.parquet", "--column", column, "1"]).exits(0);
    }
    shell.run(&["verify", "a.parquet"]).exits(0);
}
