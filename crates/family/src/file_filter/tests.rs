//! Tests how a filter in a file handles failures and damage. The tests need access to internals.

use std::fs::File;

use super::lock::Locked;
use super::new_file::NewFile;
use super::*;
use filterblock::internals::codec::u64_bytes;

fn created(capacity: u64) -> (tempfile::TempDir, PathBuf, FileFilter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let filter = FileFilter::create(&path, capacity, 0.01, HashSeed(1)).unwrap();
    (dir, path, filter)
}

/// Writes a file that may replace the file of the filter.
fn new_file(path: &Path, filter: &FileFilter) -> (NewFile, Header, layout::State) {
    let header = Header { id: layout::new_id(), ..filter.header };
    let state = layout::State::new(header.id, Length::Known(0));
    let new = NewFile::write(path, None, &header, &state, &filter.to_bloom().unwrap()).unwrap();
    (new, header, state)
}

#[test]
fn a_failed_sync_loses_no_key() {
    let (_dir, path, filter) = created(10_000);
    let swap = |file| filter.writer().unwrap().lock().unwrap().swap_file(file);
    let new = filter.extend((0..1_000).map(u64_bytes)).unwrap();
    // This handle is read-only, so writes through it fail.
    let good = swap(Locked::already(File::open(&path).unwrap()));
    for _ in 0..2 {
        assert!(matches!(filter.sync().unwrap_err().root(), Error::Io(_)));
        filter.insert(b"between").unwrap();
    }
    assert!(FileFilter::open_read_only(&path).unwrap().is_empty());
    swap(good);
    filter.sync().unwrap();
    let found = FileFilter::open_read_only(&path).unwrap();
    assert!((0..1_000).all(|i| found.may_contain(&u64_bytes(i))) && found.may_contain(b"between"));
    assert_eq!(found.len().unwrap(), new + 1);
}

/// After a failed sync, the page cache may have bits that the disk lacks. A crash loses these bits.
#[test]
fn a_key_whose_bits_were_found_in_the_file_is_written_again() {
    let (dir, path, filter) = created(10_000);
    let disk = dir.path().join("disk");
    std::fs::copy(&path, &disk).unwrap();
    filter.extend((0..100).map(u64_bytes)).unwrap();
    filter.close().unwrap();
    let others = FileFilter::create(dir.path().join("others"), 10_000, 0.01, HashSeed(1)).unwrap();
    others.extend((50..60).map(u64_bytes)).unwrap();
    let filter = FileFilter::open(&path).unwrap();
    let file = File::options().read(true).write(true).open(&disk).unwrap();
    drop(filter.writer().unwrap().lock().unwrap().swap_file(Locked::already(file)));
    std::fs::rename(&disk, &path).unwrap();
    assert_eq!(filter.extend((0..10).map(u64_bytes)).unwrap(), 0);
    filter.union_with(&others).unwrap();
    filter.sync().unwrap();
    let found = on_disk::load(&path).unwrap().bloom;
    assert!((0..10).chain(50..60).all(|i| found.may_contain(&u64_bytes(i))));
}

/// After a failed rename, it is unknown whether the old or the new file has the name.
#[test]
fn a_failed_rename_stops_all_later_writes() {
    let (_dir, path, mut filter) = created(100);
    filter.insert(b"a").unwrap();
    let (new, header, state) = new_file(&path, &filter);
    std::fs::remove_file(new.path()).unwrap();
    assert!(filter.writer().unwrap().lock().unwrap().put(new, &header, state).is_err());
    assert!(filter.may_contain(b"a"));
    assert!(matches!(filter.sync().unwrap_err().root(), Error::Poisoned { .. }));
    assert!(matches!(filter.clear().unwrap_err().root(), Error::Poisoned { .. }));
}

/// Another program renames its file to the path after the last check of the path.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_another_program_is_not_replaced() {
    let (dir, path, filter) = created(100);
    let (new, ..) = new_file(&path, &filter);
    let old = File::open(&path).unwrap();
    std::fs::write(dir.path().join("other"), "newest").unwrap();
    std::fs::rename(dir.path().join("other"), &path).unwrap();
    assert!(new.publish_over(&old, &path).unwrap_err().to_string().contains("meanwhile"));
    assert_eq!(std::fs::read(&path).unwrap(), b"newest");
    // The files are `filter` and `filter.lock`.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// Another writer replaces the file after this process opens the file and before it takes the lock.
/// The filter's path then no longer leads to the locked file.
#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_before_its_lock_is_refused() {
    let (_dir, path, mut filter) = created(100);
    let opened = File::options().read(true).write(true).open(&path).unwrap();
    filter.clear().unwrap();
    assert!(matches!(Locked::of_filter(opened, &path).unwrap_err().root(), Error::Locked));
    filter.close().unwrap();
    assert!(Locked::of_filter(File::open(&path).unwrap(), &path).is_ok());
}

/// Each counted key set at least one new bit.
#[test]
fn a_count_of_more_keys_than_bits_is_damage() {
    let (_dir, path, filter) = created(100);
    let (id, cells) = (filter.header.id, filter.header.shape.cells);
    drop(filter);
    let mut bytes = std::fs::read(&path).unwrap();
    for (keys, is_damage) in [(cells, false), (cells + 1, true), (u64::MAX, true)] {
        let page = layout::Length::Known(keys).encode(id, 0);
        bytes[page.len()..2 * page.len()].copy_from_slice(&page);
        std::fs::write(&path, &bytes).unwrap();
        let filter = FileFilter::open(&path).unwrap();
        assert!(filter.insert(b"one more").unwrap());
        assert_eq!(filter.len().is_err(), is_damage, "{keys}");
    }
}
