//! Tests unexpected files in a store's directory: pipes, and files that people or other programs
//! wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{in_time, scratch};
use filterblock_store::lsm::{Durability, LogRecovery};
use filterblock_store::repair::RepairMode;
use filterblock_store::storage::IoMode;
use filterblock_store::{Db, Error, Options};

fn options() -> Options {
    Options { durability: Durability::Sync, auto_compaction: false, ..Options::default() }
}

fn make_store(dir: &Path) {
    let db = Db::open(dir, options()).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_pipe_is_refused_in_time() {
    for (name, has_store) in
        [("LOCK", false), ("LOCK", true), ("000001.sst", false), ("000099.log", true), ("CURRENT", false)]
    {
        let temporary = scratch();
        let dir = temporary.path().join("store");
        fs::create_dir(&dir).unwrap();
        if has_store {
            make_store(&dir);
            let _ = fs::remove_file(dir.join(name));
        }
        assert!(Command::new("mkfifo").arg(dir.join(name)).status().unwrap().success());
        let what = format!("{name}, store: {has_store}");
        let (first, second) = (dir.clone(), dir.clone());
        let opened = in_time(&what, move || Db::open(first, options()).map(drop));
        let repaired = in_time(&what, move || Db::repair(second, options(), RepairMode::DryRun).map(drop));
        assert!(opened.is_err() && repaired.is_err(), "{what}: {opened:?}, {repaired:?}");
        assert!(opened.unwrap_err().to_string().contains(name), "{what}");
    }
}

#[test]
fn a_pipe_named_as_an_sst_is_refused_in_every_io_mode() {
    for io in [IoMode::Buffered, IoMode::Direct] {
        let temporary = scratch();
        let dir = temporary.path().join("store");
        make_store(&dir);
        let sst = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let sst = sst.into_iter().find(|path| path.extension().is_some_and(|end| end == "sst")).unwrap();
        fs::remove_file(&sst).unwrap();
        assert!(Command::new("mkfifo").arg(&sst).status().unwrap().success());
        let error = in_time(&format!("{io:?}"), move || {
            Db::open(dir, Options { io, ..options() }).and_then(|db| db.get(b"key")).unwrap_err()
        });
        assert!(error.to_string().contains(sst.file_name().unwrap().to_str().unwrap()), "{io:?}: {error}");
        assert!(error.to_string().contains("not a regular file"), "{io:?}: {error}");
    }
}

#[test]
fn a_text_file_named_current_tmp_is_kept_and_reported() {
    let temporary = scratch();
    let dir = temporary.path().join("store");
    make_store(&dir);
    let path = dir.join("CURRENT.tmp");
    fs::write(&path, "my own notes\n").unwrap();
    let errors = [
        Db::open(&dir, options()).map(drop).unwrap_err(),
        Db::repair(&dir, options(), RepairMode::Write).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error.root(), Error::ForeignFile { .. }), "{error}");
        assert!(error.to_string().contains("CURRENT.tmp"), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "my own notes\n");
    // A partial manifest name, as a crash leaves it in `CURRENT.tmp`, does not prevent an open.
    fs::write(&path, "MANIFEST-0000").unwrap();
    assert_eq!(Db::open(&dir, options()).unwrap().get(b"key").unwrap().unwrap(), b"value");
}

#[test]
fn a_log_of_another_program_is_reported_and_salvage_skips_it() {
    let temporary = scratch();
    let dir = temporary.path().join("store");
    make_store(&dir);
    let diary = "dear diary, this is a text that is longer than the header of a log\n".repeat(9);
    for (name, content) in [("000098.log", diary.as_str()), ("000099.log", "short")] {
        fs::write(dir.join(name), content).unwrap();
    }
    // By default, an open fails at `000098.log`, which may have replaced the store's last log.
    let error = Db::open(&dir, options()).map(drop).unwrap_err();
    assert!(matches!(error.root(), Error::ForeignFile { .. }) && error.to_string().contains("000098.log"), "{error}");
    let db = Db::open(&dir, Options { recovery: LogRecovery::Salvage, ..options() }).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
    assert!(db.stats().reports.iter().any(|report| report.contains("000098.log")), "{:?}", db.stats().reports);
    assert!(db.verify().unwrap().is_sound());
    db.close().unwrap();
    assert_eq!(fs::read_to_string(dir.join("000098.log")).unwrap(), diary);
    assert_eq!(fs::read_to_string(dir.join("000099.log")).unwrap(), "short");
}

#[test]
fn files_with_the_names_of_new_files_are_never_removed() {
    let temporary = scratch();
    let dir = temporary.path().join("store");
    let db = Db::open(&dir, options()).unwrap();
    db.put(b"key", b"value").unwrap();
    let number = |i: u32| format!("{i:06}");
    let names: Vec<String> = (20..40).flat_map(|i| [".log", ".sst", ".sst.tmp"].map(|end| number(i) + end)).collect();
    names.iter().for_each(|name| fs::write(dir.join(name), "a text").unwrap());
    // File numbers are assigned in order, so some attempts meet one of these files.
    let failed = (0..60u32).filter(|i| db.put(&i.to_le_bytes(), b"1").is_err() || db.flush().is_err()).count();
    assert!(failed > 0, "no new file had the name of an existing file");
    assert!(names.iter().all(|name| fs::read(dir.join(name)).is_ok_and(|content| content == b"a text")));
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_reports_no_size_is_not_full() {
    let temporary = scratch();
    let mounted = Command::new("mount").args(["-t", "ramfs", "none"]).arg(temporary.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no ramfs can be mounted here");
        return;
    }
    let dir = temporary.path().join("store");
    let result = std::panic::catch_unwind(|| {
        make_store(&dir);
        assert_eq!(Db::open(&dir, options()).unwrap().get(b"key").unwrap().unwrap(), b"value");
    });
    assert!(Command::new("umount").arg("-l").arg(temporary.path()).status().unwrap().success());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn an_empty_path_is_the_working_directory() {
    const CHILD: &str = "FILTERBLOCK_TEST_EMPTY_PATH";
    if std::env::var_os(CHILD).is_some() {
        make_store(Path::new(""));
        Db::repair("", options(), RepairMode::DryRun).unwrap();
        return;
    }
    let temporary = scratch();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "odd_files::an_empty_path_is_the_working_directory", "--nocapture"])
        .current_dir(temporary.path())
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(temporary.path().join("CURRENT").exists());
}
