//! Records the filters that policies build, damages filters, and opens databases of rusty-leveldb.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use filterblock::{HashSeed, KeyHasher};
use filterblock_leveldb::{Counters, Policy};
use rusty_leveldb::{BloomPolicy, DB, FilterPolicy, Options};

pub type Boxed = Rc<Box<dyn FilterPolicy>>;

/// A key above all keys of the database.
const HIGHEST: [u8; 20] = [0xff; 20];

pub const SPECS: [&str; 4] = ["bloom:10", "bloom:fpr=0.01", "blocked-bloom:10", "always-maybe"];

pub fn policy(spec: &str) -> Policy {
    policy_with(spec, HashSeed(42))
}

pub fn policy_with(spec: &str, hasher: impl Into<KeyHasher>) -> Policy {
    Policy::new(spec.parse().unwrap(), hasher).unwrap()
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

/// The filters that a policy built, their keys, and the queries.
#[derive(Default)]
pub struct Seen {
    pub built: Mutex<Vec<Vec<u8>>>,
    pub asked: AtomicU64,
    pub denied: AtomicU64,
    /// The number of queries that denied a key of the filter.
    pub wrongly_denied: AtomicU64,
    keys: Mutex<HashSet<(Vec<u8>, Vec<u8>)>>,
}

/// A policy that records what it does.
pub struct Recording<P>(pub P, pub Arc<Seen>);

impl<P> Recording<P> {
    pub fn built(&self, keys: &[u8], offsets: &[usize], filter: Vec<u8>) -> Vec<u8> {
        self.1.built.lock().unwrap().push(filter.clone());
        let ends = offsets.iter().copied().skip(1).chain([keys.len()]);
        let keys = offsets.iter().zip(ends).map(|(&start, end)| (filter.clone(), keys[start..end].to_vec()));
        self.1.keys.lock().unwrap().extend(keys);
        filter
    }

    pub fn answered(&self, key: &[u8], filter: &[u8], answer: bool) -> bool {
        self.1.asked.fetch_add(1, Relaxed);
        self.1.denied.fetch_add(u64::from(!answer), Relaxed);
        let is_wrong = !answer && self.1.keys.lock().unwrap().contains(&(filter.to_vec(), key.to_vec()));
        self.1.wrongly_denied.fetch_add(u64::from(is_wrong), Relaxed);
        answer
    }
}

impl FilterPolicy for Recording<Boxed> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn create_filter(&self, keys: &[u8], key_offsets: &[usize]) -> Vec<u8> {
        self.built(keys, key_offsets, self.0.create_filter(keys, key_offsets))
    }

    fn key_may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.answered(key, filter, self.0.key_may_match(key, filter))
    }
}

/// A recording policy with its record, and the counters of the adapter.
pub struct Recorded<P> {
    pub policy: P,
    pub seen: Arc<Seen>,
    pub counters: Counters,
}

pub fn recorded(policy: Policy) -> Recorded<Boxed> {
    let counters = policy.counters();
    Recorded { counters, ..recorded_by(policy.for_rusty_leveldb()) }
}

/// Returns rusty-leveldb's own Bloom filter. The counters stay 0.
pub fn own() -> Recorded<Boxed> {
    recorded_by(Rc::new(Box::new(BloomPolicy::new(10))))
}

fn recorded_by(policy: Boxed) -> Recorded<Boxed> {
    let seen = Arc::<Seen>::default();
    let policy: Boxed = Rc::new(Box::new(Recording(policy, Arc::clone(&seen))));
    Recorded { policy, seen, counters: Counters::default() }
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

/// Damages the filter with number `i`. Way 0 clears one bit, way 1 zeroes the whole filter, and way
/// 2 zeroes its first half.
pub fn damage(filter: &mut [u8], i: usize, way: usize) {
    let len = filter.len();
    match way {
        // In the array of bits, only a cleared bit can deny a key.
        0 => {
            let byte = (0..len).map(|byte| (byte + i * 7) % len).find(|&byte| filter[byte] != 0).unwrap();
            filter[byte] &= filter[byte] - 1;
        }
        1 => filter.fill(0),
        _ => filter[..len / 2].fill(0),
    }
}

/// Asserts that the three ways of [`damage`] to each filter of an engine cost the `lost` keys of
/// `keys`.
pub fn assert_own_filters_lose(filters: usize, lost: [usize; 3], keys: usize) {
    println!("of {keys} keys in {filters} filters, lost by one cleared bit, zeros, half zeros: {lost:?}");
    // A filter of zeros has no probes, so it answers "maybe".
    assert!(filters >= 30 && lost[0] > filters && lost[1] == 0 && lost[2] > keys / 2, "{lost:?}");
}
