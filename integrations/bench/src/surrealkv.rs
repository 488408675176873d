//! Measures SurrealKV with its own filters and with filterblock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filterblock::HashSeed;
use filterblock_surrealkv::Policy;
use surrealkv::{CompactRangeOptions, FilterPolicy, Mode, Options, RibbonFilter, Transaction, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::contender;
use crate::counting::Counting;
use crate::row::Row;
use crate::workload::VALUE;

/// The number of runs in the first layout.
const RUNS: usize = 5;
/// A limit for the number of SSTs in level 0 that no layout reaches.
const NO_COMPACTION: usize = 10_000;
/// A maximum size of a level in bytes that no layout reaches. SurrealKV compacts level 0 if level 0
/// exceeds this size, even if it has few SSTs.
const NO_LIMIT: u64 = 1 << 50;

/// The name of [`DenyAll`] in the rows.
const FLOOR: &str = "none: denies every key";

/// A filter to measure.
struct Contender<'a> {
    name: &'static str,
    policy: Arc<dyn FilterPolicy>,
    counting: Arc<Counting>,
    path: PathBuf,
    runtime: &'a Runtime,
}

/// Measures SurrealKV, as [`contender::run`] does.
///
/// # Panics
/// See [`contender::run`].
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let runtime = &Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ours = |spec: &str| -> Arc<dyn FilterPolicy> {
        let spec = spec.parse().expect("the specification is valid");
        Arc::new(Policy::new(spec, HashSeed(42)).expect("filters of 16,384 keys exist"))
    };
    let own_bloom = Options::default().filter_policy.expect("SurrealKV has a filter by default");
    let all: [(&'static str, Arc<dyn FilterPolicy>); 6] = [
        ("own Bloom, 10 bits", own_bloom),
        ("own RibbonFilter, 10 bits", Arc::new(RibbonFilter::new(10))),
        ("bumped-ribbon:7", ours("bumped-ribbon:7")),
        ("bumped-ribbon:10", ours("bumped-ribbon:10")),
        ("blocked-bloom:10", ours("blocked-bloom:10")),
        (FLOOR, Arc::new(DenyAll)),
    ];
    let contenders = all.map(|(name, policy)| {
        let path = dir.path().join(name.replace([' ', ',', ':'], "-"));
        Contender { name, policy, counting: Arc::default(), path, runtime }
    });
    contender::run(("SurrealKV", "1.2.0"), RUNS, &contenders, keys, rounds, sink);
}

impl Contender<'_> {
    fn open_tree(&self, counts: bool) -> Tree {
        let mut options = Options::new()
            .with_path(self.path.clone())
            .with_block_size(4096)
            .with_max_memtable_size(1 << 30)
            .without_compression();
        options.level0_max_files = NO_COMPACTION;
        options.l0_stall_threshold = NO_COMPACTION;
        options.max_bytes_for_level = NO_LIMIT;
        let policy = Arc::clone(&self.policy);
        let policy: Arc<dyn FilterPolicy> =
            if counts { Arc::new(Counted { policy, counting: Arc::clone(&self.counting) }) } else { policy };
        let _inside = self.runtime.enter();
        TreeBuilder::with_options(options).with_filter_policy(Some(policy)).build().expect("SurrealKV opens")
    }

    fn close_tree(&self, tree: &Tree) {
        self.runtime.block_on(tree.close()).expect("SurrealKV closes");
    }

    fn compact_to(&self, tree: &Tree, target_level: Option<u8>) {
        let _inside = self.runtime.enter();
        let options = CompactRangeOptions { target_level, ..CompactRangeOptions::default() };
        tree.compact_range(None, None, &options).expect("SurrealKV compacts");
    }
}

impl contender::Contender for Contender<'_> {
    type Db = (Tree, Transaction);

    fn filter(&self) -> &'static str {
        self.name
    }

    fn counting(&self) -> &Counting {
        &self.counting
    }

    fn load(&self, present: &[Vec<u8>]) -> Duration {
        let tree = self.open_tree(true);
        let start = Instant::now();
        for run in present.chunks(present.len().div_ceil(RUNS)) {
            for batch in run.chunks(1_000) {
                let mut writes = tree.begin_with_mode(Mode::WriteOnly).expect("SurrealKV writes");
                batch.iter().for_each(|key| writes.set(key.as_slice(), VALUE).expect("SurrealKV writes"));
                self.runtime.block_on(writes.commit()).expect("SurrealKV writes");
            }
            // A compaction into level 0 only flushes the memtable.
            self.compact_to(&tree, Some(0));
        }
        let elapsed = start.elapsed();
        self.close_tree(&tree);
        elapsed
    }

    fn compact(&self) -> Duration {
        let tree = self.open_tree(true);
        let start = Instant::now();
        self.compact_to(&tree, None);
        let elapsed = start.elapsed();
        self.close_tree(&tree);
        elapsed
    }

    fn open(&self, counts: bool) -> (Tree, Transaction) {
        let tree = self.open_tree(counts);
        let reads = tree.begin_with_mode(Mode::ReadOnly).expect("SurrealKV reads");
        (tree, reads)
    }

    fn get((_, reads): &mut (Tree, Transaction), key: &[u8]) -> Option<Vec<u8>> {
        reads.get(key).expect("SurrealKV reads")
    }

    fn close(&self, (tree, reads): (Tree, Transaction)) {
        drop(reads);
        self.close_tree(&tree);
    }

    fn has_present_keys(&self) -> bool {
        self.name != FLOOR
    }
}

/// A policy that denies every key without reading the filter. It loses all keys. It shows the part
/// of a get's time that no filter can save.
struct DenyAll;

impl FilterPolicy for DenyAll {
    fn name(&self) -> &str {
        "deny-all"
    }

    fn may_contain(&self, _filter: &[u8], _key: &[u8]) -> bool {
        false
    }

    fn create_filter(&self, _keys: &[Vec<u8>]) -> Vec<u8> {
        vec![0]
    }

    fn key_hash(&self, _key: &[u8]) -> u64 {
        0
    }

    fn create_filter_from_hashes(&self, _hashes: &[u64]) -> Vec<u8> {
        vec![0]
    }
}

/// A policy whose filters are counted.
struct Counted {
    policy: Arc<dyn FilterPolicy>,
    counting: Arc<Counting>,
}

impl FilterPolicy for Counted {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        self.counting.answered(self.policy.may_contain(filter, key))
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        self.counting.built(keys.len(), self.policy.create_filter(keys))
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.policy.key_hash(key)
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        self.counting.built(hashes.len(), self.policy.create_filter_from_hashes(hashes))
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        self.policy.filter_keys_per_partition(partition_bytes)
    }
}
