//! Measures rusty-leveldb with its own filter and with filterblock.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use filterblock::HashSeed;
use filterblock_leveldb::Policy;
use rusty_leveldb::{BloomPolicy, DB, FilterPolicy, Options, WriteBatch};

use crate::contender;
use crate::counting::Counting;
use crate::row::Row;
use crate::workload::VALUE;

/// The number of runs in the first layout. With four runs, rusty-leveldb would compact by itself.
const RUNS: usize = 3;
/// A key above all keys of the workload.
const HIGHEST: [u8; 17] = [0xff; 17];

type Boxed = Rc<Box<dyn FilterPolicy>>;

/// A filter to measure.
struct Contender {
    name: &'static str,
    policy: Boxed,
    counting: Rc<Counting>,
    path: PathBuf,
}

/// Measures rusty-leveldb, as [`contender::run`] does.
///
/// # Panics
/// See [`contender::run`].
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let ours = |spec: &str| -> Boxed {
        let spec = spec.parse().expect("the specification is valid");
        Policy::new(spec, HashSeed(42)).expect("the kind has a compact form").for_rusty_leveldb()
    };
    let all: [(&'static str, Boxed); 3] = [
        ("own Bloom, 10 bits", Rc::new(Box::new(BloomPolicy::new(10)))),
        ("bloom:10", ours("bloom:10")),
        ("bloom:fpr=0.01", ours("bloom:fpr=0.01")),
    ];
    let contenders = all.map(|(name, policy)| {
        let path = dir.path().join(name.replace([' ', ',', ':', '='], "-"));
        Contender { name, policy, counting: Rc::default(), path }
    });
    contender::run(("rusty-leveldb", "4.0.2"), RUNS, &contenders, keys, rounds, sink);
}

impl contender::Contender for Contender {
    type Db = DB;

    fn filter(&self) -> &'static str {
        self.name
    }

    fn counting(&self) -> &Counting {
        &self.counting
    }

    fn load(&self, present: &[Vec<u8>]) -> Duration {
        let start = Instant::now();
        for run in present.chunks(present.len().div_ceil(RUNS)) {
            let mut db = self.open(true);
            for keys in run.chunks(1_000) {
                let mut batch = WriteBatch::default();
                keys.iter().for_each(|key| batch.put(key, VALUE));
                db.write(batch, false).expect("rusty-leveldb writes");
            }
            self.close(db);
        }
        self.close(self.open(true));
        start.elapsed()
    }

    fn compact(&self) -> Duration {
        let mut db = self.open(true);
        let start = Instant::now();
        db.compact_range(&[], &HIGHEST).expect("rusty-leveldb compacts");
        let elapsed = start.elapsed();
        self.close(db);
        elapsed
    }

    fn open(&self, counts: bool) -> DB {
        let policy = Rc::clone(&self.policy);
        let filter_policy: Boxed =
            if counts { Rc::new(Box::new(Counted { policy, counting: Rc::clone(&self.counting) })) } else { policy };
        let options = Options {
            filter_policy,
            write_buffer_size: 1 << 30,
            block_cache_capacity_bytes: 32 << 20,
            // Without reuse, reopening the database flushes the memtable.
            reuse_logs: false,
            ..Options::default()
        };
        DB::open(&self.path, options).expect("rusty-leveldb opens")
    }

    fn get(db: &mut DB, key: &[u8]) -> Option<Vec<u8>> {
        db.get(key).map(|value| value.to_vec())
    }

    fn close(&self, mut db: DB) {
        db.close().expect("rusty-leveldb closes");
    }
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
