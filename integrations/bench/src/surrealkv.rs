//! Measures SurrealKV with its own filters and with filterblock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use filterblock::HashSeed;
use filterblock_surrealkv::Policy;
use surrealkv::{CompactRangeOptions, FilterPolicy, Mode, Options, RibbonFilter, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::counting::Counting;
use crate::row::Row;
use crate::stopwatch::{Times, median, times};
use crate::workload::{absent_keys, present_keys};

/// The number of runs in the first layout.
const RUNS: usize = 5;
/// A limit for the number of SSTs in level 0 that no layout reaches.
const NO_COMPACTION: usize = 10_000;
/// A maximum size of a level in bytes that no layout reaches. SurrealKV compacts level 0 if level 0
/// exceeds this size, even if it has few SSTs.
const NO_LIMIT: u64 = 1 << 50;
const VALUE: &[u8] = &[7; 100];

/// The name of [`DenyAll`] in the rows.
const FLOOR: &str = "none: denies every key";

/// A filter to measure.
struct Contender {
    name: &'static str,
    policy: Arc<dyn FilterPolicy>,
    counting: Arc<Counting>,
    path: PathBuf,
    build_ns_per_key: f64,
}

/// Loads `keys` keys into one store for each filter. Measures gets of absent keys, and counts the
/// present keys that a get does not find: first in several runs, then in one run. Passes a row for
/// each filter and layout to `sink`.
///
/// # Panics
/// Panics if `keys` is 0, if SurrealKV or the file system returns an error, or if SurrealKV returns
/// a value for an absent key.
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let present = present_keys(keys);
    let absent = absent_keys(100_000.min(keys));
    let mut contenders = contenders(dir.path());
    for contender in &mut contenders {
        contender.build_ns_per_key = load(&runtime, contender, &present);
    }
    for (layout, compacts) in [(format!("{RUNS} runs"), false), ("1 run".to_owned(), true)] {
        let compact_ms: Vec<Option<f64>> =
            contenders.iter().map(|contender| compacts.then(|| compact(&runtime, contender))).collect();
        let times = measure(&runtime, &contenders, rounds, &absent);
        for ((contender, compact_ms), times) in contenders.iter().zip(compact_ms).zip(times) {
            let checked = check(&runtime, contender, &present, &absent);
            let bytes = contender.counting.bytes_of_last(keys);
            sink(Row {
                engine: "SurrealKV".into(),
                version: "1.2.0".into(),
                layout: layout.clone(),
                filter: contender.name.into(),
                keys: keys as u64,
                filter_bytes: bytes,
                bits_per_key: bytes as f64 * 8.0 / keys as f64,
                false_positive_rate: Some(checked.passed as f64 / checked.asked.max(1) as f64),
                miss_mean_ns: times.mean_ns,
                miss_p99_ns: times.p99_ns,
                // Each answer "maybe" reads one data block.
                reads_per_miss: Some(checked.passed as f64 / absent.len() as f64),
                build_ns_per_key: contender.build_ns_per_key,
                compact_ms,
                false_negatives: checked.lost,
            });
        }
    }
}

fn contenders(dir: &Path) -> Vec<Contender> {
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
    let contender = |(name, policy): (&'static str, Arc<dyn FilterPolicy>)| Contender {
        name,
        policy,
        counting: Arc::default(),
        path: dir.join(name.replace([' ', ',', ':'], "-")),
        build_ns_per_key: 0.0,
    };
    all.into_iter().map(contender).collect()
}

/// Opens the store of a contender. If `counts` is `true`, the filters and their answers are
/// counted.
fn open(runtime: &Runtime, contender: &Contender, counts: bool) -> Tree {
    let mut options = Options::new()
        .with_path(contender.path.clone())
        .with_block_size(4096)
        .with_max_memtable_size(1 << 30)
        .without_compression();
    options.level0_max_files = NO_COMPACTION;
    options.l0_stall_threshold = NO_COMPACTION;
    options.max_bytes_for_level = NO_LIMIT;
    let policy = Arc::clone(&contender.policy);
    let policy: Arc<dyn FilterPolicy> =
        if counts { Arc::new(Counted { policy, counting: Arc::clone(&contender.counting) }) } else { policy };
    let _inside = runtime.enter();
    TreeBuilder::with_options(options).with_filter_policy(Some(policy)).build().expect("SurrealKV opens")
}

fn close(runtime: &Runtime, tree: &Tree) {
    runtime.block_on(tree.close()).expect("SurrealKV closes");
}

/// Puts all keys into [`RUNS`] runs of level 0. Returns the time in nanoseconds per key.
fn load(runtime: &Runtime, contender: &Contender, present: &[Vec<u8>]) -> f64 {
    let tree = open(runtime, contender, true);
    let start = Instant::now();
    for run in present.chunks(present.len().div_ceil(RUNS)) {
        for batch in run.chunks(1_000) {
            let mut writes = tree.begin_with_mode(Mode::WriteOnly).expect("SurrealKV writes");
            batch.iter().for_each(|key| writes.set(key.as_slice(), VALUE).expect("SurrealKV writes"));
            runtime.block_on(writes.commit()).expect("SurrealKV writes");
        }
        // A compaction into level 0 only flushes the memtable.
        compact_to(runtime, &tree, Some(0));
    }
    let elapsed = start.elapsed();
    close(runtime, &tree);
    elapsed.as_secs_f64() * 1e9 / present.len() as f64
}

fn compact_to(runtime: &Runtime, tree: &Tree, target_level: Option<u8>) {
    let _inside = runtime.enter();
    let options = CompactRangeOptions { target_level, ..CompactRangeOptions::default() };
    tree.compact_range(None, None, &options).expect("SurrealKV compacts");
}

/// Compacts all runs into one. Returns the time in milliseconds.
fn compact(runtime: &Runtime, contender: &Contender) -> f64 {
    let tree = open(runtime, contender, true);
    let start = Instant::now();
    compact_to(runtime, &tree, None);
    let elapsed = start.elapsed();
    close(runtime, &tree);
    elapsed.as_secs_f64() * 1e3
}

/// The counts of gets of all present and absent keys.
struct Checked {
    /// The number of present keys that were not found. It is 0 for [`DenyAll`], because its present
    /// keys are not looked up.
    lost: u64,
    /// The number of filter queries for absent keys.
    asked: u64,
    /// The number of answers "maybe" for absent keys.
    passed: u64,
}

fn check(runtime: &Runtime, contender: &Contender, present: &[Vec<u8>], absent: &[Vec<u8>]) -> Checked {
    let tree = open(runtime, contender, true);
    let reads = tree.begin_with_mode(Mode::ReadOnly).expect("SurrealKV reads");
    let get = |key: &Vec<u8>| reads.get(key.as_slice()).expect("SurrealKV reads");
    let is_lost = |key: &&Vec<u8>| contender.name != FLOOR && get(key).as_deref() != Some(VALUE);
    let lost = present.iter().filter(is_lost).count() as u64;
    contender.counting.take_answers();
    assert!(absent.iter().all(|key| get(key).is_none()), "an absent key has a value");
    let (asked, passed) = contender.counting.take_answers();
    drop(reads);
    close(runtime, &tree);
    Checked { lost, asked, passed }
}

/// Measures gets of absent keys. Each round measures every store once. Returns the medians for each
/// store.
fn measure(runtime: &Runtime, contenders: &[Contender], rounds: usize, absent: &[Vec<u8>]) -> Vec<Times> {
    let trees: Vec<Tree> = contenders.iter().map(|contender| open(runtime, contender, false)).collect();
    let reads: Vec<_> =
        trees.iter().map(|tree| tree.begin_with_mode(Mode::ReadOnly).expect("SurrealKV reads")).collect();
    let mut measured = vec![Vec::new(); trees.len()];
    // The first round only fills the caches.
    for round in 0..=rounds {
        for (reads, measured) in reads.iter().zip(&mut measured) {
            let times = times(absent, |key| assert!(reads.get(key.as_slice()).expect("SurrealKV reads").is_none()));
            if round > 0 {
                measured.push(times);
            }
        }
    }
    drop(reads);
    trees.iter().for_each(|tree| close(runtime, tree));
    measured.iter().map(|rounds| median(rounds)).collect()
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
