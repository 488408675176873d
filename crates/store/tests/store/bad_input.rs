//! Tests that bad directories, arguments and disks cause errors that say what is wrong and where.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{self, DIR, assert_names, change, files, image, key, quiet, replace, scan_all};
use filterblock_store::lsm::{Durability, MAX_KEY_LEN_BYTES, WriteBatch};
use filterblock_store::storage::{Disk, Memory, Storage};
use filterblock_store::{Db, Error, Field, Options};

fn open_error(storage: &Memory) -> Error {
    let error = Db::open(DIR, quiet(storage)).unwrap_err();
    println!("{error}");
    error
}

fn io_kind(error: &Error) -> Option<ErrorKind> {
    if let Error::Io(error) = error.root() { Some(error.kind()) } else { None }
}

#[test]
fn a_directory_with_foreign_files_does_not_become_a_store() {
    let storage = Memory::new();
    let dir = Path::new(DIR);
    storage.create_dir_all(dir).unwrap();
    replace(&storage, &dir.join("holiday.jpg"), b"picture");
    let error = open_error(&storage);
    assert!(matches!(error.root(), Error::NotAStore), "{error:?}");
    assert_names(&error, dir);
    assert_eq!(storage.list(dir).unwrap(), ["holiday.jpg"]);
}

#[test]
fn a_file_in_place_of_a_directory_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("file");
    std::fs::write(&file, b"precious").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Db::open(&path, Options::default()).unwrap_err();
        println!("{error}");
        assert!(io_kind(&error).is_some(), "{error:?}");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_missing_store_is_an_error_unless_it_may_be_created() {
    let temporary = tempfile::tempdir().unwrap();
    let (empty, missing) = (temporary.path().join("empty"), temporary.path().join("missing"));
    std::fs::create_dir(&empty).unwrap();
    for dir in [&empty, &missing] {
        let error = Db::open(dir, Options { create_if_missing: false, ..Options::default() }).unwrap_err();
        println!("{error}");
        assert_eq!(io_kind(&error), Some(ErrorKind::NotFound));
        assert_names(&error, dir);
    }
    assert!(!missing.exists() && std::fs::read_dir(&empty).unwrap().next().is_none());
    Db::open(&missing, Options::default()).unwrap().close().unwrap();
    Db::open(&missing, Options { create_if_missing: false, ..Options::default() }).unwrap();
}

#[test]
fn a_store_is_opened_once_across_handles_and_processes() {
    const LOCKED: &str = "FILTERBLOCK_TEST_LOCKED";
    if let Some(dir) = std::env::var_os(LOCKED) {
        let error = Db::open(&dir, Options::default()).unwrap_err();
        assert!(matches!(error.root(), Error::Locked), "{error:?}");
        assert_names(&error, &Path::new(&dir).join("LOCK"));
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let db = Db::open(temporary.path(), Options::default()).unwrap();
    db.put(b"key", b"value").unwrap();
    let error = Db::open(temporary.path(), Options::default()).unwrap_err();
    println!("{error}");
    assert!(matches!(error.root(), Error::Locked), "{error:?}");
    assert_names(&error, &temporary.path().join("LOCK"));
    let other = || {
        let name = concat!(module_path!(), "::a_store_is_opened_once_across_handles_and_processes");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", common::test_path(name)]).env(LOCKED, temporary.path()).output().unwrap()
    };
    let output = other();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The refused opens have changed nothing.
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
    drop(db);
    assert!(!other().status.success(), "still locked after the close");
    assert_eq!(Db::open(temporary.path(), Options::default()).unwrap().get(b"key").unwrap().unwrap(), b"value");
}

#[test]
fn a_newer_format_of_any_file_is_distinguished_from_damage() {
    let make = |storage: &Memory| {
        let db = Db::open(DIR, Options { durability: Durability::Sync, ..quiet(storage) }).unwrap();
        db.put(b"a", b"in a table").unwrap();
        db.flush().unwrap();
        db.put(b"b", b"in the log").unwrap();
        image(storage)
    };
    let store = make(&Memory::new());
    let newer_log = |bytes: &mut Vec<u8>| {
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
    };
    let newer_table = |bytes: &mut Vec<u8>| {
        let footer = bytes.len() - 112;
        bytes[footer + 96..footer + 100].copy_from_slice(&2u32.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[footer..footer + 100]);
        bytes[footer + 100..footer + 104].copy_from_slice(&checksum.to_le_bytes());
    };
    type Edit<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(&str, Edit<'_>); 3] = [(".log", &newer_log), ("MANIFEST-", &newer_log), (".sst", &newer_table)];
    for (kind, edit) in cases {
        let storage = image(&store);
        let path = files(&storage, Path::new(DIR), kind).pop().unwrap();
        change(&storage, &path, edit);
        let before = storage.read(&path).unwrap();
        let error = open_error(&storage);
        assert!(matches!(error.root(), Error::Unsupported { field: Field::Version, found: 2 }), "{error:?}");
        assert!(
            error.is_unsupported() && !error.is_damage(),
            "a newer format must not count as damage, or a repair would destroy sound bytes: {error}"
        );
        assert_names(&error, &path);
        assert!(error.to_string().contains("newer"), "{error}");
        assert_eq!(storage.read(&path).unwrap(), before, "the file must stay readable for the newer version");
    }
    assert_eq!(scan_all(&Db::open(DIR, quiet(&store)).unwrap()).len(), 2);
}

#[test]
fn keys_and_values_up_to_their_limits_are_stored() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    let longest = vec![b'k'; MAX_KEY_LEN_BYTES];
    let large = vec![7; 1 << 20];
    let entries: [(&[u8], &[u8]); 4] =
        [(b"", b"of the empty key"), (b"empty", b""), (b"large", &large), (&longest, &large)];
    for (key, value) in entries {
        db.put(key, value).unwrap();
    }
    let too_long = vec![b'k'; MAX_KEY_LEN_BYTES + 1];
    for error in [db.put(&too_long, b"").unwrap_err(), db.delete(&too_long).unwrap_err()] {
        println!("{error}");
        assert!(matches!(error, Error::KeyTooLong { len_bytes: 65_537, max_bytes: 65_536 }), "{error:?}");
        assert!(error.to_string().contains("65537") && error.to_string().contains("65536"), "{error}");
    }
    // Reading a key that is too long is not an error: the key does not exist.
    assert_eq!(db.get(&too_long).unwrap(), None);
    for _ in 0..2 {
        for (key, value) in entries {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value));
        }
        assert_eq!(scan_all(&db).len(), entries.len());
        db.compact_range(..).unwrap();
    }
    db.close().unwrap();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    for (key, value) in entries {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value));
        db.delete(key).unwrap();
        assert_eq!(db.get(key).unwrap(), None);
    }
    db.compact_range(..).unwrap();
    assert_eq!((scan_all(&db).len(), db.stats().total.tables), (0, 0));
}

#[test]
fn a_batch_larger_than_the_write_buffer_survives_a_crash_whole() {
    let storage = Memory::new();
    let options = || Options { write_buffer_bytes: 1_000, durability: Durability::Sync, ..quiet(&storage) };
    let db = Db::open(DIR, options()).unwrap();
    let mut batch = WriteBatch::new();
    (0..5_000).for_each(|i| batch.put(&key(i), &[1; 50]).unwrap());
    db.write(batch).unwrap();
    let crashed = image(&storage);
    assert_eq!(scan_all(&db).len(), 5_000);
    db.put(b"next", b"").unwrap();
    db.flush().unwrap();
    assert_eq!(scan_all(&db).len(), 5_001);
    let db = Db::open(DIR, Options { storage: Arc::new(crashed), ..options() }).unwrap();
    assert_eq!(scan_all(&db).len(), 5_000);
    // An empty batch is not an error.
    db.write(WriteBatch::new()).unwrap();
}

#[test]
fn ranges_that_hold_nothing_are_empty() {
    let storage = Memory::new();
    common::make_store(&storage, 2, 20);
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    use std::ops::Bound::{Excluded, Included};
    let (low, high) = (key(3), key(9));
    let ranges = [
        (Included(&high[..]), Included(&low[..])),
        (Excluded(&low[..]), Excluded(&low[..])),
        (Included(b"x".as_slice()), Excluded(b"z".as_slice())),
        (Included(&low[..]), Excluded(&low[..])),
    ];
    for range in ranges {
        assert_eq!((db.scan(range).count(), db.scan(range).rev().count()), (0, 0), "{range:?}");
        db.compact_range(range).unwrap();
    }
    assert_eq!(db.multi_get::<&[u8]>(&[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
    assert_eq!(scan_all(&db).len(), 40);
}

#[test]
fn a_taken_file_name_is_reported_and_loses_nothing() {
    // Directories with the temporary names of the next SSTs stand in for an unwritable directory,
    // which would not stop the superuser.
    let temporary = tempfile::tempdir().unwrap();
    let options = || Options { durability: Durability::Sync, ..Options::default() };
    let db = Db::open(temporary.path(), options()).unwrap();
    db.put(b"before", b"1").unwrap();
    let in_the_way: Vec<_> = (0..20).map(|i| temporary.path().join(format!("{i:06}.sst.tmp"))).collect();
    in_the_way.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let error = db.flush().unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains(".sst.tmp"), "{error}");
    assert!(matches!(error.root(), Error::BackgroundFails { .. }), "{error:?}");
    // The log accepts the writes that cannot be flushed.
    db.put(b"then", b"2").unwrap();
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"1");
    in_the_way.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(temporary.path(), options()).unwrap();
    let pairs = [(b"before".to_vec(), b"1".to_vec()), (b"then".to_vec(), b"2".to_vec())];
    assert_eq!(scan_all(&db), pairs);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_writes_and_keeps_acknowledged_ones() {
    let temporary = tempfile::tempdir().unwrap();
    let mount = |what: &[&str]| Command::new(what[0]).args(&what[1..]).arg(temporary.path()).status();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no small file system can be mounted here");
        return;
    }
    let result = std::panic::catch_unwind(|| fill_the_disk(temporary.path()));
    assert!(mount(&["umount", "-l"]).unwrap().success());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[cfg(target_os = "linux")]
fn fill_the_disk(disk: &Path) {
    let dir = disk.join("store");
    let ballast = disk.join("ballast");
    // In the four cases, the disk becomes full in the log, in a flush, in a compaction, and at the
    // reserve.
    for (write_buffer_bytes, durability, reserve_bytes) in [
        (16 << 20, Durability::Sync, Some(0)),
        (60_000, Durability::Sync, Some(0)),
        (30_000, Durability::Buffered, Some(0)),
        (60_000, Durability::Sync, None),
    ] {
        let options = || Options {
            write_buffer_bytes,
            durability,
            reserve_bytes,
            l0_compaction_trigger: 2,
            ..Options::default()
        };
        std::fs::write(&ballast, vec![0; 600 << 10]).unwrap();
        let db = Db::open(&dir, options()).unwrap();
        let value = |i: u64| [key(i), vec![b'v'; 500]].concat();
        let mut acknowledged = 0;
        let error = loop {
            match db.put(&key(acknowledged), &value(acknowledged)) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        println!("{write_buffer_bytes}, {durability:?}: {acknowledged} writes, then {error}");
        let message = error.to_string();
        assert!(message.contains(dir.to_str().unwrap()) && message.contains("space"), "{message}");
        assert!(acknowledged > 50, "{acknowledged}");
        for i in 0..acknowledged {
            assert_eq!(db.get(&key(i)).unwrap(), Some(value(i)), "key {i} must be readable after the failure");
        }
        // A merge may release space, so further writes may succeed or fail. `close` may fail too.
        // With `Sync`, the log then holds the acknowledged writes that are in no SST.
        drop(db.close());
        // An open on the full disk may succeed or fail. In both cases no durable write is lost.
        for _ in 0..2 {
            drop(Db::open(&dir, options()).map(drop));
        }
        std::fs::remove_file(&ballast).unwrap();
        let db = Db::open(&dir, options()).unwrap();
        let found = scan_all(&db);
        if durability == Durability::Sync {
            assert!(found.len() as u64 >= acknowledged, "{} of {acknowledged} acknowledged writes found", found.len());
        }
        assert!(found.iter().zip(0..).all(|((k, v), i)| *k == key(i) && *v == value(i)), "not a prefix of the writes");
        assert!(db.verify().unwrap().is_sound());
        // A running compaction has a temporary file of its own.
        db.wait_idle().unwrap();
        let names = Disk.list(&dir).unwrap();
        assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
        db.close().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
