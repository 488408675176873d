//! Measures rusty-leveldb with its own filter and with filterblock.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use rusty_leveldb::{BloomPolicy, DB, FilterPolicy, Options, WriteBatch};

use crate::counting::Counting;
use crate::row::Row;
use crate::stopwatch::{Times, median, times};
use crate::workload::{absent_keys, present_keys};

/// The number of runs in the first layout. With four runs, rusty-leveldb would compact by itself.
const RUNS: usize = 3;
const VALUE: &[u8] = &[7; 100];
/// A key above all keys of the workload.
const HIGHEST: [u8; 17] = [0xff; 17];

type Boxed = Rc<Box<dyn FilterPolicy>>;

/// A filter to measure.
struct Contender {
    name: &'static str,
    policy: Boxed,
    counting: Rc<Counting>,
    path: PathBuf,
    build_ns_per_key: f64,
}

/// Loads `keys` keys into one database for each filter. Measures gets of absent keys, and counts
/// the present keys that a get does not find: first in several runs, then in one run. Passes a row
/// for each filter and layout to `sink`.
///
/// # Panics
/// Panics if `keys` is 0, if rusty-leveldb or the file system returns an error, or if rusty-leveldb
/// returns a value for an absent key.
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let present = present_keys(keys);
    let absent = absent_keys(100_000.min(keys));
    let mut contenders = contenders(dir.path());
    for contender in &mut contenders {
        contender.build_ns_per_key = load(contender, &present);
    }
    for (layout, compacts) in [(format!("{RUNS} runs"), false), ("1 run".to_owned(), true)] {
        let compact_ms: Vec<Option<f64>> =
            contenders.iter().map(|contender| compacts.then(|| compact(contender))).collect();
        // Gets of present keys may compact, so they come after the gets of absent keys.
        let times = measure(&contenders, rounds, &absent);
        for ((contender, compact_ms), times) in contenders.iter().zip(compact_ms).zip(times) {
            let bytes = contender.counting.bytes_of_last(keys);
            let checked = check(contender, &present, &absent);
            sink(Row {
                engine: "rusty-leveldb".into(),
                version: "4.0.2".into(),
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
    let ours = |spec: &str| -> Boxed {
        let spec = spec.parse().expect("the specification is valid");
        Policy::new(spec, HashSeed(42)).expect("the kind has a compact form").for_rusty_leveldb()
    };
    let all: [(&'static str, Boxed); 3] = [
        ("own Bloom, 10 bits", Rc::new(Box::new(BloomPolicy::new(10)))),
        ("bloom:10", ours("bloom:10")),
        ("bloom:fpr=0.01", ours("bloom:fpr=0.01")),
    ];
    let contender = |(name, policy): (&'static str, Boxed)| Contender {
        name,
        policy,
        counting: Rc::default(),
        path: dir.join(name.replace([' ', ',', ':', '='], "-")),
        build_ns_per_key: 0.0,
    };
    all.into_iter().map(contender).collect()
}

/// Opens the database of a contender. If `counts` is `true`, the filters and their answers are
/// counted.
fn open(contender: &Contender, counts: bool) -> DB {
    let policy = Rc::clone(&contender.policy);
    let filter_policy: Boxed =
        if counts { Rc::new(Box::new(Counted { policy, counting: Rc::clone(&contender.counting) })) } else { policy };
    let options = Options {
        filter_policy,
        write_buffer_size: 1 << 30,
        block_cache_capacity_bytes: 32 << 20,
        // Without reuse, reopening the database flushes the memtable.
        reuse_logs: false,
        ..Options::default()
    };
    DB::open(&contender.path, options).expect("rusty-leveldb opens")
}

/// Puts all keys into [`RUNS`] overlapping SST files. Returns the time in nanoseconds per key.
fn load(contender: &Contender, present: &[Vec<u8>]) -> f64 {
    let start = Instant::now();
    for run in present.chunks(present.len().div_ceil(RUNS)) {
        let mut db = open(contender, true);
        for keys in run.chunks(1_000) {
            let mut batch = WriteBatch::default();
            keys.iter().for_each(|key| batch.put(key, VALUE));
            db.write(batch, false).expect("rusty-leveldb writes");
        }
        db.close().expect("rusty-leveldb closes");
    }
    open(contender, true).close().expect("rusty-leveldb closes");
    start.elapsed().as_secs_f64() * 1e9 / present.len() as f64
}

/// Compacts all runs into one. Returns the time in milliseconds.
fn compact(contender: &Contender) -> f64 {
    let mut db = open(contender, true);
    let start = Instant::now();
    db.compact_range(&[], &HIGHEST).expect("rusty-leveldb compacts");
    let elapsed = start.elapsed();
    db.close().expect("rusty-leveldb closes");
    elapsed.as_secs_f64() * 1e3
}

/// The counts of gets of all present and absent keys.
struct Checked {
    /// The number of present keys that were not found.
    lost: u64,
    /// The number of filter queries for absent keys.
    asked: u64,
    /// The number of answers "maybe" for absent keys.
    passed: u64,
}

fn check(contender: &Contender, present: &[Vec<u8>], absent: &[Vec<u8>]) -> Checked {
    let mut db = open(contender, true);
    contender.counting.take_answers();
    assert!(absent.iter().all(|key| db.get(key).is_none()), "an absent key has a value");
    let (asked, passed) = contender.counting.take_answers();
    let lost = present.iter().filter(|key| db.get(key).as_deref() != Some(VALUE)).count() as u64;
    db.close().expect("rusty-leveldb closes");
    Checked { lost, asked, passed }
}

/// Measures gets of absent keys. Each round measures every database once. Returns the medians for
/// each database.
fn measure(contenders: &[Contender], rounds: usize, absent: &[Vec<u8>]) -> Vec<Times> {
    let mut dbs: Vec<DB> = contenders.iter().map(|contender| open(contender, false)).collect();
    let mut measured = vec![Vec::new(); dbs.len()];
    // The first round only fills the caches.
    for round in 0..=rounds {
        for (db, measured) in dbs.iter_mut().zip(&mut measured) {
            let times = times(absent, |key| assert!(db.get(key).is_none()));
            if round > 0 {
                measured.push(times);
            }
        }
    }
    dbs.iter_mut().for_each(|db| db.close().expect("rusty-leveldb closes"));
    measured.iter().map(|rounds| median(rounds)).collect()
}

/// A policy whose filters are counted.
struct Counted {
    policy: Boxed,
    counting: Rc<Counting>,
}

impl FilterPolicy for Counted {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn create_filter(&self, keys: &[u8], key_offsets: &[usize]) -> Vec<u8> {
        self.counting.built(key_offsets.len(), self.policy.create_filter(keys, key_offsets))
    }

    fn key_may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.counting.answered(self.policy.key_may_match(key, filter))
    }
}
