//! Provides the tests with keys, settings, databases, compactions, and the bytes of SST files.

use std::sync::Arc;
use std::time::Duration;

use filterblock_slatedb::{Filters, Inspection};
use filterblock_slatedb_testkit::Entries;
use slatedb::admin::Admin;
use slatedb::bytes::{Buf, BufMut, Bytes};
use slatedb::compactor::{
    CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec, CompactorStateView, SourceId,
};
use slatedb::config::{CompactionWorkerOptions, CompactorOptions, FlushOptions, FlushType, Settings};
use slatedb::db_cache::DbCache;
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt};
use slatedb::{
    BloomFilterPolicy, CompactorBuilder, Db, DbBuilder, DbReader, ErrorKind, FilterPolicy, MergeOperator,
    MergeOperatorError, PathResolver, PrefixExtractor, PrefixTarget, RowEntry, SstReader, ValueDeletable,
    VersionedManifest,
};

pub const ROOT: &str = "db";
pub type Store = Arc<dyn ObjectStore>;
pub type Policies = Vec<Arc<dyn FilterPolicy>>;

/// Returns a key of 16 bytes: four hexadecimal digits for the user, and twelve digits for the key.
/// A hundred keys have the same user.
pub fn key(i: u64) -> Bytes {
    Bytes::from(format!("{:04x}{:012}", (i / 100) & 0xffff, i))
}

/// Returns a key that is in no database. It lies between two keys that [`key`] returns.
pub fn absent(i: u64) -> Bytes {
    Bytes::from([&key(i)[..], b"-"].concat())
}

/// Returns settings of a writer without a compactor. Its memtables do not fill up in these tests.
pub fn settings() -> Settings {
    Settings {
        min_filter_keys: 0,
        flush_interval: Some(Duration::from_millis(20)),
        manifest_poll_interval: Duration::from_millis(20),
        l0_sst_size_bytes: 1 << 29,
        max_wal_flushes_before_l0_flush: 1 << 40,
        l0_max_ssts: 64,
        l0_max_ssts_per_key: 64,
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    }
}

pub fn writer(store: &Store, policies: Policies) -> DbBuilder<&'static str> {
    Db::builder(ROOT, Arc::clone(store))
        .with_settings(settings())
        .with_merge_operator(Arc::new(Append))
        .with_filter_policies(policies)
}

pub async fn flush(db: &Db) {
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
}

/// Puts `keys` into a database, in `ssts` new SSTs of level 0.
pub async fn filled(store: &Store, policies: &Policies, keys: std::ops::Range<u64>, ssts: u64) {
    let db = writer(store, policies.clone()).build().await.unwrap();
    for part in 0..ssts {
        for i in keys.clone().filter(|i| i % ssts == part) {
            db.put(key(i), b"value").await.unwrap();
        }
        flush(&db).await;
    }
    db.close().await.unwrap();
}

pub async fn manifest(store: &Store) -> VersionedManifest {
    Admin::builder(ROOT, Arc::clone(store)).build().read_manifest(None).await.unwrap().unwrap()
}

/// Returns the SSTs of the latest manifest.
pub async fn ssts(store: &Store) -> Vec<SsTableHandle> {
    manifest(store).await.all_sst_views().map(|view| view.sst.clone()).collect()
}

/// A scheduler that merges the SSTs of level 0 and all sorted runs into one sorted run.
struct Everything;

impl CompactionScheduler for Everything {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let manifest = state.manifest();
        let new = manifest.l0().iter().map(|view| SourceId::SstView(view.id));
        let old = manifest.compacted().iter().map(|run| SourceId::SortedRun(run.id));
        let is_done = manifest.l0().is_empty() && manifest.compacted().len() <= 1;
        let destination = manifest.compacted().iter().map(|run| run.id).min().unwrap_or(0);
        if is_done { Vec::new() } else { vec![CompactionSpec::new(new.chain(old).collect(), destination)] }
    }
}

pub struct Full;

impl CompactionSchedulerSupplier for Full {
    fn compaction_scheduler(&self, _: &CompactorOptions) -> Box<dyn CompactionScheduler + Send + Sync> {
        Box::new(Everything)
    }
}

pub fn worker_options(max_sst_size: usize) -> CompactionWorkerOptions {
    CompactionWorkerOptions {
        compactions_poll_interval: Duration::from_millis(20),
        max_sst_size,
        min_filter_keys: 0,
        ..CompactionWorkerOptions::default()
    }
}

/// Returns the builder of a separate compactor, which merges all SSTs. Without `worker`, other
/// processes do the compactions.
pub fn compactor(
    store: &Store,
    policies: Policies,
    worker: Option<CompactionWorkerOptions>,
) -> CompactorBuilder<&'static str> {
    let options = CompactorOptions {
        poll_interval: Duration::from_millis(20),
        commit_compacted_interval: Duration::from_millis(20),
        worker,
        ..CompactorOptions::default()
    };
    CompactorBuilder::new(ROOT, Arc::clone(store))
        .with_options(options)
        .with_scheduler_supplier(Arc::new(Full))
        .with_merge_operator(Arc::new(Append))
        .with_filter_policies(policies)
}

/// Runs a compactor until one sorted run is left.
pub async fn compact(store: &Store, policies: &Policies, max_sst_size: usize) {
    let compactor = Arc::new(compactor(store, policies.clone(), Some(worker_options(max_sst_size))).build());
    let running = Arc::clone(&compactor);
    let task = tokio::spawn(async move { running.run().await });
    for _ in 0..6000 {
        let manifest = manifest(store).await;
        if manifest.l0().is_empty() && manifest.compacted().len() == 1 {
            compactor.stop().await.unwrap();
            task.await.unwrap().unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the compaction does not end");
}

/// Returns a cache of filters, indexes and statistics, without data blocks.
pub fn metadata_cache() -> Arc<dyn DbCache> {
    Entries::default().of_metadata()
}

pub async fn reader(store: &Store, policies: Policies, cache: Arc<dyn DbCache>) -> DbReader {
    let builder = DbReader::builder(ROOT, Arc::clone(store)).with_merge_operator(Arc::new(Append));
    builder.with_db_cache(cache, 0).with_filter_policies(policies).build().await.unwrap()
}

pub async fn inspect(store: &Store, filters: &Filters) -> Inspection {
    let ssts = SstReader::new(ROOT, Arc::clone(store), None, None);
    filters.inspect(DbReader::builder(ROOT, Arc::clone(store)), &ssts).await.unwrap()
}

pub fn ours() -> Filters {
    Filters::new("bumped-ribbon:7".parse().unwrap())
}

pub fn own() -> Policies {
    vec![Arc::new(BloomFilterPolicy::new(10))]
}

/// Builds a database of the keys `0..keys`, with several SSTs in one sorted run.
pub async fn database(policies: &Policies, keys: u64) -> Store {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, policies, 0..keys, 3).await;
    compact(&store, policies, 32 << 10).await;
    assert!(ssts(&store).await.len() >= 4);
    store
}

/// The numbers of lost keys, and of failed gets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub lost: u64,
    pub failed: u64,
}

/// Gets the keys `0..keys`, and an absent key after each. Asserts that no absent key is found.
pub async fn read_all(store: &Store, policies: Policies, keys: u64) -> Outcome {
    let reader = reader(store, policies, metadata_cache()).await;
    let mut outcome = Outcome::default();
    for i in 0..keys {
        match reader.get(key(i)).await {
            Ok(Some(_)) => {}
            Ok(None) => outcome.lost += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Data, "{error}");
                outcome.failed += 1;
            }
        }
        assert!(reader.get(absent(i)).await.is_ok_and(|found| found.is_none()) || outcome.failed > 0);
    }
    reader.close().await.unwrap();
    outcome
}

pub fn entry(key: Bytes, value: ValueDeletable) -> RowEntry {
    RowEntry { key, value, seq: 1, create_ts: None, expire_ts: None }
}

/// A merge operator that appends operands to the value.
pub struct Append;

impl MergeOperator for Append {
    fn merge(&self, _: &Bytes, existing: Option<Bytes>, operand: Bytes) -> Result<Bytes, MergeOperatorError> {
        Ok([existing.unwrap_or_default(), operand].concat().into())
    }
}

/// A prefix extractor that takes the first four bytes of a key.
pub struct First4;

impl PrefixExtractor for First4 {
    fn name(&self) -> &'static str {
        "first-4"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        (bytes.len() >= 4).then_some(4)
    }
}

/// One filter in the composite filter block of an SST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBytes {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Returns the path of an SST and the bytes of its file.
pub async fn sst_bytes(store: &Store, sst: &SsTableHandle) -> (Path, Vec<u8>) {
    let path = PathResolver::new(ROOT, &manifest(store).await).sst_path(&sst.id);
    let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
    (path, bytes.to_vec())
}

/// Returns the filters in the composite filter block of an SST. The block has the big-endian layout
/// `[count: u16]`, then `[name length: u16][name][length: u64][bytes]` for each filter, then a
/// CRC-32.
pub fn filters_of(file: &[u8], sst: &SsTableHandle) -> Vec<NamedBytes> {
    let (offset, len) = (sst.info.filter_offset as usize, sst.info.filter_len as usize);
    let mut block = &file[offset..offset + len - 4];
    let mut filters = Vec::new();
    for _ in 0..block.get_u16() {
        let name_len = usize::from(block.get_u16());
        let name = String::from_utf8(block.copy_to_bytes(name_len).to_vec()).unwrap();
        let len = block.get_u64() as usize;
        filters.push(NamedBytes { name, bytes: block.copy_to_bytes(len).to_vec() });
    }
    filters
}

/// Returns the bytes of an SST file with other filters and a correct checksum. The filters must not
/// be longer than the old filters.
pub fn with_filters(file: &[u8], sst: &SsTableHandle, filters: &[NamedBytes]) -> Vec<u8> {
    let (offset, len) = (sst.info.filter_offset as usize, sst.info.filter_len as usize);
    let mut block = Vec::new();
    block.put_u16(filters.len() as u16);
    for filter in filters {
        block.put_u16(filter.name.len() as u16);
        block.put_slice(filter.name.as_bytes());
        block.put_u64(filter.bytes.len() as u64);
        block.put_slice(&filter.bytes);
    }
    // SlateDB ignores bytes after the last filter.
    assert!(block.len() <= len - 4);
    block.resize(len - 4, 0);
    block.put_u32(crc32fast::hash(&block));
    let mut file = file.to_vec();
    file[offset..offset + len].copy_from_slice(&block);
    file
}
