//! Tests of files that two commands, or a command and another program, replace at the same time.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::interrupted::{has_strace, kill};
use crate::shell::{Run, Shell};

const ADD: [&str; 6] = ["parquet", "add", "a.parquet", "--column", "id", "--in-place"];
const BUILD: [&str; 7] = ["build", "--force", "-o", "a.filter", "--seed", "9", "keys"];

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("keys", "apple\npear\n");
    shell.run(&["build", "-o", "a.filter", "keys"]).exits(0);
    shell.write("keys", "apple\npear\nplum\n");
    shell.write("a.parquet", crate::parquet_add::parquet_file(false));
    shell
}

fn end(child: Child) -> Run {
    Run::new(child.wait_with_output().unwrap())
}

/// Replaces a file as a program does that knows no lock.
pub fn replace(shell: &Shell, name: &str, content: &[u8]) {
    let mut file = fs::File::create(shell.path("next")).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    fs::rename(shell.path("next"), shell.path(name)).unwrap();
}

/// Returns the names of all files that contain `.displaced-`. A command that still runs may remove them.
fn displaced_names(shell: &Shell) -> Vec<String> {
    shell.files().into_iter().filter(|name| name.contains(".displaced-")).collect()
}

/// Returns the names and contents of all files whose names contain `.displaced-`. No command may run.
fn displaced(shell: &Shell) -> Vec<(String, Vec<u8>)> {
    displaced_names(shell).into_iter().map(|name| (name.clone(), fs::read(shell.path(&name)).unwrap())).collect()
}

#[test]
fn a_locked_file_is_not_replaced() {
    let shell = shell();
    for (name, content) in [("page.html", ""), ("plan-exponent.svg", ""), ("record", ""), ("filterblock.1", "")] {
        shell.write(name, content);
    }
    shell.write("b.parquet", crate::parquet_add::parquet_file(false));
    shell.run(&["index", "build", "-o", "ids.index", "--key-file", "keys"]).exits(0);
    let bench = ["bench", "load", "--count", "100", "--dir", ".", "--json", "record"];
    let append = [&bench[..], &["--append"]].concat();
    let force = [&bench[..], &["--force"]].concat();
    let cases: [(&[&str], &str); 13] = [
        (&ADD, "a.parquet"),
        (&["parquet", "add", "a.parquet", "--column", "id", "-o", "b.parquet", "--force"], "b.parquet"),
        (&BUILD, "a.filter"),
        (&["merge", "--force", "-o", "a.filter", "a.filter", "a.filter"], "a.filter"),
        (&["export", "--force", "-o", "b.parquet", "a.filter"], "b.parquet"),
        (&["inspect", "--force", "--html", "page.html", "a.filter"], "page.html"),
        (&["plan", "--keys", "1000", "--fpr", "0.01", "--svg", ".", "--force"], "plan-exponent.svg"),
        (&append, "record"),
        (&force, "record"),
        (&["man", "--force", "--out", "."], "filterblock.1"),
        (&["index", "build", "--force", "-o", "ids.index", "--key-file", "keys"], "ids.index"),
        (&["index", "add", "ids.index", "--key-file", "keys"], "ids.index"),
        (&["index", "remove", "ids.index", "keys"], "ids.index"),
    ];
    for (arguments, name) in cases {
        let locked = fs::File::open(shell.path(name)).unwrap();
        locked.lock().unwrap();
        let before = fs::read(shell.path(name)).unwrap();
        shell.run(arguments).fails_with(&[name, "another command or program has locked"]);
        assert_eq!(fs::read(shell.path(name)).unwrap(), before, "{arguments:?}");
    }
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let shell = shell();
    let mut child = shell.spawn(&["build", "--force", "-o", "new", "-"]);
    // The command has checked its output when it reads: a pipe holds less than this input.
    child.stdin.as_mut().unwrap().write_all(&b"some key\n".repeat(20_000)).unwrap();
    shell.write("new", "newest");
    end(child).fails_with(&["new", "has just created"]);
    assert_eq!(fs::read(shell.path("new")).unwrap(), b"newest");
}

#[test]
fn a_file_that_changes_meanwhile_is_not_replaced() {
    let changes: [fn(&Shell); 4] = [
        |shell| replace(shell, "a.filter", b"newest"),
        |shell| fs::write(shell.path("a.filter"), "newest").unwrap(),
        |shell| fs::remove_file(shell.path("a.filter")).unwrap(),
        |shell| {
            fs::remove_file(shell.path("a.filter")).unwrap();
            std::os::unix::fs::symlink("keys", shell.path("a.filter")).unwrap();
        },
    ];
    for change in changes {
        let shell = shell();
        let mut child = shell.spawn(&["build", "--force", "-o", "a.filter", "-"]);
        child.stdin.as_mut().unwrap().write_all(&b"some key\n".repeat(20_000)).unwrap();
        change(&shell);
        let after = fs::read(shell.path("a.filter")).ok();
        end(child).fails_with(&["a.filter", "meanwhile"]);
        assert_eq!(fs::read(shell.path("a.filter")).ok(), after);
        assert_eq!(shell.files().len(), 2 + usize::from(after.is_some()), "{:?}", shell.files());
    }
}

#[test]
fn two_adds_at_once_lose_no_filter() {
    for _ in 0..12 {
        let shell = shell();
        let columns = ["id", "step"];
        let children =
            columns.map(|column| shell.spawn(&["parquet", "add", "a.parquet", "--column", column, "--in-place"]));
        let runs = children.map(end);
        assert!(runs.iter().any(|run| run.status == 0), "{runs:?}");
        let check = |column| shell.run(&["parquet", "check", "a.parquet", "--column", column]).status;
        for (column, run) in columns.iter().zip(runs) {
            let says_so = ["another command or program", "the file changed"].iter().any(|why| run.stderr.contains(why));
            assert!(run.status == 0 || run.status == 2 && says_so, "{run:?}");
            assert_eq!(check(column), i32::from(run.status != 0), "{column}: {run:?}");
        }
        assert_eq!(shell.files(), ["a.filter", "a.parquet", "keys"]);
    }
}

#[test]
fn two_merges_at_once_lose_no_keys() {
    for _ in 0..12 {
        let shell = Shell::new();
        for name in ["all", "a", "b"] {
            shell.write("keys", format!("{name}\n"));
            shell.run(&["build", "-o", name, "keys"]).exits(0);
        }
        let children = ["a", "b"].map(|name| shell.spawn(&["merge", "--force", "-o", "all", "all", name]));
        for (name, run) in ["a", "b"].into_iter().zip(children.map(end)) {
            assert!(run.status == 0 || run.status == 2 && run.stderr.contains("another command or program"), "{run:?}");
            shell.run(&["query", "all", name]).exits(run.status / 2);
        }
        shell.run(&["query", "all", "all"]).exits(0);
    }
}

#[test]
fn a_program_that_replaces_the_file_keeps_its_version() {
    let shell = shell();
    let mut newest = crate::parquet_add::parquet_file(false);
    for turn in 0..40u64 {
        fs::write(shell.path("a.parquet"), &newest).unwrap();
        let child = shell.spawn(&ADD);
        // The program replaces the file at many different times of the run.
        std::thread::sleep(Duration::from_millis(turn * 3));
        newest = crate::parquet_add::parquet_file(turn % 2 == 0);
        replace(&shell, "a.parquet", &newest);
        let run = end(child);
        assert!(fs::read(shell.path("a.parquet")).unwrap().starts_with(&newest), "{turn}: {run:?}");
        assert!(displaced(&shell).is_empty(), "{turn}: {run:?}");
    }
}

/// Injects a signal that stops the command after its first rename, just before the exchange.
pub const STOP: &str = "inject=renameat2:signal=STOP:when=1";

/// Runs a command under strace. Once the new file has its name for the exchange, runs `meddle` and
/// lets a stopped command go on. Returns the result and the trace.
pub fn strace(shell: &Shell, arguments: &[&str], options: &[&str], meddle: impl FnOnce()) -> (Output, String) {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "trace", "-e", CALLS]).args(options.iter().flat_map(|option| ["-e", option]));
    strace.arg(env!("CARGO_BIN_EXE_filterblock")).args(arguments).current_dir(shell.dir.path());
    let strace = strace.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut strace = strace.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut is_running = || strace.try_wait().unwrap().is_none() && Instant::now() < deadline;
    while displaced_names(shell).is_empty() && is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    meddle();
    while is_running() {
        go_on(shell);
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = strace.wait_with_output().unwrap();
    let trace = fs::read_to_string(shell.path("trace")).unwrap();
    fs::remove_file(shell.path("trace")).unwrap();
    (output, trace)
}

/// Lets all stopped commands go on that run in the directory.
fn go_on(shell: &Shell) {
    let dir = shell.dir.path().canonicalize().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let is_here = fs::read_link(process.path().join("cwd")).is_ok_and(|at| at == dir);
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let id = process.file_name().to_str().and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| is_here && name.trim() == "filterblock") {
            kill("CONT", id);
        }
    }
}

#[test]
fn a_file_that_arrives_just_before_the_exchange_stays() {
    if !has_strace() {
        return;
    }
    for arguments in [&ADD[..], &BUILD] {
        let name = if arguments == ADD { "a.parquet" } else { "a.filter" };
        let meddles: [fn(&Shell, &str); 3] = [
            |shell, name| replace(shell, name, b"newest"),
            |shell, name| fs::write(shell.path(name), "newest").unwrap(),
            |shell, name| {
                // The same length and modification time as the old file, but another inode.
                let old = fs::metadata(shell.path(name)).unwrap();
                replace(shell, name, &vec![7; old.len() as usize]);
                fs::File::open(shell.path(name)).unwrap().set_modified(old.modified().unwrap()).unwrap();
            },
        ];
        for meddle in meddles {
            let shell = shell();
            let mut newest = None;
            let (output, _) = strace(&shell, arguments, &[STOP], || {
                meddle(&shell, name);
                newest = fs::read(shell.path(name)).ok();
            });
            Run::new(output).fails_with(&[name, "another command or program has replaced", "try again"]);
            assert_eq!(fs::read(shell.path(name)).ok(), newest);
            assert_eq!(shell.files(), ["a.filter", "a.parquet", "keys"]);
        }
        let shell = shell();
        let (output, _) = strace(&shell, arguments, &[STOP], || fs::remove_file(shell.path(name)).unwrap());
        Run::new(output).fails_with(&[name, "meanwhile"]);
        assert_eq!(shell.files().len(), 2, "{:?}", shell.files());
    }
}

#[test]
fn a_third_version_stays_beside_the_second() {
    if !has_strace() {
        return;
    }
    for is_removed in [false, true] {
        let shell = shell();
        let inode = || fs::metadata(shell.path("a.filter")).map(|found| found.ino()).unwrap();
        // The command also stops after the exchange, and there a third program meddles.
        let stops = "inject=renameat2:signal=STOP:when=1..2";
        let (output, _) = strace(&shell, &BUILD, &[stops], || {
            replace(&shell, "a.filter", b"second");
            let (second, deadline) = (inode(), Instant::now() + Duration::from_secs(60));
            // A signal before the first stop does nothing, and one too many could end the second stop.
            let mut waited_ms = 0_u64;
            while inode() == second && Instant::now() < deadline {
                if waited_ms.is_multiple_of(1_000) {
                    go_on(&shell);
                }
                std::thread::sleep(Duration::from_millis(1));
                waited_ms += 1;
            }
            match is_removed {
                true => fs::remove_file(shell.path("a.filter")).unwrap(),
                false => replace(&shell, "a.filter", b"third"),
            }
        });
        let kept = displaced(&shell);
        let [(name, content)] = &kept[..] else { panic!("{kept:?} {output:?}") };
        let mut versions = vec![content.clone()];
        versions.extend(fs::read(shell.path("a.filter")));
        versions.sort();
        assert_eq!(versions, [&b"second"[..], b"third"][..2 - usize::from(is_removed)]);
        Run::new(output).fails_with(&["a.filter", name, "compare both files"]);
        // The next run names the file.
        let again = shell.run(&BUILD);
        assert!(again.status == 0 && again.stderr.contains(name.as_str()), "{again:?}");
    }
}

/// The calls that get faults.
const CALLS: &str = "trace=renameat2,rename,unlink,unlinkat,openat,statx,fstat,lseek,read,fsync,close,link,linkat";

/// Returns the calls of the command from the first one on that contains `start`: name, and number among the calls of this
/// name in the thread.
pub fn calls_from_exchange(trace: &str, start: &str) -> Vec<(String, usize)> {
    let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut thread, mut found) = (None, Vec::new());
    for line in trace.lines() {
        let Some((id, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        let number = numbers.entry((id, name)).or_default();
        *number += 1;
        if call.contains(start) {
            thread = Some(id);
        }
        if thread == Some(id) {
            found.push((name.to_owned(), *number));
        }
    }
    found
}

#[test]
fn no_fault_from_the_exchange_on_loses_a_version() {
    if !has_strace() {
        return;
    }
    for is_replaced in [false, true] {
        let stop = if is_replaced { &[STOP][..] } else { &[] };
        let meddle = |shell: &Shell| {
            if is_replaced {
                replace(shell, "a.filter", b"newest");
            }
        };
        let sound = shell();
        let (_, trace) = strace(&sound, &BUILD, stop, || meddle(&sound));
        let calls = calls_from_exchange(&trace, "RENAME_EXCHANGE");
        let renames = calls.iter().filter(|(name, _)| name == "renameat2").count();
        assert_eq!(renames, 1 + usize::from(is_replaced), "{trace}");
        for (name, number) in calls {
            // strace injects either the stop or a fault into the renames.
            for what in ["signal=KILL", "error=EIO"].into_iter().filter(|_| !is_replaced || name != "renameat2") {
                let shell = shell();
                let old = fs::read(shell.path("a.filter")).unwrap();
                let fault = format!("inject={name}:{what}:when={number}");
                let (output, _) = strace(&shell, &BUILD, &[stop, &[fault.as_str()]].concat(), || meddle(&shell));
                let found = fs::read(shell.path("a.filter")).unwrap();
                let kept = displaced(&shell);
                let fails = format!("{fault}, replaced: {is_replaced}: {:?} {output:?}", shell.files());
                let old = if is_replaced { b"newest".to_vec() } else { old };
                let is_new = shell.run(&["query", "a.filter", "plum"]).status == 0;
                assert!(found == old || is_new, "{fails}");
                let has_old = found == old || kept.iter().any(|(_, kept)| *kept == old);
                assert!(!is_replaced || has_old && !output.status.success(), "{fails}");
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let is_named = kept.iter().all(|(name, _)| text.contains(name));
                assert!(is_named || what == "signal=KILL", "{fails}");
            }
        }
    }
}

#[test]
fn a_file_system_without_exchange_gets_a_plain_rename() {
    if !has_strace() {
        return;
    }
    for error in ["EINVAL", "ENOSYS", "EOPNOTSUPP", "EPERM"] {
        // All calls fail, or only the exchange.
        for when in ["1+", "2+"] {
            let shell = shell();
            let fault = format!("inject=renameat2:error={error}:when={when}");
            let (output, _) = strace(&shell, &BUILD, &[&fault], || {});
            assert_eq!(output.status.code(), Some(0), "{fault}: {output:?}");
            shell.run(&["query", "a.filter", "plum"]).exits(0);
            assert_eq!(shell.files(), ["a.filter", "a.parquet", "keys"], "{fault}");
        }
    }
}
