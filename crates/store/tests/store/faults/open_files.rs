//! Tests open stores whose files another program truncates, empties or overwrites.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{files, filter_range, key, scratch, test_path};
use filterblock::AlignedBytes;
use filterblock::{FilterBlock, FilterOptions, HashSeed, Verify};
use filterblock_store::sstable::FilterMemory;
use filterblock_store::storage::Disk;
use filterblock_store::{Db, Options};

const KEYS: u64 = 20_000;
const CHILD: &str = "FILTERBLOCK_TEST_CHILD";

fn options(verify: Verify) -> Options {
    Options { auto_compaction: false, verify, ..Options::default() }
}

fn make(dir: &Path) -> PathBuf {
    let db = Db::open(dir, options(Verify::AtOpen)).unwrap();
    (0..KEYS).for_each(|i| db.put(&key(i), &key(i)).unwrap());
    db.close().unwrap();
    files(&Disk, dir, ".sst").remove(0)
}

/// Applies change number `what` to the file.
fn spoil(path: &Path, what: usize) {
    let content = std::fs::read(path).unwrap();
    let filter = filter_range(&content);
    let filter = filter.start as u64..filter.end as u64;
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let zeros = |from: u64, to: u64| file.write_all_at(&vec![0; (to - from) as usize], from).unwrap();
    match what {
        0 => file.set_len(0).unwrap(),
        1 => file.set_len(filter.start).unwrap(),
        // With a memory map, the rest of the last page would then read as zeros.
        2 => file.set_len(filter.start + 5_000).unwrap(),
        3 => zeros(filter.start, filter.end),
        4 => zeros(filter.start + 4_096, filter.start + 8_192),
        5 => zeros(0, content.len() as u64),
        6 => file.write_all_at(&content[..filter.start as usize / 2], filter.start / 2).unwrap(),
        _ => file.write_all_at(&[0xff; 100], content.len() as u64 - 100).unwrap(),
    }
}

/// Does the work of the child process that the next test starts, and that a signal may end. Without
/// the environment variable [`CHILD`] it does nothing.
#[test]
fn child_process_of_open_files() {
    let Some(case) = std::env::var_os(CHILD).map(|case| case.to_str().unwrap().to_owned()) else { return };
    let mut parts = case.splitn(3, ' ');
    let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
    let (what, verify) = (number(), [Verify::AtOpen, Verify::OnFirstTouch][number()]);
    let dir = PathBuf::from(parts.next().unwrap());
    let db = Db::open(&dir, options(verify)).unwrap();
    // These reads load the index, so that gets after the change use an index in memory.
    (0..KEYS).step_by(500).for_each(|i| assert_eq!(db.get(&key(i)).unwrap(), Some(key(i))));
    spoil(&files(&Disk, &dir, ".sst")[0], what);
    let mut failed = 0;
    for i in 0..KEYS {
        match db.get(&key(i)) {
            Ok(value) => assert_eq!(value, Some(key(i)), "key {i} after change {what}"),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                failed += 1;
            }
        }
    }
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for keys in keys.chunks(1_000) {
        if let Ok(values) = db.multi_get(keys) {
            assert!(values.iter().zip(keys).all(|(value, key)| value.as_ref() == Some(key)), "after {what}");
        }
    }
    let is_data_touched = [0, 5, 6].contains(&what);
    assert_eq!(failed > 0, is_data_touched, "{failed} gets failed after change {what}");
    let verified = db.verify().unwrap();
    assert!(!verified.is_sound(), "verify found no damage after change {what}");
    assert_eq!(verified.filter_false_negatives, 0);
    println!("done {what}");
}

#[test]
fn default_options_avoid_signals_and_deny_no_present_key() {
    let temporary = scratch();
    let sound = temporary.path().join("sound");
    make(&sound);
    for what in 0..8 {
        for verify in 0..2 {
            let dir = temporary.path().join(format!("{what}-{verify}"));
            std::fs::create_dir(&dir).unwrap();
            for entry in std::fs::read_dir(&sound).unwrap() {
                let path = entry.unwrap().path();
                std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
            }
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test_path(concat!(module_path!(), "::child_process_of_open_files")), "--nocapture"])
                .env(CHILD, format!("{what} {verify} {}", dir.display()))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success() && said.contains(&format!("done {what}")), "{:?}: {said}", child.status);
        }
    }
}

#[test]
fn default_filters_are_heap_copies_that_survive_truncation() {
    assert_eq!(FilterMemory::default(), FilterMemory::Heap);
    let temporary = scratch();
    let path = temporary.path().join("filter");
    let mut builder = FilterOptions::new("blocked-bloom:10".parse().unwrap()).builder(HashSeed(3)).unwrap();
    (0..20_000u32).for_each(|i| builder.add(builder.hasher().key(i.to_string().as_bytes())));
    std::fs::write(&path, builder.finish().unwrap().bytes).unwrap();
    let bytes = AlignedBytes::read(&path).unwrap();
    assert_eq!(bytes.as_ref().as_ptr().align_offset(64), 0);
    let filter = FilterBlock::open_any(bytes, Verify::AtOpen).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!((0..20_000u32).all(|i| filter.may_contain(filter.hasher().key(i.to_string().as_bytes()))));
    assert!(AlignedBytes::read(Path::new("/nowhere")).is_err());
}
