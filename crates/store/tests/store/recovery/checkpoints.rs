//! Tests that a checkpoint is a separate store, equal to its source at the time of the checkpoint.

use std::path::Path;

use crate::common::{self, DIR, files, key, quiet, replace, scan_all};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Options};

const COPY: &str = "/copies/one";

fn fill(db: &Db, from: u64, to: u64, value: &[u8]) {
    for i in from..to {
        db.put(&key(i), value).unwrap();
    }
}

#[test]
fn a_checkpoint_equals_its_source_and_is_then_independent() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    fill(&db, 0, 300, b"first");
    db.flush().unwrap();
    fill(&db, 200, 400, b"second");
    db.delete(&key(0)).unwrap();
    db.checkpoint(COPY).unwrap();
    let then = scan_all(&db);
    assert_eq!(then.len(), 399);

    let copy = Db::open(COPY, quiet(&storage)).unwrap();
    assert_eq!(scan_all(&copy), then);
    fill(&db, 0, 100, b"source");
    fill(&copy, 100, 150, b"copy");
    db.compact_range(..).unwrap();
    copy.compact_range(..).unwrap();
    for (store, own, other) in [(&db, 50, 120), (&copy, 120, 50)] {
        let value = |i| store.get(&key(i)).unwrap().unwrap();
        assert!([&b"source"[..], b"copy"].contains(&value(own).as_slice()));
        assert_eq!(value(other), b"first");
    }
    db.close().unwrap();
    copy.close().unwrap();
    for (dir, kept) in [(DIR, &b"source"[..]), (COPY, b"first")] {
        let db = Db::open(dir, quiet(&storage)).unwrap();
        assert_eq!(db.get(&key(50)).unwrap().unwrap(), kept);
        assert!(db.verify().unwrap().is_sound());
        assert_eq!(db.stats().reports, Vec::<String>::new());
    }
}

#[test]
fn a_checkpoint_on_disk_shares_ssts_and_outlives_the_source() {
    let temporary = tempfile::tempdir().unwrap();
    let (source, target) = (temporary.path().join("source"), temporary.path().join("deep/copy"));
    let db = Db::open(&source, Options::default()).unwrap();
    fill(&db, 0, 500, b"value");
    db.checkpoint(&target).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let name = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name());
        let table = name.into_iter().find(|name| name.to_str().unwrap().ends_with(".sst")).unwrap();
        let inode = |dir: &Path| std::fs::metadata(dir.join(&table)).unwrap().ino();
        assert_eq!(inode(&source), inode(&target));
    }
    drop(db);
    std::fs::remove_dir_all(&source).unwrap();
    let copy = Db::open(&target, Options::default()).unwrap();
    assert_eq!(scan_all(&copy).len(), 500);
    assert!(copy.verify().unwrap().is_sound());
}

#[test]
fn a_checkpoint_into_a_directory_with_files_is_refused() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    fill(&db, 0, 10, b"value");
    storage.create_dir_all(Path::new(COPY)).unwrap();
    replace(&storage, &Path::new(COPY).join("precious"), b"bytes");
    for dir in [COPY, DIR] {
        let before = storage.list(Path::new(dir)).unwrap();
        let error = db.checkpoint(dir).unwrap_err();
        common::assert_names(&error, Path::new(dir));
        assert!(error.to_string().contains("empty"), "{error}");
        // The checkpoint flushes the source first.
        let added = if dir == DIR { files(&storage, Path::new(DIR), ".sst").len() } else { 0 };
        assert!(storage.list(Path::new(dir)).unwrap().len() <= before.len() + added);
    }
    assert_eq!(storage.read(&Path::new(COPY).join("precious")).unwrap(), b"bytes");
    replace(&storage, Path::new("/file"), b"");
    common::assert_names(&db.checkpoint("/file").unwrap_err(), Path::new("/file"));
}
