//! Tests with unusable standard streams, such as closed or full ones.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::shell::{Run, Shell, flip};

/// A command, its exit status with working streams, and whether it writes to stdout.
type Case = (&'static [&'static str], i32, bool);

const BENCH: &[&str] = &[
    "bench",
    "point-miss",
    "--count",
    "1000",
    "--lookups",
    "100",
    "--rounds",
    "1",
    "--filter",
    "bloom:10",
    "--layout",
    "compacted",
    "--dir",
    ".",
];

const CASES: [Case; 38] = [
    (&["--help"], 0, true),
    (&["--version"], 0, true),
    (&["build", "--help"], 0, true),
    (&["build", "--nonsense"], 2, false),
    (&["build", "-o", "built", "--force", "keys"], 0, false),
    (&["build", "-o", "built", "--force", "--json", "keys"], 0, true),
    (&["convert", "-o", "converted", "fruit.filter"], 2, false),
    (&["export", "-o", "exported", "--force", "fruit.filter"], 0, true),
    (&["merge", "-o", "merged", "--force", "fruit.filter", "nuts.filter"], 0, false),
    (&["merge", "-o", "merged", "--force", "--json", "fruit.filter", "nuts.filter"], 0, true),
    (&["plan", "--keys", "1000", "--fpr", "0.01"], 0, true),
    (&["plan", "--keys", "1000", "--fpr", "0.01", "--json"], 0, true),
    (&["query", "fruit.filter", "apple"], 0, true),
    (&["query", "fruit.filter", "zebra"], 1, true),
    (&["query", "fruit.filter", "zebra", "--json"], 1, true),
    (&["query", "fruit.filter", "zebra", "--count"], 1, true),
    (&["query", "fruit.filter", "zebra", "--quiet"], 1, false),
    (&["query", "fruit.filter", "--keys", "absent"], 1, true),
    (&["query", "fruit.filter", "--keys", "late"], 0, true),
    (&["inspect", "fruit.filter"], 0, true),
    (&["inspect", "fruit.filter", "--json", "--what-if"], 0, true),
    (&["verify", "fruit.filter"], 0, true),
    (&["verify", "bad.filter"], 1, true),
    (&["verify", "bad.filter", "--json"], 1, true),
    (&["verify", "fruit.filter", "--against", "absent"], 1, true),
    (&["diff", "fruit.filter", "fruit.filter"], 0, true),
    (&["diff", "fruit.filter", "nuts.filter"], 1, true),
    (&["diff", "fruit.filter", "nuts.filter", "--json"], 1, true),
    (&["db", "put", "store", "apple", "red"], 0, false),
    (&["db", "delete", "store", "nothing"], 0, false),
    (&["db", "get", "store", "apple"], 0, true),
    (&["db", "get", "store", "zebra"], 1, false),
    (&["db", "scan", "store"], 0, true),
    (&["db", "stats", "store", "--json"], 0, true),
    (&["db", "verify", "store"], 0, true),
    (&["db", "verify", "bad.store"], 1, true),
    (&["db", "verify", "bad.store", "--json"], 1, true),
    (&["db", "repair", "bad.store", "--dry-run"], 1, true),
];

pub fn shell() -> Shell {
    let shell = Shell::new();
    let absent: String = (0..30_000).map(|i| format!("some-longer-absent-key-{i}\n")).collect();
    shell.write("keys", "apple\npear\nplum\n");
    shell.write("other", "almond\nwalnut\npecan\n");
    shell.write("late", format!("{absent}apple\n"));
    shell.write("absent", absent);
    shell.write("pairs", "apple\tred\npear\tgreen\n");
    // The FPR is so low that no absent key is a false positive.
    for (name, keys) in [("fruit.filter", "keys"), ("nuts.filter", "other")] {
        shell.run(&["build", "-o", name, "--filter", "bloom:60", keys]).exits(0);
    }
    let mut bad = fs::read(shell.path("fruit.filter")).unwrap();
    bad[0] ^= 1;
    shell.write("bad.filter", bad);
    for store in ["store", "bad.store"] {
        shell.run(&["db", "load", store, "pairs"]).exits(0);
        shell.run(&["db", "compact", store]).exits(0);
    }
    flip(&shell.find("bad.store", ".sst"), 3, 1);
    shell
}

/// Returns the command with its streams redirected by a shell.
fn redirected(shell: &Shell, arguments: &[&str], redirections: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirections}"), env!("CARGO_BIN_EXE_filterblock")]);
    command.args(arguments).current_dir(shell.dir.path()).stdin(Stdio::null());
    command
}

fn run(shell: &Shell, arguments: &[&str], redirections: &str) -> Run {
    Run::new(redirected(shell, arguments, redirections).output().unwrap())
}

/// Runs the command with a pipe as stdout whose reader is closed before the start.
fn run_without_reader(shell: &Shell, arguments: &[&str]) -> Run {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    Run::new(redirected(shell, arguments, "").stdout(writer).stderr(Stdio::piped()).output().unwrap())
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_status() {
    let shell = shell();
    for (arguments, status, _) in CASES {
        let (plain, alone) = (run(&shell, arguments, ""), run_without_reader(&shell, arguments));
        assert_eq!(plain.status, status, "{arguments:?}: {plain:?}");
        assert_eq!((alone.status, &alone.stderr), (status, &plain.stderr), "{arguments:?}");
    }
}

#[test]
fn a_block_written_to_a_closed_pipe_is_an_error() {
    let shell = shell();
    let alone = run_without_reader(&shell, &["build", "-o", "-", "keys"]);
    alone.fails_with(&["standard output", "whole block"]);
    for redirection in [">/dev/full", ">&-"] {
        run(&shell, &["build", "-o", "-", "keys"], redirection).fails_with(&["standard output"]);
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let shell = shell();
    // Stdout is a full device, closed, or open for reading only.
    for redirection in [">/dev/full", ">&-", "1</dev/null"] {
        for (arguments, status, is_output) in CASES {
            let found = run(&shell, arguments, redirection);
            if is_output {
                assert!(found.stderr.contains("standard output: "), "{arguments:?} {redirection}: {found:?}");
            }
            assert_eq!(found.status, if is_output { 2 } else { status }, "{arguments:?} {redirection}: {found:?}");
        }
    }
}

#[test]
fn output_to_dev_null_is_not_an_error() {
    let shell = shell();
    // Service managers often open /dev/null in both directions.
    for redirection in [">/dev/null", "1<>/dev/null", "0<>/dev/null 1<&0 2<&0"] {
        for (arguments, status, _) in CASES {
            let found = run(&shell, arguments, redirection);
            assert_eq!(found.status, status, "{arguments:?} {redirection}: {found:?}");
        }
    }
}

#[test]
fn unwritable_messages_do_not_change_the_exit_status() {
    let shell = shell();
    for redirection in ["2>&-", "2>/dev/full", "2>&- <&-"] {
        for (arguments, status, _) in CASES {
            let (plain, found) = (run(&shell, arguments, ""), run(&shell, arguments, redirection));
            assert_eq!((found.status, &found.stderr[..]), (status, ""), "{arguments:?} {redirection}");
            // Opening a store again may have flushed its log to an SST file, or compacted SST
            // files.
            let is_same = found.stdout == plain.stdout || arguments.first() == Some(&"db");
            assert!(is_same, "{arguments:?} {redirection}: {found:?}");
        }
    }
    assert_eq!(run(&shell, &["verify", "bad.filter"], ">&- 2>&- <&-").status, 2);
}

#[test]
fn closed_input_is_not_empty_input() {
    let shell = shell();
    let before = fs::read(shell.path("fruit.filter")).unwrap();
    let readers: [&[&str]; 7] = [
        &["build", "--force", "-o", "fruit.filter"],
        &["build", "--force", "-o", "fruit.filter", "-"],
        &["build", "-o", "new.filter", "-"],
        &["query", "fruit.filter", "-"],
        &["query", "fruit.filter", "--keys", "-"],
        &["verify", "fruit.filter", "--against", "-"],
        &["db", "load", "new.store", "-"],
    ];
    for arguments in readers {
        run(&shell, arguments, "<&-").fails_with(&["standard input: ", "closed"]);
    }
    assert_eq!(fs::read(shell.path("fruit.filter")).unwrap(), before);
    assert!(!shell.path("new.filter").exists() && !shell.path("new.store").exists());
    // Stdin is open, but not for reading.
    run(&shell, readers[0], "0>/dev/null").fails_with(&["standard input: "]);
    assert_eq!(fs::read(shell.path("fruit.filter")).unwrap(), before);
    for redirection in ["</dev/null", "<>/dev/null"] {
        run(&shell, &["query", "fruit.filter", "-"], redirection).exits(1);
        run(&shell, &["verify", "fruit.filter", "--against", "-"], redirection).exits(0);
    }
}

#[test]
fn a_benchmark_keeps_its_status_with_closed_streams() {
    let shell = shell();
    assert_eq!(run_without_reader(&shell, BENCH).status, 0);
    assert_eq!(run_without_reader(&shell, &[BENCH, &["--json", "-"]].concat()).status, 0);
    for redirection in [">/dev/full", ">&-"] {
        let found = run(&shell, BENCH, redirection);
        assert!(found.status == 2 && found.stderr.contains("standard output: "), "{redirection}: {found:?}");
        // Without a stdout, the benchmark does not start.
        assert_eq!(found.stderr.contains("1 store"), redirection == ">/dev/full", "{found:?}");
    }
    assert!(shell.files().iter().all(|name| !name.starts_with("filterblock-bench-")), "{:?}", shell.files());
}

#[test]
fn query_with_a_closed_pipe_ends_at_the_first_maybe() {
    let shell = shell();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut query = redirected(&shell, &["query", "fruit.filter", "-"], "");
    // The first key is there before the command looks for the reader of its stdout.
    let (input, mut keys) = io::pipe().unwrap();
    keys.write_all(b"apple\nzebra\n").unwrap();
    let child = query.stdin(input).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(query);
    let endless = std::thread::spawn(move || while keys.write_all(b"apple\nzebra\n").is_ok() {});
    let run = Run::new(child.wait_with_output().unwrap());
    endless.join().unwrap();
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
}

#[test]
fn opened_files_do_not_take_the_place_of_closed_streams() {
    // The first file that a process opens gets the lowest free descriptor. Messages must not end up
    // in that file.
    let shell = shell();
    let found = run(&shell, &["build", "-o", "built", "keys", "--json"], "<&- 2>&- >/dev/full");
    assert_eq!(found.status, 2, "{found:?}");
    run(&shell, &["verify", "built"], "").exits(0);
    assert!(File::open(shell.path("built")).is_ok());
}

#[test]
fn a_repair_without_stdout_does_not_begin() {
    for flag in [&[][..], &["--json"]] {
        let shell = shell();
        let repair = [&["db", "repair", "bad.store"], flag].concat();
        run(&shell, &repair, ">&-").fails_with(&["standard output: "]);
        assert!(!shell.path("bad.store/lost").exists(), "the repair went on without a stdout");
        run(&shell, &["db", "verify", "bad.store"], "").exits(1);
    }
}

#[test]
fn a_repair_report_goes_to_stderr_if_stdout_fails() {
    for flag in [&[][..], &["--json"]] {
        let shell = shell();
        let said = run(&shell, &["db", "repair", "bad.store", "--dry-run"], "").exits(1);
        let repair = [&["db", "repair", "bad.store"], flag].concat();
        let found = run(&shell, &repair, ">/dev/full");
        assert_eq!(found.status, 2, "{found:?}");
        assert!(found.stderr.contains("standard output: "), "{found:?}");
        let loss = said.lines().next().unwrap();
        assert!(found.stderr.contains(loss), "{loss} is not in {found:?}");
    }
}

#[test]
fn a_torn_log_is_reported_even_if_stdout_fails() {
    use filterblock_store::lsm::{Db, Durability, Options};
    for (redirection, is_looked_at) in [(">&-", false), (">/dev/full", true)] {
        let shell = Shell::new();
        let db = Db::open(shell.path("store"), Options { durability: Durability::Sync, ..Options::default() }).unwrap();
        db.put(b"apple", b"red").unwrap();
        // The store is open, so its log still has the put.
        shell.copy_folder("store", "torn", |log| log.extend([0x5a; 100]));
        let found = run(&shell, &["db", "verify", "torn"], redirection);
        assert!(found.status == 2 && found.stderr.contains("standard output: "), "{found:?}");
        // Opening the store replays the log, so only the first command that opens the store sees
        // the torn tail.
        assert_eq!(found.stderr.contains("not a sound record"), is_looked_at, "{redirection}: {found:?}");
        run(&shell, &["db", "verify", "torn"], "").exits(i32::from(!is_looked_at));
    }
}

/// Returns the exit status of a command with endless input, if it ends within ten seconds after the
/// reader of its stdout has closed its end. The input is `line` again and again, or pauses after one
/// line.
fn status_with_endless_input(shell: &Shell, arguments: &[&str], line: &str, pauses: bool) -> Option<i32> {
    let (reader, writer) = io::pipe().unwrap();
    let mut command = redirected(shell, arguments, "");
    let mut child = command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    // The command holds the write end of the pipe, too.
    drop(command);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(line.as_bytes()).unwrap();
    drop(reader);
    let line = line.to_owned();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let feeder = std::thread::spawn(move || match pauses {
        true => drop((stopped.recv(), stdin)),
        false => while stdin.write_all(line.as_bytes()).is_ok() {},
    });
    let start = std::time::Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if start.elapsed().as_secs() > 10 => break None,
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let _ = child.kill();
    drop(stop);
    feeder.join().unwrap();
    status
}

#[test]
fn endless_questions_end_with_the_reader_of_stdout() {
    let shell = shell();
    shell.run(&["index", "build", "-o", "index", "--key-file", "keys"]).exits(0);
    let lookups: [&[&str]; 11] = [
        &["query", "fruit.filter", "-"],
        &["query", "fruit.filter", "--keys", "-"],
        &["query", "fruit.filter", "--keys", "/dev/stdin"],
        &["query", "fruit.filter", "--keys", "-", "--count"],
        &["query", "fruit.filter", "--keys", "-", "--quiet"],
        &["query", "fruit.filter", "--keys", "-", "--json"],
        &["index", "query", "index", "--keys", "-"],
        &["index", "query", "index", "--keys", "-", "--count"],
        &["index", "query", "index", "--keys", "-", "--quiet"],
        &["db", "get", "store", "--keys", "-"],
        &["db", "get", "store", "--keys", "-", "--count"],
    ];
    for arguments in lookups {
        for pauses in [false, true] {
            // The remaining keys could change the answer "all are absent" or "all are present".
            let (undecided, decided) =
                if arguments[0] == "db" { ("apple\n", "zebra\n") } else { ("zebra\n", "apple\n") };
            let status = status_with_endless_input(&shell, arguments, undecided, pauses);
            assert_eq!(status, Some(141), "{arguments:?}, pauses: {pauses}");
            let status = status_with_endless_input(&shell, arguments, decided, pauses);
            assert_eq!(status, Some(i32::from(arguments[0] == "db")), "{arguments:?}, pauses: {pauses}");
        }
    }
    let against = ["verify", "fruit.filter", "--against", "-"];
    assert_eq!(status_with_endless_input(&shell, &against, "apple\n", false), Some(141));
    assert_eq!(status_with_endless_input(&shell, &against, "zebra\n", false), Some(1));
    // The output of a build is not stdout.
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut build = redirected(&shell, &["build", "-o", "piped", "-"], "< keys");
    assert!(build.stdout(writer).status().unwrap().success());
}
