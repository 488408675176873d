//! Tests that a filter in a file has at most one writer, even if its files are renamed, removed or
//! linked.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use filterblock_family::{Error, FileFilter, Membership};

use crate::support::{created, dir, names};

/// Creates a file, a link, a directory or nothing at the first path. A copy or a link to a file
/// uses the second path.
type Put = fn(&Path, &Path);

/// Changes the content of the file at the path.
type Cut = fn(&Path);

fn lock_of(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

fn is_locked(path: &Path) -> bool {
    matches!(FileFilter::open(path).map_err(|error| matches!(error.root(), Error::Locked)), Err(true))
}

fn is_displaced(result: Result<(), Error>) -> bool {
    matches!(result.unwrap_err().root(), Error::Displaced { .. })
}

fn has(path: &Path, key: &[u8]) -> bool {
    FileFilter::open_read_only(path).unwrap().may_contain(key)
}

#[test]
fn a_renamed_file_has_one_writer() {
    let (dir, path) = dir();
    let filter = created(&path, 1_000);
    let renamed = dir.path().join("renamed");
    fs::rename(&path, &renamed).unwrap();
    assert!(is_locked(&renamed));
    filter.insert(b"a").unwrap();
    assert!(is_displaced(filter.sync()));
    fs::rename(lock_of(&path), lock_of(&renamed)).unwrap();
    assert!(is_locked(&renamed));
    fs::rename(&renamed, &path).unwrap();
    assert!(is_locked(&path));
    filter.sync().unwrap();
    drop(filter);
    assert!(has(&path, b"a") && !is_locked(&path));
}

#[test]
fn a_removed_lock_file_lets_no_second_writer_in() {
    let (_dir, path) = dir();
    let mut filter = created(&path, 1_000);
    for key in [b"a", b"b"] {
        fs::remove_file(lock_of(&path)).unwrap();
        assert!(is_locked(&path) && is_locked(&path));
        filter.insert(key).unwrap();
        filter.sync().unwrap();
        assert!(has(&path, key));
        // The file that replaces the first file is locked, too.
        filter.clear().unwrap();
        assert!(is_locked(&path));
        fs::write(lock_of(&path), b"").unwrap();
    }
    drop(filter);
    assert!(!is_locked(&path));
}

#[test]
fn a_replacement_under_way_lets_no_second_writer_in() {
    let (_dir, path) = dir();
    let mut filter = created(&path, 1_000);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let tries = scope.spawn(|| {
            let mut tries = 0;
            while !is_done.load(Ordering::Relaxed) {
                let _ = fs::remove_file(lock_of(&path));
                assert!(is_locked(&path));
                tries += 1;
            }
            tries
        });
        for _ in 0..100 {
            filter.clear().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(tries.join().unwrap() > 10);
    });
    filter.insert(b"a").unwrap();
    filter.close().unwrap();
    assert!(has(&path, b"a"));
}

#[test]
fn a_hard_link_lets_no_second_writer_in() {
    let (dir, path) = dir();
    let filter = created(&path, 1_000);
    let link = dir.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    assert!(is_locked(&link));
    drop(filter);
    let by_link = FileFilter::open(&link).unwrap();
    assert!(is_locked(&path));
    by_link.insert(b"a").unwrap();
    by_link.close().unwrap();
    assert!(has(&path, b"a"));
}

/// Moves the file away, puts a file, a link, a directory or nothing in its place, and later moves
/// the file back.
#[test]
fn a_file_taken_from_its_writer_is_an_error_at_sync() {
    let taken: [(&str, Put); 6] = [
        ("nothing", |_, _| ()),
        ("a copy", |path, kept| assert!(fs::copy(kept, path).unwrap() > 0)),
        ("another filter", |path, _| fs::write(path, b"another").unwrap()),
        ("a directory", |path, _| fs::create_dir(path).unwrap()),
        ("a link to the file", |path, kept| symlink(kept, path).unwrap()),
        ("a link to nowhere", |path, _| symlink("nowhere", path).unwrap()),
    ];
    for (what, put) in taken {
        let (dir, path) = dir();
        let kept = dir.path().join("kept");
        let mut filter = created(&path, 1_000);
        filter.insert(b"before").unwrap();
        filter.sync().unwrap();
        fs::rename(&path, &kept).unwrap();
        put(&path, &kept);
        let seen = || {
            let found = path.symlink_metadata().map(|found| (found.ino(), found.len(), found.mtime_nsec())).ok();
            (names(dir.path()), found)
        };
        let before = seen();
        // The check also runs if there is nothing to write.
        assert!(is_displaced(filter.sync()), "{what}");
        filter.insert(b"after").unwrap();
        assert!(is_displaced(filter.sync()) && is_displaced(filter.sync()), "{what}");
        assert!(is_displaced(filter.clear()), "{what}");
        assert_eq!(seen(), before, "{what}");
        // The keys are in memory, and in the file at its new path.
        let copy = filter.copy(dir.path().join("copy")).unwrap();
        assert!(copy.may_contain(b"before") && copy.may_contain(b"after") && has(&kept, b"after"), "{what}");
        let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
        fs::rename(&kept, &path).unwrap();
        filter.sync().unwrap();
        filter.clear().unwrap();
        filter.close().unwrap();
    }
}

#[test]
fn a_renamed_directory_is_an_error_at_sync() {
    let (dir, _) = dir();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    fs::create_dir(&one).unwrap();
    let mut filter = created(&one.join("filter"), 1_000);
    fs::rename(&one, &two).unwrap();
    filter.insert(b"a").unwrap();
    assert!(is_displaced(filter.sync()) && is_displaced(filter.clear()) && is_locked(&two.join("filter")));
    // A second filter has the path now. Operations on the first filter do not change the second.
    fs::create_dir(&one).unwrap();
    let other = created(&one.join("filter"), 1_000);
    other.insert(b"other").unwrap();
    other.sync().unwrap();
    assert!(is_displaced(filter.sync()) && is_displaced(filter.clear()));
    drop(filter);
    assert!(has(&one.join("filter"), b"other") && has(&two.join("filter"), b"a") && !is_locked(&two.join("filter")));
    other.close().unwrap();
}

#[test]
fn a_file_changed_under_its_writer_is_an_error_at_sync() {
    let cuts: [(&str, Cut); 5] = [
        ("truncated", |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1_024).unwrap()),
        ("emptied", |path| fs::write(path, b"").unwrap()),
        ("longer", |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1 << 16).unwrap()),
        ("overwritten", |path| {
            let other = path.with_extension("other");
            drop(created(&other, 1_000));
            fs::write(path, fs::read(other).unwrap()).unwrap();
        }),
        ("replaced by an older copy", |path| fs::write(path, fs::read(path.with_extension("older")).unwrap()).unwrap()),
    ];
    for (what, cut) in cuts {
        let (dir, path) = dir();
        let mut filter = created(&path, 1_000);
        fs::copy(&path, path.with_extension("older")).unwrap();
        filter.insert(b"before").unwrap();
        filter.sync().unwrap();
        cut(&path);
        let found = fs::read(&path).unwrap();
        assert!(is_displaced(filter.sync()), "{what}");
        filter.insert(b"after").unwrap();
        assert!(is_displaced(filter.sync()) && is_displaced(filter.clear()), "{what}");
        assert_eq!(fs::read(&path).unwrap(), found, "{what}: the foreign bytes must not change");
        let copy = filter.copy(dir.path().join("copy")).unwrap();
        assert!(copy.may_contain(b"before") && copy.may_contain(b"after"), "{what}");
    }
}

/// The writer detects the older copy by its random number. The number of keys does not always show
/// the difference, because it is unknown after a union or an intersection.
#[test]
fn an_older_copy_over_the_file_is_an_error_at_sync() {
    type Combine = fn(&mut FileFilter, &FileFilter);
    let combined: [(&str, Combine); 3] = [
        ("united", |filter, other| filter.union_with(other).unwrap()),
        ("intersected", |filter, other| filter.intersect_with(other).unwrap()),
        ("counted", |_, _| ()),
    ];
    for (what, combine) in combined {
        for is_opened in [false, true] {
            let (dir, path) = dir();
            let older = dir.path().join("older");
            let mut filter = created(&path, 1_000);
            combine(&mut filter, &created(&dir.path().join("other"), 1_000));
            filter.sync().unwrap();
            fs::copy(&path, &older).unwrap();
            filter.insert(b"synced").unwrap();
            filter.sync().unwrap();
            if is_opened {
                filter.close().unwrap();
                filter = FileFilter::open(&path).unwrap();
            }
            let found = fs::read(&older).unwrap();
            fs::write(&path, &found).unwrap();
            let what = format!("{what}, opened: {is_opened}");
            assert!(filter.sync().is_err_and(|error| matches!(error.root(), Error::Displaced { .. })), "{what}");
            filter.insert(b"after").unwrap();
            assert!(is_displaced(filter.sync()) && is_displaced(filter.clear()), "{what}");
            assert_eq!(fs::read(&path).unwrap(), found, "{what}: the foreign bytes must not change");
            assert!(filter.copy(dir.path().join("copy")).unwrap().may_contain(b"synced"), "{what}");
        }
    }
}

/// Until a child process runs its program, it shares all open files of its parent and their locks.
#[test]
fn a_dropped_filter_is_unlocked_while_processes_start() {
    let (_dir, path) = dir();
    drop(created(&path, 1_000));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        let refused = (0..1_000).filter(|_| FileFilter::open(&path).is_err()).count();
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(refused, 0);
    });
}
