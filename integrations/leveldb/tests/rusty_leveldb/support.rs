//! Opens databases of rusty-leveldb, and records the filters that their policies build.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use rusty_leveldb::{DB, FilterPolicy, Options};

pub type Boxed = Rc<Box<dyn FilterPolicy>>;

/// A key above all keys of the database.
const HIGHEST: [u8; 20] = [0xff; 20];

pub fn policy(spec: &str) -> Policy {
    Policy::new(spec.parse().unwrap(), HashSeed(42)).unwrap()
}

pub fn key(i: usize) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

pub fn open(dir: &Path, policy: &Boxed) -> DB {
    let options = Options {
        filter_policy: Rc::clone(policy),
        write_buffer_size: 64 << 10,
        reuse_logs: false,
        ..Options::default()
    };
    DB::open(dir, options).unwrap()
}

/// Flushes the memtable and compacts all files.
pub fn compact(db: &mut DB) {
    db.compact_range(&[], &HIGHEST).unwrap();
}

/// A policy that keeps a copy of each filter and its keys, and counts queries.
pub struct Recording {
    policy: Box<dyn FilterPolicy>,
    seen: Rc<Seen>,
}

#[derive(Default)]
pub struct Seen {
    pub built: RefCell<Vec<Vec<u8>>>,
    pub asked: Cell<u64>,
    pub denied: Cell<u64>,
    /// The number of queries that denied a key of the filter.
    pub wrongly_denied: Cell<u64>,
    keys: RefCell<HashSet<(Vec<u8>, Vec<u8>)>>,
}

/// Wraps a policy. Returns the wrapper, and the record of its filters and queries.
pub fn recording(policy: impl FilterPolicy + 'static) -> (Boxed, Rc<Seen>) {
    let seen = Rc::<Seen>::default();
    (Rc::new(Box::new(Recording { policy: Box::new(policy), seen: Rc::clone(&seen) })), seen)
}

impl FilterPolicy for Recording {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn create_filter(&self, keys: &[u8], key_offsets: &[usize]) -> Vec<u8> {
        let filter = self.policy.create_filter(keys, key_offsets);
        self.seen.built.borrow_mut().push(filter.clone());
        let ends = key_offsets.iter().copied().skip(1).chain([keys.len()]);
        let keys = key_offsets.iter().zip(ends).map(|(&start, end)| (filter.clone(), keys[start..end].to_vec()));
        self.seen.keys.borrow_mut().extend(keys);
        filter
    }

    fn key_may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let answer = self.policy.key_may_match(key, filter);
        self.seen.asked.set(self.seen.asked.get() + 1);
        self.seen.denied.set(self.seen.denied.get() + u64::from(!answer));
        let is_wrong = !answer && self.seen.keys.borrow().contains(&(filter.to_vec(), key.to_vec()));
        self.seen.wrongly_denied.set(self.seen.wrongly_denied.get() + u64::from(is_wrong));
        answer
    }
}

/// Returns the file, the offset and the length of each of `filters` that is in the files of a
/// closed database.
pub fn places_of(dir: &Path, filters: &[Vec<u8>]) -> Vec<(PathBuf, usize, usize)> {
    let tables = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let tables = tables.filter(|path| path.extension().is_some_and(|end| end == "ldb" || end == "sst"));
    let mut places = Vec::new();
    for path in tables {
        let bytes = std::fs::read(&path).unwrap();
        for filter in filters {
            if let Some(at) = bytes.windows(filter.len()).position(|window| window == filter) {
                places.push((path.clone(), at, filter.len()));
            }
        }
    }
    places
}
