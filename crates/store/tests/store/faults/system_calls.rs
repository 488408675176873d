//! Injects faults at the system calls of a process that concern files, file descriptors or mapped
//! memory.
//!
//! The test runs its own program again under `strace`, which kills the process or makes a call
//! fail. `strace` counts the calls of each name per thread. So the place of a fault is the name of
//! a system call and its number in a thread. The tests leave out numbers that the first thread of
//! the process reaches. The workload runs in two shapes: one thread makes all calls to the store,
//! or each open, write, flush and close has its own thread.
//!
//! `FILTERBLOCK_EVERY_FAULT=1` tries every place. By default the tests try a part of the places. If
//! `FILTERBLOCK_FAULT_PART=3/20` is also set, a run tries the third of twenty parts. Twenty runs
//! then try every place once. Without `strace` the tests are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::steps::{self, Content, do_step, durability_of, judge, say, small_and_quiet, steps_in, this_program};
use filterblock_store::lsm::Durability;
use filterblock_store::{Db, Error, Options, Result};

const CHILD: &str = concat!(module_path!(), "::store_child_process");
const STEPS_PER_RUN: u64 = 10;
/// The number of steps that the store holds, in SSTs and in an unclosed log, when the process
/// begins.
const STEPS_BEFORE: u64 = 12;
/// The number of system calls of each of six names that the workload makes, without effect, before
/// it opens the store. The later calls of its thread then usually have higher numbers than the
/// calls of the loader in the first thread.
const BURNED: u64 = 40;

fn burn() {
    let mut byte = [0];
    for _ in 0..BURNED {
        let Ok(mut zero) = File::options().read(true).write(true).open("/dev/zero") else { continue };
        let _ = (zero.read(&mut byte), zero.write(&byte), zero.read_at(&mut byte, 0), zero.metadata());
    }
}

/// Runs `act` on the calling thread or, if `apart`, on its own thread.
fn act<T: Send>(apart: bool, act: impl FnOnce() -> T + Send) -> T {
    if apart { std::thread::scope(|scope| scope.spawn(act).join().unwrap()) } else { act() }
}

/// Opens the store, writes to it, flushes, reads and closes it. If `apart` is false, it also
/// compacts the store, makes a checkpoint and prints the path of the checkpoint. Prints each
/// acknowledged step, each wrong answer and, after each flush, compaction and close, the last
/// durable step.
fn live(dir: &Path, options: Options, copy: &Path, apart: bool) -> Result<()> {
    let db = act(apart, || Db::open(dir, options))?;
    let before = act(apart, || steps_in(&db, 0))?;
    for step in before + 1..=before + STEPS_PER_RUN {
        act(apart, || do_step(&db, 0, step))?;
        say(&format!("ack {step}"));
        match step % 5 {
            2 => act(apart, || db.flush())?,
            4 if apart => act(apart, || db.flush())?,
            4 => db.compact_range(..)?,
            _ => continue,
        }
        say(&format!("durable {step}"));
    }
    if !apart {
        db.checkpoint(copy)?;
        say(&format!("copied {}", copy.display()));
    }
    let found: BTreeMap<_, _> = db.scan(..).collect::<Result<_>>()?;
    if found != Content::of(0, before + STEPS_PER_RUN).entries {
        say(&format!("WRONG scan after {before} and {STEPS_PER_RUN} steps"));
    }
    for (key, value) in &found {
        if db.get(key)?.as_ref() != Some(value) {
            say(&format!("WRONG get of {key:?}"));
        }
    }
    act(apart, || db.close())?;
    say(&format!("durable {}", before + STEPS_PER_RUN));
    Ok(())
}

/// Runs the workload four times. After an error the next run starts with the files that remain.
fn be_the_store(dir: &Path, durability: Durability, apart: bool) {
    burn();
    for life in 0..4 {
        let copy = dir.with_file_name(format!("copy{life}"));
        match live(dir, small_and_quiet(durability), &copy, apart) {
            Ok(()) => {}
            // Every error names its file, except a refusal after an earlier error.
            Err(error @ (Error::InFile { .. } | Error::Poisoned { .. } | Error::BackgroundFails { .. })) => {
                let is_refusal =
                    matches!(error.root(), Error::Io(_) | Error::Poisoned { .. } | Error::BackgroundFails { .. });
                say(&format!("{} {error}", if is_refusal { "refused" } else { "WRONG error" }));
            }
            Err(error) => say(&format!("WRONG error without a file: {error}")),
        }
    }
    say("end");
    // The directory shows the end even if the process cannot print.
    let _ = fs::create_dir(dir.with_file_name("end"));
}

#[test]
fn store_child_process() {
    let Some((mode, dir)) = steps::order() else { return };
    let (durability, shape) = mode.split_once('-').unwrap();
    // The harness may run this test on the process's first thread, whose calls get no faults.
    std::thread::scope(|scope| {
        scope.spawn(|| be_the_store(&dir, durability_of(durability), shape == "apart"));
    });
}

/// One fault: the system call that it hits, its effect in the words of `strace`, and the number of
/// the call in its thread.
#[derive(Debug, Clone)]
struct Injection {
    call: String,
    what: &'static str,
    when: String,
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // The store may remove an obsolete log shortly after a flush.
        if let Err(error) = fs::copy(entry.path(), to.join(entry.file_name())) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }
}

/// Writes [`STEPS_BEFORE`] steps to a store and copies its files to `dir`, as a kill would leave
/// them.
fn leave_behind(dir: &Path) {
    let live = dir.with_file_name("live");
    let db = Db::open(&live, small_and_quiet(Durability::Sync)).unwrap();
    for step in 1..=STEPS_BEFORE {
        do_step(&db, 0, step).unwrap();
        if step % 4 == 2 {
            db.flush().unwrap();
        }
    }
    copy_files(&live, dir);
}

struct Judged {
    struck: bool,
    refusals: u64,
}

struct Workshop {
    base: tempfile::TempDir,
    mode: &'static str,
    durability: Durability,
    number: u64,
}

impl Workshop {
    fn new(mode: &'static str) -> Self {
        let base = common::scratch();
        let durability = durability_of(mode.split_once('-').unwrap().0);
        leave_behind(&base.path().join("before"));
        Self { base, mode, durability, number: 0 }
    }

    /// Runs the store under `strace` with these arguments. Returns its directory, its output, and
    /// the notes of strace.
    fn run(&mut self, strace: &[&str]) -> (PathBuf, String, String) {
        self.number += 1;
        let dir = self.base.path().join(format!("{}", self.number));
        let (store, notes) = (dir.join("store"), dir.join("notes"));
        copy_files(&self.base.path().join("before"), &store);
        let wrapper = [&["strace", "-f", "-o", notes.to_str().unwrap()], strace, &["--"]].concat();
        let mut command = this_program(&wrapper, CHILD, &format!("{}:{}", self.mode, store.display()));
        // With Cargo's `LD_LIBRARY_PATH`, the loader opens dozens of files on the first thread. The
        // test would then leave out the store's calls with the numbers of these calls.
        let output = command.env_remove("LD_LIBRARY_PATH").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (store, said, fs::read_to_string(notes).unwrap_or_default())
    }

    /// Returns for each call name the number of calls by the first thread, and the largest number
    /// of calls by any other thread.
    fn places(&mut self) -> BTreeMap<String, (u64, u64)> {
        let (_, said, notes) = self.run(&["-e", "trace=%file,%desc,madvise,msync"]);
        assert!(said.contains("\nend"), "{said}\n{notes}");
        assert!(!said.contains("WRONG") && !said.contains("refused"), "{said}");
        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut first_thread = None;
        for line in notes.lines() {
            let (thread, rest) = line.split_once(' ').unwrap();
            let name: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            first_thread.get_or_insert_with(|| thread.to_owned());
            if !name.is_empty() {
                *counts.entry((name, thread.to_owned())).or_default() += 1;
            }
        }
        let names: BTreeSet<String> = counts.keys().map(|(name, _)| name.clone()).collect();
        let range = |name: String| {
            let of_name = counts.iter().filter(|((other, _), _)| *other == name);
            let (first, others): (Vec<_>, Vec<_>) =
                of_name.partition(|((_, thread), _)| first_thread.as_ref() == Some(thread));
            let most = |counts: Vec<(&_, &u64)>| counts.iter().map(|(_, count)| **count).max().unwrap_or(0);
            (name, (most(first), most(others)))
        };
        names.into_iter().map(range).collect()
    }

    /// Runs the process once with a fault. Checks the store and the checkpoints that it leaves.
    fn try_one(&mut self, injection: &Injection) -> Judged {
        let Injection { call, what, when } = injection;
        let inject = format!("inject={call}:{what}:when={when}");
        let (store, said, notes) = self.run(&["-e", &format!("trace={call}"), "-e", &inject]);
        let what = format!("{} {inject}: {said}", self.mode);
        let killed = notes.contains("killed by SIGKILL");
        // A process that runs out of memory aborts.
        let ended = killed
            || said.contains("\nend")
            || store.with_file_name("end").exists()
            || said.contains("memory allocation of");
        assert!(ended && !said.contains("WRONG") && !said.contains("panicked"), "{what}");
        let last = |word: &str| said.lines().rev().find_map(|line| line.strip_prefix(word)?.trim().parse::<u64>().ok());
        let acknowledged = if self.durability == Durability::Sync { last("ack") } else { None };
        let floor = acknowledged.max(last("durable")).unwrap_or(0).max(STEPS_BEFORE);
        self.judge_store(&store, floor, &what);
        let copies = said.lines().filter_map(|line| line.strip_prefix("copied "));
        for copy in copies {
            self.judge_store(Path::new(copy), 0, &what);
        }
        fs::remove_dir_all(store.parent().unwrap()).unwrap();
        let refusals = said.lines().filter(|line| line.starts_with("refused")).count() as u64;
        Judged { struck: killed || notes.contains("(INJECTED)"), refusals }
    }

    fn judge_store(&self, dir: &Path, floor: u64, what: &str) {
        for again in [false, true] {
            let options = Options { create_if_missing: false, ..small_and_quiet(self.durability) };
            let db = Db::open(dir, options).unwrap_or_else(|error| panic!("{error}: {what}"));
            let mut contents = [Content::of(0, floor + u64::from(again))];
            judge(&db, &mut contents, what);
            let reports = db.stats().reports;
            assert!(reports.iter().all(|report| report.contains("cut off")), "{reports:?}: {what}");
            // The store continues to work.
            do_step(&db, 0, contents[0].steps + 1).unwrap();
            db.close().unwrap();
        }
    }
}

/// Returns the reason why strace does not work here, or `None` if it works.
fn missing() -> Option<String> {
    match Command::new("strace").args(["-f", "-o", "/dev/null", "-e", "trace=close", "true"]).output() {
        Err(error) => Some(format!("strace cannot be run: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("strace cannot trace: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Returns whether this run tries the calls with this number.
fn is_in_part(number: u64) -> bool {
    let Ok(text) = std::env::var("FILTERBLOCK_FAULT_PART") else { return true };
    let part = text.split_once('/').and_then(|(part, parts)| Some((part.parse::<u64>().ok()?, parts.parse().ok()?)));
    let Some((part, parts @ 1..)) = part else { panic!("FILTERBLOCK_FAULT_PART must be K/N, not {text}") };
    number % parts == part % parts
}

/// Tries one in `stride` faults of a mode, or all faults with `FILTERBLOCK_EVERY_FAULT`.
fn try_places(
    test: &str,
    mode: &'static str,
    stride: usize,
    whats: impl Fn(&str) -> Vec<(&'static str, &'static str)>,
) {
    if let Some(why) = missing() {
        return steps::skip(test, &why);
    }
    let mut workshop = Workshop::new(mode);
    let mut injections = Vec::new();
    for (call, (first_thread, most)) in workshop.places() {
        let burned =
            if ["openat", "read", "write", "pread64", "statx", "close"].contains(&call.as_str()) { BURNED } else { 0 };
        let begin = if mode.ends_with("apart") { first_thread } else { first_thread.max(burned) };
        for number in (begin + 1..=most).filter(|&number| is_in_part(number)) {
            for (what, lasting) in whats(&call) {
                injections.push(Injection { call: call.clone(), what, when: format!("{number}{lasting}") });
            }
        }
    }
    let stride = if std::env::var_os("FILTERBLOCK_EVERY_FAULT").is_some() { 1 } else { stride };
    let (mut tried, mut struck, mut refusals) = (0u64, 0u64, 0);
    for injection in injections.iter().step_by(stride) {
        let judged = workshop.try_one(injection);
        tried += 1;
        struck += u64::from(judged.struck);
        refusals += judged.refusals;
    }
    println!("{test} {mode}: {} places, {tried} tried, {struck} struck, {refusals} errors", injections.len());
    assert!(struck * 10 > tried * 9, "only {struck} of {tried} faults hit a call");
}

fn kill(_: &str) -> Vec<(&'static str, &'static str)> {
    vec![("signal=KILL", "")]
}

/// Returns the failures to inject into a call, with a `+` for a permanent failure. `close` gets
/// none: the store ignores its result, and a failure would only keep the descriptor open. `execve`
/// gets none, because the store does not call it.
fn fail(call: &str) -> Vec<(&'static str, &'static str)> {
    match call {
        "close" | "execve" => vec![],
        // `retval=0` is correct, because nothing was written. Other counts would claim bytes that
        // were not written. A full disk gives true short counts.
        "write" => vec![("error=EIO", ""), ("error=ENOSPC", "+"), ("error=EINTR", ""), ("retval=0", "")],
        "openat" | "fsync" | "fdatasync" | "rename" | "renameat" | "linkat" | "mkdir" | "mkdirat" => {
            vec![("error=EIO", ""), ("error=EIO", "+"), ("error=ENOSPC", ""), ("error=EINTR", "")]
        }
        _ => vec![("error=EIO", ""), ("error=EINTR", "")],
    }
}

#[test]
fn a_store_killed_before_any_call_keeps_acknowledged_writes() {
    try_places("kill", "sync-alone", 53, kill);
}

#[test]
fn a_buffered_store_killed_before_any_call_has_its_first_steps() {
    try_places("kill", "buffered-alone", 53, kill);
}

#[test]
fn a_store_killed_in_its_own_threads_keeps_acknowledged_writes() {
    try_places("kill", "sync-apart", 19, kill);
}

#[test]
fn a_failing_call_under_sync_names_a_file_and_loses_nothing() {
    try_places("fail", "sync-alone", 113, fail);
}

#[test]
fn a_failing_call_names_a_file_and_loses_nothing_durable() {
    try_places("fail", "buffered-alone", 113, fail);
}

#[test]
fn a_failing_call_of_store_threads_loses_nothing() {
    try_places("fail", "sync-apart", 53, fail);
}
