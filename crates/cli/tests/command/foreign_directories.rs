//! Tests with directories and files of other programs, and with empty directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::shell::Shell;
use filterblock_store::repair::RepairMode;
use filterblock_store::{Db, Error, Options};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/foreign");

/// Makes a record in the format of the logs and manifests of LevelDB and RocksDB.
fn engine_record(payload: &[u8]) -> Vec<u8> {
    let covered = [&[1], payload].concat();
    let masked = crc32c::crc32c(&covered).rotate_right(15).wrapping_add(0xa282_ead8);
    let len = u16::try_from(payload.len()).unwrap();
    [&masked.to_le_bytes()[..], &len.to_le_bytes(), &covered].concat()
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(GOLDEN).join(name)).unwrap()
}

type Files = Vec<(&'static str, Vec<u8>)>;

fn rocksdb() -> Files {
    vec![
        ("000009.sst", golden("rocksdb-9.8.4/fv6-bloom-n100.sst")),
        ("000010.log", engine_record(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\x05apple\x03red")),
        ("CURRENT", b"MANIFEST-000005\n".to_vec()),
        ("IDENTITY", b"6c2f2a4e-2a6c-4b0f-9d3e-6f1d6a0c8f11".to_vec()),
        ("LOCK", vec![]),
        ("LOG", b"2024/01/01-00:00:00 RocksDB version: 9.8.4\n".to_vec()),
        ("MANIFEST-000005", engine_record(b"\x01\x1aleveldb.BytewiseComparator\x02\x0a\x03\x0b\x04\x00")),
        ("OPTIONS-000007", b"[Version]\n  rocksdb_version=9.8.4\n".to_vec()),
    ]
}

fn leveldb() -> Files {
    vec![
        ("000003.log", vec![]),
        ("000005.ldb", golden("leveldb/db-n1500.ldb")),
        ("CURRENT", b"MANIFEST-000002\n".to_vec()),
        ("LOCK", vec![]),
        ("LOG", b"2024/01/01-00:00:00 Recovering log #3\n".to_vec()),
        ("MANIFEST-000002", engine_record(b"\x01\x1aleveldb.BytewiseComparator\x02\x03\x03\x06\x04\x00")),
    ]
}

/// Returns directories without a store: the name, the files, and the name of the file that the
/// error must name. The last name is empty if the error need not name a file.
fn directories() -> Vec<(&'static str, Files, &'static str)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let without = |files: Files, gone: &str| files.into_iter().filter(|(name, _)| *name != gone).collect();
    vec![
        ("rocksdb", rocksdb(), "CURRENT"),
        ("leveldb", leveldb(), "CURRENT"),
        ("rocksdb-without-current", without(rocksdb(), "CURRENT"), "000009.sst"),
        ("rocksdb-without-manifest", without(rocksdb(), "MANIFEST-000005"), "000009.sst"),
        ("old-leveldb-table", vec![("000005.sst", golden("leveldb/db-n1500.ldb"))], "000005.sst"),
        (
            "badger",
            vec![("000001.sst", vec![7; 999]), ("KEYREGISTRY", vec![1; 20]), ("MANIFEST", vec![9; 9])],
            "000001",
        ),
        ("one-byte", vec![("000012.log", vec![1])], "000012.log"),
        ("zero-byte", vec![("000012.log", vec![0])], "000012.log"),
        ("one-letter", vec![("000012.log", text("x"))], "000012.log"),
        ("manifest-alone", vec![("MANIFEST-000001", text("of the ship"))], "MANIFEST-000001"),
        ("binary-manifest", vec![("MANIFEST-000001", vec![1, 2, 3, 4, 5, 6, 7, 8, 9])], "MANIFEST-000001"),
        ("manifest-of-rocksdb", vec![("MANIFEST-000005", engine_record(b"\x02\x0a"))], "MANIFEST-000005"),
        ("current-alone", vec![("CURRENT", text("yes"))], "CURRENT"),
        ("current-empty", vec![("CURRENT", vec![])], "CURRENT"),
        ("lock-alone", vec![("LOCK", text("pid 4711\n"))], "LOCK"),
        ("temporary", vec![("CURRENT.tmp", text("to do: water the plants"))], "CURRENT.tmp"),
        ("temporary-table", vec![("000007.sst.tmp", text("subsistence"))], "000007.sst.tmp"),
        (
            "home",
            vec![("000012.log", text("day 12\n")), (".bashrc", text("ls\n")), ("notes.log", text("n"))],
            "000012.log",
        ),
        ("unrelated", vec![("README.txt", text("read")), ("photo.jpg", vec![0xff, 0xd8, 0])], ""),
        ("repository", vec![(".git/HEAD", text("ref: refs/heads/main\n")), (".git/config", text("[core]\n"))], ""),
        ("bare-repository", vec![("HEAD", text("ref: x\n")), ("config", text("[core]\n")), ("refs/a", text("0"))], ""),
    ]
}

fn make(dir: &Path, files: &Files) {
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Returns all files below a directory with their bytes, and all directories without bytes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), vec![]);
            found.extend(tree(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

#[test]
fn every_db_command_refuses_foreign_directories() {
    let shell = Shell::new();
    let commands: [&[&str]; 11] = [
        &["put", "D", "key", "value"],
        &["delete", "D", "key"],
        &["get", "D", "key"],
        &["load", "D", "-"],
        &["scan", "D"],
        &["stats", "D"],
        &["compact", "D"],
        &["verify", "D"],
        &["verify", "D", "--salvage", "--json"],
        &["repair", "D", "--dry-run"],
        &["repair", "D"],
    ];
    let mut wrong = Vec::new();
    for (name, files, named) in directories() {
        make(&shell.path(name), &files);
        let before = tree(&shell.path(name));
        for command in commands {
            let arguments: Vec<&str> =
                ["db"].iter().chain(command).map(|part| if *part == "D" { name } else { *part }).collect();
            let run = shell.run_with(&arguments, b"key\tvalue\n");
            let is_named = run.stderr.contains(&format!("{name}/{named}")) || named.is_empty();
            if run.status != 2 || !is_named || !run.stdout.is_empty() {
                wrong.push(format!("{arguments:?}: {run:?}"));
            }
            if tree(&shell.path(name)) != before {
                wrong.push(format!("{arguments:?} changed the directory"));
                fs::remove_dir_all(shell.path(name)).unwrap();
                make(&shell.path(name), &files);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_refusal_names_the_engine() {
    let shell = Shell::new();
    for (name, files, engine) in [
        ("rocks", rocksdb(), "LevelDB or RocksDB"),
        ("table", rocksdb()[..1].to_vec(), "RocksDB"),
        ("current", rocksdb()[2..3].to_vec(), "LevelDB or RocksDB"),
    ] {
        make(&shell.path(name), &files);
        for command in ["repair", "verify"] {
            shell.run(&["db", command, name]).fails_with(&[engine, name, "no file was changed"]);
        }
        shell.run(&["db", "put", name, "k", "v"]).fails_with(&[engine, name]);
    }
}

#[test]
fn an_empty_directory_has_nothing_to_repair() {
    let shell = Shell::new();
    fs::create_dir(shell.path("empty")).unwrap();
    let run = shell.run(&["db", "repair", "empty"]);
    assert!(!run.stderr.contains("not empty"), "{run:?}");
    run.fails_with(&["empty: ", "no store"]);
    assert!(tree(&shell.path("empty")).is_empty());
    // A crash during the creation of a store may leave these files. They are not a store, but a
    // store can be created there.
    shell.write("empty/LOCK", "");
    shell.write("empty/MANIFEST-000001", "");
    shell.write("empty/CURRENT.tmp", "MANIFEST-0");
    shell.run(&["db", "repair", "empty"]).fails_with(&["empty"]);
    shell.run(&["db", "put", "empty", "k", "v"]).exits(0);
}

#[test]
fn a_benchmark_does_not_change_other_files() {
    let shell = Shell::new();
    let mut files = rocksdb();
    files.extend([("filterblock-bench-mine/000001.sst", b"mine".to_vec()), ("store/000001.log", b"mine".to_vec())]);
    make(&shell.path("D"), &files);
    let before = tree(&shell.path("D"));
    let options =
        ["--count", "2000", "--lookups", "200", "--rounds", "1", "--layout", "compacted", "--filter", "bloom:10"];
    shell.run(&[&["bench", "point-miss", "--dir", "D"], &options[..]].concat()).exits(0);
    assert_eq!(tree(&shell.path("D")), before);
}

/// Makes a store with three SST files, and adds files of other programs. Returns the added files.
fn mixed(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let db = Db::open(dir, Options { auto_compaction: false, ..Options::default() }).unwrap();
    for i in 0..2_000u32 {
        db.put(format!("key-{i:05}").as_bytes(), b"value").unwrap();
        if i % 900 == 899 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    let others: Files = vec![
        ("000123.sst", golden("rocksdb-9.8.4/fv6-bloom-n100.sst")),
        ("000124.sst", golden("leveldb/db-n1500.ldb")),
        ("000125.sst.tmp", b"a text\n".to_vec()),
        ("000001.log", b"a diary\n".to_vec()),
        ("MANIFEST-000200", engine_record(b"\x02\x0a")),
        ("000000.sst", b"a text".to_vec()),
    ];
    make(dir, &others);
    others.into_iter().map(|(name, bytes)| (dir.join(name), bytes)).collect()
}

fn assert_holds_all(db: &Db, what: &str) {
    let held = (0..2_000u32).filter(|i| db.get(format!("key-{i:05}").as_bytes()).unwrap().is_some()).count();
    assert_eq!(held, 2_000, "{what}");
}

#[test]
fn files_of_other_programs_in_a_store_are_never_removed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let others = mixed(&dir);
    let check = |what: &str| {
        let now = tree(&dir);
        for (path, bytes) in &others {
            assert!(now.get(path) == Some(bytes), "{what}: {}", path.display());
        }
    };
    for round in 0..3 {
        let db = Db::open(&dir, Options::default()).unwrap();
        let reports = db.stats().reports.join("\n");
        assert!(reports.contains("000123.sst") && reports.contains("RocksDB"), "{reports}");
        db.put(format!("new-{round}").as_bytes(), b"1").unwrap();
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        assert!(db.verify().unwrap().is_sound());
        db.close().unwrap();
        check("opened");
    }
    // The store is sound, then has a damaged SST file, then has no manifest.
    for damage in 0..3 {
        let ours = tree(&dir).into_keys().filter(|path| !others.contains_key(path));
        let ours: Vec<PathBuf> = ours.filter(|path| path.is_file()).collect();
        let is_kind = |path: &&PathBuf, kind: &str| path.file_name().unwrap().to_str().unwrap().contains(kind);
        match damage {
            1 => {
                let table = ours.iter().find(|path| is_kind(path, ".sst")).unwrap();
                let mut bytes = fs::read(table).unwrap();
                let at = bytes.len() - 150;
                bytes[at] ^= 1;
                fs::write(table, bytes).unwrap();
            }
            2 => {
                let gone = ours.iter().filter(|path| is_kind(path, "CURRENT") || is_kind(path, "MANIFEST"));
                gone.for_each(|path| fs::remove_file(path).unwrap());
            }
            _ => {}
        }
        let report = Db::repair(&dir, Options::default(), RepairMode::Write).unwrap();
        check("repaired");
        assert_eq!(report.was_sound(), damage == 0, "{report}");
        let told = report.to_string();
        assert!(others.keys().all(|path| told.contains(path.to_str().unwrap())), "{told}");
        assert!(report.set_aside.iter().all(|(from, _)| !others.contains_key(from)), "{told}");
        let db = Db::open(&dir, Options::default()).unwrap();
        assert_holds_all(&db, &told);
    }
}

#[test]
fn a_foreign_current_file_in_a_store_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    drop(Db::open(&dir, Options::default()).unwrap());
    make(&dir, &rocksdb());
    let before = tree(&dir);
    for mode in [RepairMode::DryRun, RepairMode::Write] {
        let error = Db::repair(&dir, Options::default(), mode).unwrap_err();
        assert!(matches!(error.root(), Error::ForeignFile { .. }), "{error}");
    }
    let error = Db::open(&dir, Options::default()).unwrap_err();
    assert!(matches!(error.root(), Error::ForeignFile { .. }), "{error}");
    assert!(error.to_string().contains("CURRENT"), "{error}");
    assert_eq!(tree(&dir), before);
}

/// A process that holds a file lock by `fcntl`, as other engines do. The store locks by `flock`,
/// but also looks for such locks.
struct Holder(Child);

impl Holder {
    fn of(path: &Path) -> Self {
        use std::io::Read;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "foreign_directories::a_lock_of_another_engine_is_respected", "--nocapture"])
            .env(HELD, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(b"locked\n") {
            assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "{}", said.escape_ascii());
            said.push(byte[0]);
        }
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

const HELD: &str = "FILTERBLOCK_TEST_HELD";

#[test]
fn a_lock_of_another_engine_is_respected() {
    if let Some(path) = std::env::var_os(HELD) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        println!("locked");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    Db::open(&dir, Options::default()).unwrap().close().unwrap();
    let before = tree(&dir);
    let holder = Holder::of(&dir.join("LOCK"));
    for mode in [RepairMode::DryRun, RepairMode::Write] {
        let error = Db::repair(&dir, Options::default(), mode).unwrap_err();
        assert!(matches!(error.root(), Error::Locked) && error.to_string().contains("LOCK"), "{error}");
    }
    let error = Db::open(&dir, Options::default()).unwrap_err();
    assert!(matches!(error.root(), Error::Locked), "{error}");
    assert_eq!(tree(&dir), before);
    drop(holder);
    Db::open(&dir, Options::default()).unwrap().close().unwrap();
}
