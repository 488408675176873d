//! Tests of files and indexes that change while a command runs, and of files with the name of
//! another file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use super::{candidates, numbers, shell_with_index};
use crate::shell::command;

#[test]
fn a_build_during_another_update_is_refused() {
    let shell = shell_with_index();
    let locked = fs::File::open(shell.path("index")).unwrap();
    locked.lock().unwrap();
    let build = ["index", "build", "-o", "index", "--force", "--key-file", "a"];
    shell.run(&build).fails_with(&["another command or program has locked"]);
    drop(locked);
    shell.run(&build).exits(0);
    assert!(candidates(&shell, "1500").is_empty());
}

/// Runs a command, and keeps renaming another index to `index` until the command has ended. Asserts
/// that the command fails and that the other index stays.
fn loses_to_a_replacement(arguments: &[&str]) {
    let shell = shell_with_index();
    shell.write("more", numbers(0..400_000));
    shell.run(&["index", "build", "-o", "other", "--key-file", "a"]).exits(0);
    let other = fs::read(shell.path("other")).unwrap();
    let mut child = command();
    child.args(arguments).current_dir(shell.dir.path()).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        shell.write("next", &other);
        fs::rename(shell.path("next"), shell.path("index")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("another command"), "{output:?}");
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
    let mut child = command();
    child.args(["index", "query", "index", "-"]).current_dir(shell.dir.path());
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
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
        crate::shell::Run::new(child.current_dir(shell.path("dir")).stdin(Stdio::null()).output().unwrap())
    };
    add(&[]).fails_with(&["a: ", "another file", "--base"]);
    assert_eq!(candidates(&shell, "500"), ["a"]);
    // With --base, the command reads the file that the index recorded.
    add(&["--base", ".."]).exits(0);
    assert_eq!(candidates(&shell, "500"), ["a"]);
    assert!(candidates(&shell, "7050").is_empty());
}
