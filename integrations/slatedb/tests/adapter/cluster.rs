//! Tests a cluster on one object store: a writer, several readers, a compactor and a worker.

use std::path::Path as FilePath;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use filterblock_slatedb::Filters;
use slatedb::config::DbReaderOptions;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStoreExt, PutPayload};
use slatedb::{CompactionWorkerBuilder, DbReader, DbReaderBuilder};

use crate::common::{
    Append, First4, ROOT, Store, absent, compactor, flush, inspect, key, manifest, metadata_cache, worker_options,
    writer,
};

const ROUNDS: u64 = 5;
const KEYS_PER_ROUND: u64 = 2_000;
const POLL: Duration = Duration::from_millis(20);

/// Returns the filters of all roles except `other`.
fn filters() -> Filters {
    Filters::new("bumped-ribbon:8".parse().unwrap()).with_prefixes(Arc::new(First4), true).unwrap()
}

/// Returns the filters of a process that starts.
async fn started(store: &Store) -> Filters {
    let filters = filters();
    filters.record_or_compare(ROOT, store).await.unwrap();
    filters
}

/// Sends a signal to the other processes: writes a number to an object of the same store.
async fn signal(store: &Store, name: &str, number: u64) {
    store.put(&Path::from(format!("signals/{name}")), PutPayload::from(number.to_string())).await.unwrap();
}

async fn signalled(store: &Store, name: &str) -> u64 {
    match store.get(&Path::from(format!("signals/{name}"))).await {
        Ok(found) => std::str::from_utf8(&found.bytes().await.unwrap()).unwrap().parse().unwrap(),
        Err(_) => 0,
    }
}

async fn wait_for(store: &Store, name: &str) {
    while signalled(store, name).await == 0 {
        tokio::time::sleep(POLL).await;
    }
}

/// Returns the number of key `i` of a round. Numbers of all rounds alternate, so each flushed SST
/// covers nearly the whole key range.
fn key_of(round: u64, i: u64) -> u64 {
    i * ROUNDS + round
}

/// Runs the writer, which writes all rounds. Each round after the first also deletes the first
/// tenth of the keys of the previous round.
async fn write(store: &Store) {
    let filters = started(store).await;
    let db = writer(store, filters.policies()).with_db_cache(metadata_cache(), 0).build().await.unwrap();
    for round in 0..ROUNDS {
        for i in 0..KEYS_PER_ROUND {
            db.put(key(key_of(round, i)), b"value").await.unwrap();
        }
        for i in 0..KEYS_PER_ROUND / 10 {
            if round > 0 {
                db.delete(key(key_of(round - 1, i))).await.unwrap();
            }
        }
        flush(&db).await;
        signal(store, "rounds", round + 1).await;
    }
    assert_complete(&db).await;
    db.close().await.unwrap();
    assert_counts("writer", &filters, ROUNDS);
}

async fn assert_complete(db: &(impl slatedb::DbReadOps + Sync)) {
    for round in 0..ROUNDS {
        for i in 0..KEYS_PER_ROUND {
            let found = db.get(key(key_of(round, i))).await.unwrap().is_some();
            let is_deleted = round + 1 < ROUNDS && i < KEYS_PER_ROUND / 10;
            assert_eq!(found, !is_deleted, "round {round}, key {i}");
        }
    }
    for i in 0..KEYS_PER_ROUND {
        assert_eq!(db.get(absent(i)).await.unwrap(), None);
    }
    let mut rows = db.scan_prefix(&key(500)[..4], ..).await.unwrap();
    let mut found = 0;
    while rows.next().await.unwrap().is_some() {
        found += 1;
    }
    let deleted = (500..600).filter(|i| i % ROUNDS + 1 < ROUNDS && i / ROUNDS < KEYS_PER_ROUND / 10).count();
    assert_eq!(found, 100 - deleted);
}

fn assert_counts(role: &str, filters: &Filters, built: u64) {
    let counts = filters.counts();
    assert_eq!((counts.unusable(), counts.failed_builds), (0, 0), "{role}: {counts:?}");
    assert!(counts.built >= built, "{role}: {counts:?}");
    assert!(built > 0 || (counts.opened > 0 && counts.negatives > KEYS_PER_ROUND), "{role}: {counts:?}");
}

fn reader(store: &Store, filters: &Filters) -> DbReaderBuilder<&'static str> {
    let options = DbReaderOptions { manifest_poll_interval: POLL, skip_wal_replay: true, ..DbReaderOptions::default() };
    DbReader::builder(ROOT, Arc::clone(store))
        .with_merge_operator(Arc::new(Append))
        .with_options(options)
        .with_db_cache(metadata_cache(), 0)
        .with_filter_policies(filters.policies())
}

/// Runs a reader while the writer writes, and a new reader after the last compaction.
async fn read(store: &Store) {
    let filters = started(store).await;
    wait_for(store, "rounds").await;
    let following = reader(store, &filters).build().await.unwrap();
    let mut seen = 0;
    while seen < ROUNDS {
        // If the last key of a round is found, the reader has the manifest of the round.
        while seen < ROUNDS && following.get(key(key_of(seen, KEYS_PER_ROUND - 1))).await.unwrap().is_some() {
            seen += 1;
        }
        for round in 0..seen {
            for i in (KEYS_PER_ROUND / 10..KEYS_PER_ROUND).step_by(7) {
                assert!(following.get(key(key_of(round, i))).await.unwrap().is_some(), "round {round}, key {i}");
            }
        }
    }
    wait_for(store, "compacted").await;
    assert_complete(&following).await;
    following.close().await.unwrap();
    let fresh = reader(store, &filters).build().await.unwrap();
    assert_complete(&fresh).await;
    fresh.close().await.unwrap();
    assert_counts("reader", &filters, 0);
}

/// Runs the compactor, which schedules compactions until the writer has written all rounds and one
/// sorted run is left.
async fn compact(store: &Store) {
    let filters = started(store).await;
    wait_for(store, "rounds").await;
    let compactor = Arc::new(compactor(store, filters.policies(), None).build());
    let running = Arc::clone(&compactor);
    let task = tokio::spawn(async move { running.run().await });
    loop {
        let is_written = signalled(store, "rounds").await == ROUNDS;
        let manifest = manifest(store).await;
        if is_written && manifest.l0().is_empty() && manifest.compacted().len() == 1 {
            break;
        }
        assert!(!task.is_finished(), "the compactor has stopped");
        tokio::time::sleep(POLL).await;
    }
    compactor.stop().await.unwrap();
    task.await.unwrap().unwrap();
    // The worker builds the filters, and the compactor builds none.
    assert_eq!(filters.counts().built, 0);
    signal(store, "compacted", 1).await;
}

/// Runs a worker, which does the compactions that the compactor schedules.
async fn work(store: &Store) {
    let filters = started(store).await;
    wait_for(store, "rounds").await;
    let builder = CompactionWorkerBuilder::new(ROOT, Arc::clone(store)).with_options(worker_options(64 << 10));
    let builder = builder.with_merge_operator(Arc::new(Append)).with_filter_policies(filters.policies());
    let worker = Arc::new(builder.build().await.unwrap());
    let running = Arc::clone(&worker);
    let task = tokio::spawn(async move { running.run().await });
    while signalled(store, "compacted").await == 0 {
        assert!(!task.is_finished(), "the worker has stopped");
        tokio::time::sleep(POLL).await;
    }
    worker.stop().await.unwrap();
    task.await.unwrap().unwrap();
    assert_counts("worker", &filters, 2);
}

/// Asserts that a process with another list of policies gets an error.
async fn start_with_another_list(store: &Store) {
    wait_for(store, "rounds").await;
    let other = Filters::new("bumped-ribbon:8".parse().unwrap());
    assert!(other.record_or_compare(ROOT, store).await.is_err());
}

async fn run(role: &str, store: &Store) {
    match role {
        "writer" => write(store).await,
        "reader" => read(store).await,
        "compactor" => compact(store).await,
        "worker" => work(store).await,
        "other" => start_with_another_list(store).await,
        _ => panic!("unknown role {role}"),
    }
}

const ROLES: [&str; 7] = ["writer", "reader", "reader", "reader", "compactor", "worker", "other"];

async fn assert_filtered(store: &Store) {
    let inspection = inspect(store, &filters()).await;
    assert!(inspection.ssts.len() > 1);
    inspection.check(1).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_tasks_loses_no_key() {
    let store: Store = Arc::new(InMemory::new());
    let tasks: Vec<_> = ROLES
        .into_iter()
        .map(|role| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { run(role, &store).await })
        })
        .collect();
    for (task, role) in tasks.into_iter().zip(ROLES) {
        tokio::time::timeout(Duration::from_secs(300), task).await.unwrap_or_else(|_| panic!("{role}")).unwrap();
    }
    assert_filtered(&store).await;
}

fn open_dir(dir: &FilePath) -> Store {
    Arc::new(LocalFileSystem::new_with_prefix(dir).unwrap())
}

/// Runs one role in a separate process, for [`a_cluster_of_processes_loses_no_key`].
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a_cluster_of_processes_loses_no_key runs it"]
async fn a_process_of_the_cluster() {
    let (role, dir) = (std::env::var("CLUSTER_ROLE").unwrap(), std::env::var("CLUSTER_DIR").unwrap());
    run(&role, &open_dir(FilePath::new(&dir))).await;
}

/// A child process, which is killed when this value is dropped, even if the test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_processes_loses_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let start = |role: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cluster::a_process_of_the_cluster", "--ignored", "--nocapture"]);
        Process(command.env("CLUSTER_ROLE", role).env("CLUSTER_DIR", dir.path()).spawn().unwrap())
    };
    let mut processes: Vec<_> = ROLES.into_iter().map(|role| (role, start(role))).collect();
    for (role, process) in &mut processes {
        assert!(process.0.wait().unwrap().success(), "{role}");
    }
    assert_filtered(&open_dir(dir.path())).await;
}
