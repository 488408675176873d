//! Tests of commands that get a signal or reach a file size limit.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::shell::{Run, Shell, with_default_signals};

/// The names and numbers of four terminating signals that the command catches.
const SIGNALS: [(&str, i32); 4] = [("HUP", 1), ("INT", 2), ("TERM", 15), ("QUIT", 3)];

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("keys", (0..3_000).map(|i| format!("key {i}\n")).collect::<String>());
    shell.run(&["build", "-o", "a.filter", "keys"]).exits(0);
    shell.write("a.parquet", crate::parquet_add::parquet_file(false));
    shell
}

/// The files that [`shell`] makes.
const INPUTS: [&str; 3] = ["a.filter", "a.parquet", "keys"];

/// Commands that write files.
const WRITERS: [&[&str]; 8] = [
    &["build", "-o", "out", "keys"],
    &["build", "-o", "a.filter", "--force", "--seed", "9", "keys"],
    &["merge", "-o", "out", "a.filter", "a.filter"],
    &["export", "-o", "out", "a.filter"],
    &["plan", "--keys", "1000", "--fpr", "0.01", "--svg", "."],
    &["plan", "--keys", "1000", "--fpr", "0.01", "--svg", ".", "--json"],
    &["parquet", "add", "a.parquet", "--column", "id", "-o", "out"],
    &["parquet", "add", "a.parquet", "--column", "id", "--in-place"],
];

pub fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: strace is not installed");
    }
    found
}

/// Returns the status that a shell sees. Asserts that the command dies of its signal: a shell
/// continues its script after a plain exit with 130.
fn status_of(status: ExitStatus) -> i32 {
    assert!(status.code().is_none_or(|code| code < 128), "{status}: the command exits, but the signal should kill it");
    status.signal().map_or_else(|| status.code().unwrap(), |signal| 128 + signal)
}

/// Starts a command, delays each system call that `call` names by a second, and sends a signal once
/// a temporary file exists. Returns the status that a shell sees.
fn end_while_publishing(shell: &Shell, arguments: &[&str], call: &str, signal: &str) -> i32 {
    let inject = format!("inject={call}:delay_enter=1000000");
    let mut strace = with_default_signals("strace");
    strace.args(["-f", "-o", "trace", "-e", &format!("trace={call}"), "-e", &inject]);
    strace.arg(env!("CARGO_BIN_EXE_filterblock")).args(arguments).current_dir(shell.dir.path());
    let mut strace = strace.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let is_temporary = |name: &String| name.ends_with(".tmp");
    while !shell.files().iter().any(is_temporary) && Instant::now() < end && strace.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", strace.id())).unwrap();
    for child in children.split_whitespace() {
        kill(signal, child.parse().unwrap());
    }
    let status = status_of(strace.wait().unwrap());
    fs::remove_file(shell.path("trace")).unwrap();
    status
}

#[test]
fn a_signal_while_a_file_is_published_leaves_no_temporary() {
    if !has_strace() {
        return;
    }
    let ended = |arguments: &[&str]| {
        let mut ended = 0;
        // Write, sync and rename are delayed in turn, each with another signal.
        for (call, (signal, number)) in ["write", "fsync", "rename,renameat,renameat2,linkat"].iter().zip(SIGNALS) {
            let shell = shell();
            let before = fs::metadata(shell.path("a.filter")).unwrap().len();
            let status = end_while_publishing(&shell, arguments, call, signal);
            let what = format!("{arguments:?} {call} {signal}: {status} {:?}", shell.files());
            // The command may have finished before the signal.
            assert!(status == 128 + number || status == 0, "{what}");
            ended += i32::from(status != 0);
            assert!(shell.files().iter().all(|name| !name.ends_with(".tmp")), "{what}");
            assert_eq!(fs::metadata(shell.path("a.filter")).unwrap().len(), before, "{what}");
            shell.run(&["verify", "a.filter"]).exits(0);
            assert!(fs::metadata(shell.path("out")).map_or(true, |out| out.len() > 1_000), "{what}");
            let old = crate::parquet_add::parquet_file(false);
            assert!(fs::read(shell.path("a.parquet")).unwrap().starts_with(&old), "{what}");
        }
        ended
    };
    // The commands sleep for most of the time, so they run at the same time.
    let ended: i32 = std::thread::scope(|scope| {
        let threads = WRITERS.map(|arguments| scope.spawn(move || ended(arguments)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(ended > 16, "only {ended} of 24 commands were ended");
}

#[test]
fn a_signal_while_keys_are_read_ends_the_command() {
    for (signal, number) in SIGNALS {
        let shell = shell();
        let mut build = with_default_signals(env!("CARGO_BIN_EXE_filterblock"));
        build.args(["build", "--force", "-o", "a.filter"]).current_dir(shell.dir.path());
        let mut child = build.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A pipe holds less than this input, so the command is reading when the write returns.
        stdin.write_all(&b"some key\n".repeat(20_000)).unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
        assert_eq!(status_of(child.wait().unwrap()), 128 + number);
        drop(stdin);
        assert_eq!(shell.files(), INPUTS);
    }
}

#[test]
fn a_script_stops_when_a_signal_ends_the_command() {
    let shell = shell();
    // The shell and the command get the signal, as from a terminal. The shell stops only if the
    // command dies of the signal.
    let script = "for i in 1 2 3; do \"$0\" build -o out$i - 2>>log; done; echo went on";
    let mut bash = with_default_signals("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_filterblock")]).current_dir(shell.dir.path()).process_group(0);
    let mut bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // A pipe holds less than this input, so the command is reading when the write returns.
    let mut stdin = bash.stdin.take().unwrap();
    stdin.write_all(&b"some key\n".repeat(20_000)).unwrap();
    let group = format!("-{}", bash.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    // On a busy machine, a command that reads the end of its input may finish before its signal
    // thread runs. So the input stays open until the shell has stopped, but at most 20 s.
    let deadline = Instant::now() + Duration::from_secs(20);
    while bash.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stdin);
    let output = bash.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), &output.stdout[..]), (Some(2), &b""[..]), "{output:?}");
    assert!(shell.files().iter().all(|name| !name.starts_with("out")), "{:?}", shell.files());
}

#[test]
fn a_signal_that_the_parent_ignores_stays_ignored() {
    let shell = shell();
    let script = "trap '' HUP INT; (sleep 1; echo apple) | \"$0\" build -o out - & \
                  sleep 0.5; kill -HUP $!; kill -INT $!; wait $!";
    let mut nohup = Command::new("sh");
    nohup.args(["-c", script, env!("CARGO_BIN_EXE_filterblock")]).current_dir(shell.dir.path());
    let run = Run::new(nohup.output().unwrap());
    assert_eq!(run.status, 0, "{run:?}");
    shell.run(&["query", "out", "apple"]).exits(0);
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_leaves_nothing() {
    for arguments in WRITERS {
        let shell = shell();
        let before = fs::read(shell.path("a.filter")).unwrap();
        // The limit is one block of 512 or 1,024 bytes, depending on the shell. Each command writes
        // more.
        let script = "ulimit -f 1; exec \"$0\" \"$@\"";
        let mut limited = Command::new("sh");
        limited.args(["-c", script, env!("CARGO_BIN_EXE_filterblock")]).args(arguments);
        let output = limited.current_dir(shell.dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let run = Run::new(output);
        assert!(run.stderr.contains("File too large") && !run.stderr.contains(".tmp"), "{arguments:?}: {run:?}");
        assert_eq!(shell.files(), INPUTS, "{arguments:?}");
        assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
        assert_eq!(fs::read(shell.path("a.parquet")).unwrap(), crate::parquet_add::parquet_file(false));
    }
    let shell = Shell::new();
    shell.write("pairs", (0..3_000).map(|i| format!("key {i}\tvalue\n")).collect::<String>());
    let script = "ulimit -f 8; exec \"$0\" db load store pairs";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_filterblock")]).current_dir(shell.dir.path());
    let run = Run::new(limited.output().unwrap());
    assert!(run.status == 2 && run.stderr.contains("File too large"), "{run:?}");
    shell.run(&["db", "verify", "store"]).exits(0);
}

/// Starts a benchmark and waits for its first store.
fn benchmark(shell: &Shell) -> std::process::Child {
    let mut child = with_default_signals(env!("CARGO_BIN_EXE_filterblock"));
    child.args(["bench", "point-miss", "--dir", ".", "--json", "report.json", "--svg", "plot.svg"]);
    let child = child.current_dir(shell.dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !shell.files().iter().any(|name| name.starts_with("filterblock-bench-")) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

pub fn kill(signal: &str, id: u32) {
    // The process may have ended already.
    let _ = Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).output().unwrap();
}

#[test]
fn a_benchmark_leaves_no_store_after_any_signal() {
    for (signal, number) in SIGNALS {
        for impatient in [false, true] {
            let shell = Shell::new();
            let mut child = benchmark(&shell);
            kill(signal, child.id());
            if impatient {
                std::thread::sleep(Duration::from_millis(5));
                kill("TERM", child.id());
            }
            let status = status_of(child.wait().unwrap());
            assert!(status == 128 + number || (impatient && status == 128 + 15), "{signal}: {status}");
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
            assert!(said.contains("6 stores of about 1") && said.contains("; about 1 minute"), "{said}");
            assert!(shell.files().is_empty(), "{signal}, impatient {impatient}: {:?}", shell.files());
        }
    }
}

#[test]
fn a_killed_command_replaces_nothing() {
    if !has_strace() {
        return;
    }
    let shell = shell();
    let before = fs::read(shell.path("a.filter")).unwrap();
    assert_eq!(end_while_publishing(&shell, WRITERS[1], "fsync", "KILL"), 128 + 9);
    assert_eq!(fs::read(shell.path("a.filter")).unwrap(), before);
    assert!(Path::new(&shell.path("keys")).exists());
}
