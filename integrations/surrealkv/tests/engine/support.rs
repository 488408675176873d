//! Opens SurrealKV stores with few keys per filter, and records the filters that their policies
//! build.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use filterblock::HashSeed;
use filterblock_surrealkv::Policy;
use surrealkv::{CompactRangeOptions, FilterPolicy, Mode, Options, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

pub fn policy(spec: &str) -> Policy {
    Policy::new(spec.parse().unwrap(), HashSeed(42)).unwrap()
}

pub fn own_bloom() -> Arc<dyn FilterPolicy> {
    Options::default().filter_policy.unwrap()
}

pub fn key(i: usize) -> Vec<u8> {
    format!("key-{i:08}").into_bytes()
}

pub struct Store {
    pub tree: Tree,
    runtime: Runtime,
}

impl Store {
    /// Opens a store with small blocks, and filters of a few hundred keys.
    pub fn open(dir: &Path, policy: Arc<dyn FilterPolicy>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut options = Options::new().with_path(dir.into()).with_block_size(512);
        options.index_partition_size = 300;
        options.level0_max_files = 1_000;
        options.l0_stall_threshold = 1_000;
        let inside = runtime.enter();
        let tree = TreeBuilder::with_options(options).with_filter_policy(Some(policy)).build().unwrap();
        drop(inside);
        Self { tree, runtime }
    }

    pub fn put(&self, entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let mut writes = self.tree.begin_with_mode(Mode::WriteOnly).unwrap();
        entries.into_iter().for_each(|(key, value)| writes.set(key, value).unwrap());
        self.runtime.block_on(writes.commit()).unwrap();
    }

    pub fn delete(&self, keys: impl IntoIterator<Item = Vec<u8>>) {
        let mut writes = self.tree.begin_with_mode(Mode::WriteOnly).unwrap();
        keys.into_iter().for_each(|key| writes.delete(key).unwrap());
        self.runtime.block_on(writes.commit()).unwrap();
    }

    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let reads = self.tree.begin_with_mode(Mode::ReadOnly).unwrap();
        reads.get(key).unwrap()
    }

    /// Flushes the memtable to an SST file of level 0.
    pub fn flush(&self) {
        self.compact_to(Some(0));
    }

    pub fn compact(&self) {
        self.compact_to(None);
    }

    fn compact_to(&self, target_level: Option<u8>) {
        let _inside = self.runtime.enter();
        let options = CompactRangeOptions { target_level, ..CompactRangeOptions::default() };
        self.tree.compact_range(None, None, &options).unwrap();
    }

    pub fn close(self) {
        self.runtime.block_on(self.tree.close()).unwrap();
    }
}

/// Writes a store of the first `keys` keys.
pub fn write(dir: &Path, policy: Arc<dyn FilterPolicy>, keys: usize) {
    let store = Store::open(dir, policy);
    store.put((0..keys).map(|i| (key(i), b"value".to_vec())));
    store.flush();
    store.close();
}

/// A policy that keeps a copy of each filter that it builds from hashes, and counts queries and
/// denied keys.
pub struct Recording {
    policy: Arc<dyn FilterPolicy>,
    pub built: Mutex<Vec<Vec<u8>>>,
    pub asked: AtomicU64,
    pub denied: AtomicU64,
}

impl Recording {
    pub fn new(policy: Arc<dyn FilterPolicy>) -> Arc<Self> {
        Arc::new(Self { policy, built: Mutex::default(), asked: AtomicU64::new(0), denied: AtomicU64::new(0) })
    }
}

impl FilterPolicy for Recording {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        let answer = self.policy.may_contain(filter, key);
        self.asked.fetch_add(1, Relaxed);
        self.denied.fetch_add(u64::from(!answer), Relaxed);
        answer
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        self.policy.create_filter(keys)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.policy.key_hash(key)
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        let filter = self.policy.create_filter_from_hashes(hashes);
        self.built.lock().unwrap().push(filter.clone());
        filter
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        self.policy.filter_keys_per_partition(partition_bytes)
    }
}

/// Returns the file, the offset and the length of each of `filters` in a closed store.
pub fn places_of(dir: &Path, filters: &[Vec<u8>]) -> Vec<(PathBuf, usize, usize)> {
    let files: Vec<(PathBuf, Vec<u8>)> =
        files_in(dir).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    let mut places = Vec::new();
    for filter in filters {
        for (path, bytes) in &files {
            if let Some(at) = bytes.windows(filter.len()).position(|window| window == filter) {
                places.push((path.clone(), at, filter.len()));
            }
        }
    }
    places
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_in(&path));
        } else {
            found.push(path);
        }
    }
    found
}
