//! Tests the limits of the machine: a full disk, no more file descriptors, a read-only directory,
//! and a store that another process has open.
//!
//! Each test runs its own program again as a child process. A test that needs its own file system
//! is skipped if the file system cannot be mounted.

use crate::common;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output};

use crate::steps::{self, Content, do_step, judge, say, skip, small, small_and_quiet, this_program};
use filterblock_store::lsm::Durability;
use filterblock_store::{Db, Error, Options, Result};

/// The exit status of a shell that could not mount the file system.
const NO_ENVIRONMENT: i32 = 77;

fn stored(dir: &Path, content: &mut Content, what: &str) -> Db {
    let db = Db::open(dir, small_and_quiet(Durability::Sync)).unwrap_or_else(|error| panic!("{what}: {error}"));
    judge(&db, std::slice::from_mut(content), what);
    db
}

fn assert_io(error: &Error, kinds: &[ErrorKind], what: &str) {
    let Error::Io(io) = error.root() else { panic!("{what}: {error}") };
    assert!(kinds.contains(&io.kind()), "{what}: {error}");
    assert!(matches!(error, Error::InFile { .. }), "{what}: the error names no file: {error}");
}

/// Writes, flushes and compacts for `steps` steps, or until an error, which it returns. `content`
/// becomes the acknowledged content.
fn work(db: &Db, content: &mut Content, steps: u64) -> Result<()> {
    for step in content.steps + 1..=content.steps + steps {
        do_step(db, 0, step)?;
        content.advance(step);
        match step % 6 {
            2 => db.flush()?,
            5 => db.compact_range(..)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks the open store after a failure: reads return the acknowledged values. A write either
/// fails with a reason, or succeeds.
fn check_failed_store(db: &Db, content: &mut Content, what: &str) {
    match do_step(db, 0, content.steps + 1) {
        Ok(()) => content.advance(content.steps + 1),
        Err(error) => {
            let passes = matches!(error.root(), Error::Io(_) | Error::BackgroundFails { .. });
            assert!(passes || matches!(error.root(), Error::Poisoned { .. }), "{what}: {error}");
        }
    }
    let found: BTreeMap<_, _> = common::scan_all(db).into_iter().collect();
    assert!(found == content.entries, "{what}: reads see the failed write, or miss another one");
}

/// Opens the store after the failure, and checks that it accepts writes, closes and opens again.
fn check_continues(dir: &Path, content: &mut Content, what: &str) {
    let db = stored(dir, content, what);
    work(&db, content, 8).unwrap_or_else(|error| panic!("{what}: {error}"));
    db.close().unwrap();
    drop(stored(dir, content, what));
}

/// Runs the case `child` in a new process, on a file system of `size_mib` MiB that only the new
/// process sees. Skips `test` if no file system can be mounted.
fn in_a_mount(test: &str, child: &str, size_mib: u64) {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size_mib}m tmpfs {} || exit {NO_ENVIRONMENT}; exec \"$@\"",
        dir.path().to_str().unwrap()
    );
    let order = format!("{child}:{}", dir.path().display());
    let mut why = String::new();
    // The first command needs root. The second one works for a user who may create a user namespace
    // and become root in it.
    for unshare in [&["unshare", "-m"][..], &["unshare", "-r", "-m"]] {
        let wrapper = [unshare, &["sh", "-c", &script, "sh"]].concat();
        match this_program(&wrapper, CHILD, &order).output() {
            Err(error) => why = error.to_string(),
            Ok(Output { status, stderr, .. }) => {
                let said = String::from_utf8_lossy(&stderr).into_owned();
                if status.success() {
                    assert!(said.contains("done"), "{said}");
                    return println!("{said}");
                }
                // If `unshare` itself fails, it exits with status 1.
                assert!([Some(NO_ENVIRONMENT), Some(1)].contains(&status.code()), "{said}");
                why = said;
            }
        }
    }
    skip(test, &why);
}

const CHILD: &str = concat!(module_path!(), "::child_process");

#[test]
fn child_process() {
    let Some((what, dir)) = steps::order() else { return };
    match what.as_str() {
        "full" => on_a_full_disk(&dir),
        "descriptors" => without_descriptors(&dir),
        "emptied" => on_a_disk_that_is_emptied(&dir),
        "read-only" => in_a_read_only_directory(&dir),
        "holder" => hold_the_store(&dir),
        _ => panic!("{what}"),
    }
    say("done");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    in_a_mount("full disk", "full", 1);
}

/// Creates a file at `path` that fills the disk to the last byte.
fn ballast(path: &Path) -> File {
    let mut file = File::create(path).unwrap();
    let block = [1; 4096];
    while file.write_all(&block).is_ok() {}
    file
}

fn on_a_full_disk(dir: &Path) {
    let (mut failures, mut failed_opens) = (BTreeMap::<&str, u64>::new(), 0);
    for free_pages in 0..64u64 {
        let what = format!("{free_pages} pages free");
        let store = dir.join(free_pages.to_string());
        let mut content = Content::none(0);
        let db = stored(&store, &mut content, &what);
        work(&db, &mut content, 10).unwrap();
        let filler = ballast(&dir.join("ballast"));
        filler.set_len(filler.metadata().unwrap().len() - free_pages * 4096).unwrap();
        // The steps write the same few keys again and again, so with enough free pages they never
        // fail.
        let Err(error) = work(&db, &mut content, 1_000) else { break };
        // If a flush fails in a background thread, the caller receives the reason.
        let message = error.to_string();
        assert!(message.to_lowercase().contains("no space"), "{what}: {message}");
        // A compaction whose SST would leave no space for the WAL is stopped before the disk is
        // full.
        let kind =
            [".sst", ".log", "MANIFEST", "CURRENT", "must be free"].into_iter().find(|name| message.contains(name));
        *failures.entry(kind.unwrap_or_else(|| panic!("{what}: the error names no file: {message}"))).or_default() += 1;
        check_failed_store(&db, &mut content, &what);
        drop(db);
        // The disk is still full. `Db::open` either succeeds or returns an error with the reason.
        match Db::open(&store, small_and_quiet(Durability::Sync)) {
            Ok(db) => judge(&db, std::slice::from_mut(&mut content), &what),
            Err(error) => {
                assert_io(&error, &[ErrorKind::StorageFull], &what);
                failed_opens += 1;
            }
        }
        fs::remove_file(dir.join("ballast")).unwrap();
        drop(filler);
        check_continues(&store, &mut content, &what);
        fs::remove_dir_all(&store).unwrap();
    }
    assert!(failures.values().sum::<u64>() > 4, "{failures:?}");
    say(&format!("full disk: failed writes by kind of file: {failures:?}; {failed_opens} failed opens"));
}

#[test]
fn a_full_disk_can_be_emptied() {
    in_a_mount("a full disk is emptied", "emptied", 16);
}

/// Fills a small disk and empties the store again.
fn on_a_disk_that_is_emptied(dir: &Path) {
    let store = dir.join("store");
    let open = || Db::open(&store, Options::default()).unwrap();
    let put = |db: &Db, i: u64| db.put(&common::key(i), &[i as u8; 1_000]);
    let mut db = open();
    let (taken, full) = (0..).find_map(|i| put(&db, i).err().map(|error| (i, error))).unwrap();
    assert!(matches!(full.root(), Error::NoSpace { .. }), "{full}");
    say(&format!("full disk: {taken} keys of 1,009 bytes on 16 MiB; {full}"));
    assert!(taken > 4_000, "{taken}");
    for i in 0..taken {
        if i % 1_000 == 500 {
            db.close().unwrap();
            db = open();
            assert_eq!(common::scan_all(&db).len() as u64, taken - i);
        }
        db.delete(&common::key(i)).unwrap();
    }
    db.compact_range(..).unwrap();
    assert!(common::scan_all(&db).is_empty());
    db.close().unwrap();
    let left: usize = bytes_in(&store).values().map(Vec::len).sum();
    assert!(left < 100_000, "{left}");
    let db = open();
    assert!(common::scan_all(&db).is_empty());
    (0..taken / 2).for_each(|i| put(&db, i).unwrap());
}

#[test]
fn a_lack_of_file_descriptors_is_an_error_and_loses_nothing() {
    let dir = common::scratch();
    let order = format!("descriptors:{}", dir.path().display());
    let wrapper = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let output = this_program(&wrapper, CHILD, &order).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("done"), "{said}");
    println!("{said}");
}

/// Opens files until only `free` descriptors are left, and returns the files.
fn take_descriptors(free: usize) -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    assert!(taken.len() < 64);
    taken.truncate(taken.len() - free);
    taken
}

fn without_descriptors(dir: &Path) {
    let mut content = Content::none(0);
    let (mut failed_opens, mut failures) = (0, 0);
    // The harness, the log and the manifest use some of the 64 descriptors, and each SST uses
    // one.
    for free in 0..24 {
        let what = format!("{free} descriptors free");
        let mut taken = take_descriptors(free);
        match Db::open(dir, small_and_quiet(Durability::Sync)) {
            Ok(db) => {
                // `judge` needs one descriptor for files that the store does not keep open.
                taken.pop();
                judge(&db, std::slice::from_mut(&mut content), &what);
            }
            Err(error) => {
                assert_many_files(&error, &what);
                failed_opens += 1;
            }
        }
        drop(taken);
        let db = stored(dir, &mut content, &what);
        work(&db, &mut content, 3).unwrap();
        let taken = take_descriptors(free.min(6));
        if let Err(error) = work(&db, &mut content, 12) {
            assert_many_files(&error, &what);
            check_failed_store(&db, &mut content, &what);
            failures += 1;
        }
        let closed = db.close();
        assert!(closed.is_ok() || failures > 0, "{what}: {closed:?}");
        drop(taken);
        check_continues(dir, &mut content, &what);
    }
    say(&format!("descriptors: {failed_opens} failed opens, and {failures} failures after an open"));
    assert!(failed_opens > 3 && failures > 1, "{failed_opens} {failures}");
}

fn assert_many_files(error: &Error, what: &str) {
    // EMFILE has no error kind of its own. A failed flush reports it as the reason.
    assert!(error.to_string().contains("os error 24"), "{what}: {error}");
    let named = matches!(error, Error::InFile { .. } | Error::BackgroundFails { .. });
    assert!(named, "{what}: the error names no file: {error}");
}

#[test]
fn a_store_in_a_read_only_directory_is_refused_unchanged() {
    in_a_mount("read-only directory", "read-only", 1);
}

fn bytes_in(dir: &Path) -> BTreeMap<std::ffi::OsString, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
}

fn in_a_read_only_directory(dir: &Path) {
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(dir).status().unwrap();
        assert!(status.success());
    };
    let (store, mut content) = (dir.join("store"), Content::none(0));
    let db = stored(&store, &mut content, "new");
    work(&db, &mut content, 10).unwrap();
    // The store is dropped with writes in its WAL.
    drop(db);
    let before = bytes_in(&store);
    remount("ro");
    let error = Db::open(&store, small(Durability::Sync)).unwrap_err();
    assert_io(&error, &[ErrorKind::ReadOnlyFilesystem], "read-only");
    assert!(error.to_string().starts_with(store.to_str().unwrap()), "{error}");
    say(&format!("read-only: {error}"));
    let error = Db::open(dir.join("new"), small(Durability::Sync)).unwrap_err();
    assert_io(&error, &[ErrorKind::ReadOnlyFilesystem], "a new store");
    assert_eq!(bytes_in(&store), before);
    remount("rw");
    check_continues(&store, &mut content, "writable again");
}

fn hold_the_store(dir: &Path) {
    let db = match Db::open(dir, small(Durability::Sync)) {
        Ok(db) => db,
        Err(error) => return say(&format!("refused {error}")),
    };
    do_step(&db, 0, steps::steps_in(&db, 0).unwrap() + 1).unwrap();
    say("holding");
    // The parent kills this process.
    loop {
        std::thread::park();
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_has_ended() {
    let dir = common::scratch();
    let order = format!("holder:{}", dir.path().display());
    let mut content = Content::none(0);
    for round in 1..=3 {
        let mut holder = this_program(&[], CHILD, &order).spawn().unwrap();
        let mut said = BufReader::new(holder.stderr.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "holding");
        let options = [small(Durability::Sync), Options { create_if_missing: false, ..small(Durability::Buffered) }];
        for options in options {
            let error = Db::open(dir.path(), options).unwrap_err();
            assert!(matches!(error.root(), Error::Locked), "{error}");
            assert!(error.to_string().starts_with(dir.path().to_str().unwrap()), "{error}");
        }
        let third = this_program(&[], CHILD, &order).output().unwrap();
        let third = String::from_utf8_lossy(&third.stderr).into_owned();
        assert!(third.contains("refused") && third.contains("already open"), "{third}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        // The lock ended with its process, and the writes of that process are present.
        content.advance(round);
        drop(stored(dir.path(), &mut content, "after the holder"));
        assert_eq!(content.steps, round);
    }
    // Now the child tries to open the store while this process holds the lock.
    let db = stored(dir.path(), &mut content, "held here");
    let refused = this_program(&[], CHILD, &order).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already open"));
    drop(db);
}
