//! Tests that bad directories, arguments and disks cause errors that say what is wrong and where.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, assert_names, batch_of, image, key, quiet, replace, scan_all};
use filterblock_store::lsm::{Durability, MAX_KEY_LEN_BYTES, WriteBatch};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

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
    db.write(batch_of((0..5_000).map(|i| (key(i), Some([1; 50]))))).unwrap();
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
