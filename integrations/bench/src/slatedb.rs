//! Measures SlateDB on local files, with its own Bloom filter and with filterblock.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filterblock_slatedb::Filters;
use filterblock_slatedb_testkit::{Counted, Entries};
use slatedb::admin::Admin;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, FlushOptions, FlushType, Settings, SizeTieredCompactionSchedulerOptions,
};
use slatedb::db_cache::DbCache;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::{BloomFilterPolicy, CompactorBuilder, Db, DbReader, FilterPolicy, VersionedManifest};
use tokio::runtime::Runtime;

use crate::row::Row;
use crate::stopwatch::{Times, median, times};
use crate::workload::{VALUE, absent_keys, present_keys};

const ROOT: &str = "db";
/// The number of SSTs in level 0 before the compaction.
const RUNS: usize = 5;
/// The measured specifications. The first takes about as many bytes as SlateDB's own filter. The
/// second has about the FPR of SlateDB's own filter.
const OURS: [&str; 3] = ["bumped-ribbon:9.95", "bumped-ribbon:7", "blocked-bloom:12"];

/// A database whose SSTs all have filters of one policy.
struct Loaded {
    filter: String,
    policies: Vec<Arc<dyn FilterPolicy>>,
    store: Arc<Counted>,
    load: Duration,
}

/// Loads `keys` keys into one database for each filter. Measures gets of absent keys, and counts
/// the present keys that a get does not find. The layout is first five SSTs of level 0, then one
/// sorted run. Passes a row for each filter and layout to `sink`.
///
/// During the measured gets, filters and indexes are in a cache, and data blocks are not. All
/// databases are open at once, and each round measures every database once.
///
/// # Panics
/// Panics if `keys` is 0, if SlateDB or the file system returns an error, or if SlateDB returns a
/// value for an absent key.
pub fn run(keys: usize, rounds: usize, sink: &mut dyn FnMut(Row)) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (present, absent) = (present_keys(keys), absent_keys(100_000.min(keys)));
    let databases: Vec<Loaded> = filters()
        .into_iter()
        .map(|(filter, policies)| {
            let store = counted(&dir.path().join(&filter));
            let start = Instant::now();
            runtime.block_on(load(&store, &policies, &present));
            Loaded { filter, policies, store, load: start.elapsed() }
        })
        .collect();
    measure(&runtime, &databases, RUNS, (&present, &absent), &vec![None; databases.len()], rounds, sink);
    let compacted: Vec<_> = databases.iter().map(|db| Some(runtime.block_on(compact(db)))).collect();
    measure(&runtime, &databases, 1, (&present, &absent), &compacted, rounds, sink);
}

/// Returns a store of local files that counts the GETs of SSTs, except those of the WAL.
fn counted(dir: &Path) -> Arc<Counted> {
    std::fs::create_dir_all(dir).expect("a folder");
    let store = LocalFileSystem::new_with_prefix(dir).expect("a local file system");
    Counted::new(Arc::new(store), |path, _| path.as_ref().contains("/compacted/").then_some(0))
}

fn filters() -> Vec<(String, Vec<Arc<dyn FilterPolicy>>)> {
    let own: Arc<dyn FilterPolicy> = Arc::new(BloomFilterPolicy::new(10));
    let ours = OURS.map(|spec| (spec.to_owned(), Filters::new(spec.parse().expect("a filter")).policies()));
    // There is no database without filters: each miss would read one block of each run, and a round
    // would take minutes.
    [("own Bloom:10".to_owned(), vec![own])].into_iter().chain(ours).collect()
}

async fn load(store: &Arc<Counted>, policies: &[Arc<dyn FilterPolicy>], keys: &[Vec<u8>]) {
    let settings = Settings {
        flush_interval: Some(Duration::from_millis(100)),
        // With these limits, only `load` flushes to level 0.
        l0_sst_size_bytes: 1 << 29,
        max_wal_flushes_before_l0_flush: 1 << 40,
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    };
    let builder = Db::builder(ROOT, Arc::clone(store) as Arc<dyn ObjectStore>).with_settings(settings);
    let db = builder.with_filter_policies(policies.to_vec()).build().await.expect("SlateDB opens");
    for run in keys.chunks(keys.len().div_ceil(RUNS)) {
        for key in run {
            db.put(key, VALUE).await.expect("SlateDB writes");
        }
        let all = FlushOptions { flush_type: FlushType::MemTable };
        db.flush_with_options(all).await.expect("SlateDB flushes");
    }
    db.close().await.expect("SlateDB closes");
}

/// Runs a compactor until it has merged all SSTs into one sorted run. Returns the time.
async fn compact(db: &Loaded) -> Duration {
    let poll = Duration::from_millis(10);
    let worker = CompactionWorkerOptions { compactions_poll_interval: poll, ..CompactionWorkerOptions::default() };
    let sources = SizeTieredCompactionSchedulerOptions { min_compaction_sources: RUNS, ..Default::default() };
    let options = CompactorOptions {
        poll_interval: poll,
        commit_compacted_interval: poll,
        scheduler_options: sources.into(),
        worker: Some(worker),
        ..CompactorOptions::default()
    };
    let start = Instant::now();
    let builder = CompactorBuilder::new(ROOT, Arc::clone(&db.store) as Arc<dyn ObjectStore>);
    let compactor = Arc::new(builder.with_options(options).with_filter_policies(db.policies.clone()).build());
    let running = Arc::clone(&compactor);
    let task = tokio::spawn(async move { running.run().await });
    while !manifest(db).await.l0().is_empty() {
        tokio::time::sleep(poll).await;
    }
    let time = start.elapsed();
    compactor.stop().await.expect("the compactor stops");
    task.await.expect("the compactor ends").expect("SlateDB compacts");
    time
}

async fn manifest(db: &Loaded) -> VersionedManifest {
    let admin = Admin::builder(ROOT, Arc::clone(&db.store) as Arc<dyn ObjectStore>).build();
    admin.read_manifest(None).await.expect("SlateDB reads").expect("the database exists")
}

fn open(runtime: &Runtime, db: &Loaded, blocks: bool) -> DbReader {
    let entries = Entries::default();
    let cache: Arc<dyn DbCache> = if blocks { Arc::new(entries) } else { entries.of_metadata() };
    let builder = DbReader::builder(ROOT, Arc::clone(&db.store) as Arc<dyn ObjectStore>);
    let builder = builder.with_db_cache(cache, 0).with_filter_policies(db.policies.clone());
    runtime.block_on(builder.build()).expect("SlateDB opens")
}

fn measure(
    runtime: &Runtime,
    databases: &[Loaded],
    runs: usize,
    (present, absent): (&[Vec<u8>], &[Vec<u8>]),
    compacted: &[Option<Duration>],
    rounds: usize,
    sink: &mut dyn FnMut(Row),
) {
    let readers: Vec<_> = databases.iter().map(|db| open(runtime, db, false)).collect();
    let find = |reader: &DbReader, key: &[u8]| runtime.block_on(reader.get(key)).expect("SlateDB reads").is_some();
    let mut measured: Vec<Vec<Times>> = vec![Vec::new(); readers.len()];
    for (db, reader) in databases.iter().zip(&readers) {
        // These gets load filters and indexes into the cache.
        absent.iter().take(1_000).for_each(|key| assert!(!find(reader, key)));
        db.store.take();
    }
    for _ in 0..rounds {
        for (reader, rounds) in readers.iter().zip(&mut measured) {
            rounds.push(times(absent, |key| assert!(!find(reader, key))));
        }
    }
    for (((db, reader), rounds), compacted) in databases.iter().zip(readers).zip(&measured).zip(compacted) {
        // A round looks up each key twice: see `times`.
        let misses = (absent.len() * 2 * rounds.len()) as f64;
        let reads = db.store.take()[0] as f64 / misses;
        runtime.block_on(reader.close()).expect("SlateDB closes");
        let filter_bytes = runtime.block_on(manifest(db)).all_sst_views().map(|view| view.sst.info.filter_len).sum();
        let engine = ("SlateDB", "0.18.0");
        sink(Row {
            // A miss asks one filter of each run, and reads a block after each false positive.
            false_positive_rate: Some(reads / runs as f64),
            reads_per_miss: Some(reads),
            compact_ms: compacted.map(|time| time.as_secs_f64() * 1e3),
            false_negatives: lost(runtime, db, present),
            ..Row::new(engine, runs, &db.filter, present.len(), filter_bytes, median(rounds), db.load)
        });
    }
}

/// Returns the number of `keys` that a get does not find. Caches data blocks, to save time.
fn lost(runtime: &Runtime, db: &Loaded, keys: &[Vec<u8>]) -> u64 {
    let reader = open(runtime, db, true);
    runtime.block_on(async {
        let mut lost = 0;
        for key in keys {
            lost += u64::from(reader.get(key).await.expect("SlateDB reads").is_none());
        }
        reader.close().await.expect("SlateDB closes");
        lost
    })
}
