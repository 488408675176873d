//! Provides helpers for the tests of the store.
#![cfg_attr(not(feature = "testing"), expect(dead_code, reason = "tests that need the feature use these helpers"))]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use filterblock_store::lsm::{Durability, WriteBatch};
use filterblock_store::sstable::FOOTER_LEN_BYTES;
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

pub use filterblock_testkit::Random;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

/// The directory of stores in memory.
pub const DIR: &str = "/store";

/// Returns options for a store in `storage` with a fixed hash seed and without automatic
/// compaction.
pub fn quiet(storage: &(impl Storage + Clone + 'static)) -> Options {
    Options { storage: Arc::new(storage.clone()), auto_compaction: false, hash_seed: Some(7), ..Options::default() }
}

/// Returns the options of [`quiet`] with `Durability::Sync`.
pub fn synced(storage: &(impl Storage + Clone + 'static)) -> Options {
    Options { durability: Durability::Sync, ..quiet(storage) }
}

pub fn key(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

/// Creates and closes a store with `tables` SSTs in level 0. The `n`-th SST, counted from 0, has
/// the keys `i * tables + n` for all `i` below `keys_per_table`.
pub fn make_store(storage: &(impl Storage + Clone + 'static), tables: u64, keys_per_table: u64) {
    let db = Db::open(DIR, quiet(storage)).unwrap();
    for n in 0..tables {
        for i in 0..keys_per_table {
            db.put(&key(i * tables + n), &key(i * tables + n)).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
}

/// Returns the paths of the files of a store that hold its data.
pub fn store_files(storage: &dyn Storage) -> Vec<PathBuf> {
    [".sst", ".log", "MANIFEST-", "CURRENT"].iter().flat_map(|kind| files(storage, Path::new(DIR), kind)).collect()
}

/// Returns the content of each file in `DIR`.
pub fn contents(storage: &dyn Storage) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_file = |path: &PathBuf| storage.list(path).is_err();
    let paths = files(storage, Path::new(DIR), "").into_iter().filter(is_file);
    paths.map(|path| (path.clone(), storage.read(&path).unwrap())).collect()
}

/// Returns the paths of the files in a directory whose names start or end with `kind`.
pub fn files(storage: &dyn Storage, dir: &Path, kind: &str) -> Vec<PathBuf> {
    let names = storage.list(dir).unwrap();
    let is_kind = |name: &String| name.ends_with(kind) || name.starts_with(kind);
    names.into_iter().filter(is_kind).map(|name| dir.join(name)).collect()
}

/// Removes the manifests and `CURRENT`.
pub fn forget_manifest(storage: &dyn Storage) {
    for kind in ["MANIFEST-", "CURRENT"] {
        files(storage, Path::new(DIR), kind).iter().for_each(|path| storage.remove(path).unwrap());
    }
}

pub fn replace(storage: &dyn Storage, path: &Path, content: &[u8]) {
    if storage.exists(path).unwrap() {
        storage.remove(path).unwrap();
    }
    let mut file = storage.create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync().unwrap();
}

pub fn change(storage: &dyn Storage, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut content = storage.read(path).unwrap();
    edit(&mut content);
    replace(storage, path, &content);
}

/// Removes all logs except the newest. A flush that has just ended may not have removed its log
/// yet.
pub fn remove_flushed_logs(storage: &dyn Storage) {
    let mut logs = files(storage, Path::new(DIR), ".log");
    logs.sort();
    logs.pop();
    // The removal fails if the store has already removed the log.
    logs.iter().for_each(|path| drop(storage.remove(path)));
}

/// Cuts the last record off the bytes of a log or manifest, so that no trace of the record remains.
pub fn cut_last_record(bytes: &mut Vec<u8>) {
    let (mut offset, mut last) = (48, 48);
    while let Some(len) = bytes.get(offset..).and_then(<[u8]>::first_chunk) {
        last = offset;
        offset += 24 + u32::from_le_bytes(*len) as usize;
    }
    bytes.truncate(last);
}

/// Returns a second file system with the same files in `DIR`: the state after a crash that loses
/// nothing.
pub fn image(storage: &Memory) -> Memory {
    let copy = Memory::new();
    copy.create_dir_all(Path::new(DIR)).unwrap();
    for name in storage.list(Path::new(DIR)).unwrap() {
        let path = Path::new(DIR).join(name);
        // The store may have removed the file since it was listed.
        if let Ok(content) = storage.read(&path) {
            replace(&copy, &path, &content);
        }
    }
    copy
}

/// Returns the number at an offset in the footer of an SST.
pub fn footer_number(table: &[u8], at: usize) -> usize {
    let footer = &table[table.len() - FOOTER_LEN_BYTES..];
    u64::from_le_bytes(footer[at..at + 8].try_into().unwrap()) as usize
}

/// Returns the range of the filter block of an SST.
pub fn filter_range(table: &[u8]) -> Range<usize> {
    footer_number(table, 24)..footer_number(table, 24) + footer_number(table, 32)
}

/// Corrects the checksum of an SST's footer.
pub fn seal_footer(table: &mut [u8]) {
    let footer = table.len() - FOOTER_LEN_BYTES;
    let checksum = crc32fast::hash(&table[footer..footer + 100]);
    table[footer + 100..footer + 104].copy_from_slice(&checksum.to_le_bytes());
}

/// Corrects the checksum of the header of a log or manifest.
pub fn seal_log_header(log: &mut [u8]) {
    let checksum = crc32fast::hash(&log[..44]);
    log[44..48].copy_from_slice(&checksum.to_le_bytes());
}

/// Asserts that an error's message begins with `path`.
pub fn assert_names(error: &Error, path: &Path) {
    let message = error.to_string();
    assert!(message.starts_with(&format!("{}: ", path.display())), "{message} does not name {}", path.display());
}

pub fn scan_all(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.scan(..).map(Result::unwrap).collect()
}

/// Returns the name of a test for the test harness: its path without the name of the test program.
pub fn test_path(path: &str) -> &str {
    path.split_once("::").map_or(path, |(_, test)| test)
}

/// Returns a directory in memory if possible, for tests that sync often and simulate no power
/// failure.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Runs `act` on its own thread and returns its result. Panics if `act` panics or takes longer than
/// a minute.
pub fn in_time<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(act()));
    receive.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what} hangs or panicked"))
}

pub fn wait_until(is_reached: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_reached() {
        assert!(start.elapsed() < Duration::from_secs(60), "the condition is not reached in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

pub fn is_table(path: &Path) -> bool {
    path.to_string_lossy().contains(".sst")
}

/// Returns a batch that puts the keys with a value and deletes the others.
pub fn batch_of<K: AsRef<[u8]>, V: AsRef<[u8]>>(writes: impl IntoIterator<Item = (K, Option<V>)>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (key, value) in writes {
        match value {
            Some(value) => batch.put(key.as_ref(), value.as_ref()).unwrap(),
            None => batch.delete(key.as_ref()).unwrap(),
        }
    }
    batch
}
