//! Tests the contract of all storages: `Disk` (buffered, direct, and with the directory held open),
//! `Memory`, and `Faulty` without faults.

use std::io::ErrorKind;
use std::path::Path;

use filterblock_store::storage::faulty::Faulty;
use filterblock_store::storage::{Disk, IoMode, Memory, Storage};
use filterblock_store::{Error, Field};

/// Runs `test` in an empty directory of each storage, with each I/O mode.
fn on_each(test: impl Fn(&dyn Storage, &Path, IoMode)) {
    for io in [IoMode::Buffered, IoMode::Direct] {
        let memory = Memory::new();
        memory.create_dir_all(Path::new("/store")).unwrap();
        test(&memory, Path::new("/store"), io);
        let faulty = Faulty::new();
        faulty.create_dir_all(Path::new("/store")).unwrap();
        test(&faulty, Path::new("/store"), io);
        let dir = tempfile::tempdir().unwrap();
        test(&Disk, dir.path(), io);
        let dir = tempfile::tempdir().unwrap();
        test(Disk.hold(dir.path()).unwrap().unwrap().as_ref(), dir.path(), io);
        // The build directory is more likely to be on a real disk than the temporary directory.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        test(&Disk, dir.path(), io);
    }
}

fn write(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let mut file = storage.create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync().unwrap();
}

#[track_caller]
fn assert_io(error: &Error, kind: ErrorKind, path: &Path) {
    assert!(matches!(error.root(), Error::Io(io) if io.kind() == kind), "{error}");
    assert!(matches!(error, Error::InFile { path: named, .. } if named == path), "{error}");
}

#[test]
fn any_range_of_a_file_reads_back_as_written() {
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    on_each(|storage, dir, io| {
        let path = dir.join("data");
        write(storage, &path, &bytes);
        assert_eq!(storage.read(&path).unwrap(), bytes);
        let file = storage.open(&path, io).unwrap();
        assert_eq!((file.len(), file.is_empty()), (bytes.len() as u64, false));
        for offset in [0, 1, 511, 512, 4095, 4096, 4097, 8191, 12_288, 16_384, 19_999, 20_000] {
            for len in [0, 1, 2, 100, 4095, 4096, 4097, 9000, 20_000] {
                let mut buffer = vec![0xee; len];
                let read = file.read_exact_at(&mut buffer, offset as u64);
                if offset + len <= bytes.len() {
                    read.unwrap();
                    assert_eq!(buffer, bytes[offset..offset + len], "{offset} {len}");
                } else {
                    let error = read.unwrap_err();
                    assert!(
                        matches!(error.root(), Error::Corrupt { field: Field::Length, offset: 20_000 }),
                        "{offset} {len} {error}"
                    );
                    assert!(matches!(&error, Error::InFile { path: named, .. } if *named == path));
                }
            }
        }
    });
}

#[test]
fn a_read_longer_than_the_aligned_buffer_is_complete() {
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
    on_each(|storage, dir, io| {
        let path = dir.join("large");
        write(storage, &path, &bytes);
        let file = storage.open(&path, io).unwrap();
        let mut buffer = vec![0; bytes.len() - 5];
        file.read_exact_at(&mut buffer, 5).unwrap();
        assert!(buffer == bytes[5..]);
        assert!(file.read_exact_at(&mut buffer, 6).unwrap_err().is_damage());
    });
}

#[test]
fn files_are_created_once_and_grow_at_their_end() {
    on_each(|storage, dir, io| {
        let path = dir.join("file");
        assert!(!storage.exists(&path).unwrap());
        let mut file = storage.create(&path).unwrap();
        assert!(file.is_empty());
        file.write_all(b"one").unwrap();
        assert_io(&storage.create(&path).unwrap_err(), ErrorKind::AlreadyExists, &path);
        assert_eq!(file.len(), 3);
        file.write_all(b"two").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len(), 6);
        assert_eq!(storage.read(&path).unwrap(), b"onetwo");
        let missing = dir.join("missing");
        assert_io(&storage.read(&missing).unwrap_err(), ErrorKind::NotFound, &missing);
        assert_io(&storage.open(&missing, io).unwrap_err(), ErrorKind::NotFound, &missing);
        assert_io(&storage.remove(&missing).unwrap_err(), ErrorKind::NotFound, &missing);
        assert_io(&storage.rename(&missing, &path).unwrap_err(), ErrorKind::NotFound, &missing);
        let orphan = missing.join("child");
        assert_io(&storage.create(&orphan).unwrap_err(), ErrorKind::NotFound, &orphan);
        assert_eq!(storage.read(&path).unwrap(), b"onetwo");
    });
}

#[test]
fn an_open_file_keeps_its_bytes_when_its_name_is_replaced() {
    on_each(|storage, dir, io| {
        let (old, new) = (dir.join("old"), dir.join("new"));
        write(storage, &old, b"old");
        write(storage, &new, b"new");
        let opened = [storage.open(&old, io).unwrap(), storage.open(&new, io).unwrap()];
        storage.rename(&new, &old).unwrap();
        storage.sync_dir(dir).unwrap();
        assert_eq!((storage.exists(&new).unwrap(), storage.read(&old).unwrap()), (false, b"new".to_vec()));
        storage.remove(&old).unwrap();
        assert!(storage.list(dir).unwrap().is_empty());
        for (file, expected) in opened.iter().zip([b"old", b"new"]) {
            let mut buffer = [0; 3];
            file.read_exact_at(&mut buffer, 0).unwrap();
            assert_eq!(&buffer, expected);
        }
    });
}

#[test]
fn a_second_name_outlives_the_first_and_never_replaces_a_file() {
    on_each(|storage, dir, _| {
        let (first, second) = (dir.join("first"), dir.join("second"));
        write(storage, &first, b"bytes");
        storage.link_or_copy(&first, &second).unwrap();
        assert_io(&storage.link_or_copy(&first, &second).unwrap_err(), ErrorKind::AlreadyExists, &second);
        storage.remove(&first).unwrap();
        assert_eq!(storage.read(&second).unwrap(), b"bytes");
        assert_io(&storage.link_or_copy(&first, &dir.join("third")).unwrap_err(), ErrorKind::NotFound, &first);
    });
}

#[test]
fn directories_are_made_with_their_parents_and_listed_in_order() {
    on_each(|storage, dir, _| {
        let deep = dir.join("a/b/c");
        assert_io(&storage.list(&deep).unwrap_err(), ErrorKind::NotFound, &deep);
        assert_io(&storage.sync_dir(&deep).unwrap_err(), ErrorKind::NotFound, &deep);
        storage.create_dir_all(&deep).unwrap();
        storage.create_dir_all(&deep).unwrap();
        assert!(storage.exists(&deep).unwrap() && storage.exists(&dir.join("a/b")).unwrap());
        for name in ["zebra", "000010.sst", "000009.sst"] {
            write(storage, &dir.join(name), b"");
        }
        assert_eq!(storage.list(dir).unwrap(), ["000009.sst", "000010.sst", "a", "zebra"]);
        assert_eq!(storage.list(&dir.join("a")).unwrap(), ["b"]);
        assert!(storage.list(&deep).unwrap().is_empty());
        assert!(storage.create_dir_all(&dir.join("zebra/below")).is_err());
        assert!(storage.create_dir_all(&dir.join("zebra")).is_err());
        assert!(storage.create(&deep).is_err());
        assert!(storage.rename(&dir.join("zebra"), &deep).is_err());
    });
}

#[test]
fn a_lock_has_one_holder_at_a_time() {
    on_each(|storage, dir, _| {
        let path = dir.join("LOCK");
        let guard = storage.lock(&path).unwrap();
        let Err(error) = storage.lock(&path) else { panic!("a locked file was locked again") };
        assert!(matches!(error.root(), Error::Locked), "{error}");
        assert!(matches!(&error, Error::InFile { path: named, .. } if *named == path));
        // A storage that holds the directory locks the whole directory, and with it every other
        // lock file.
        let other = storage.lock(&dir.join("OTHER"));
        assert!(other.is_ok() || matches!(other.as_ref().map(drop).unwrap_err().root(), Error::Locked));
        drop(guard);
        drop(storage.lock(&path).unwrap());
        drop(other);
        assert!(storage.exists(&path).unwrap());
        write(storage, &dir.join("file"), b"kept");
        drop(storage.lock(&dir.join("file")).unwrap());
        assert_eq!(storage.read(&dir.join("file")).unwrap(), b"kept");
    });
}

#[test]
fn clones_of_a_memory_share_its_files() {
    let memory = Memory::new();
    let clone = memory.clone();
    write(&memory, Path::new("file"), b"bytes");
    assert_eq!(clone.read(Path::new("file")).unwrap(), b"bytes");
    assert_eq!(clone.list(Path::new("")).unwrap(), ["file"]);
}
