//! Compares the requests to the object store for absent keys, with our filters and with SlateDB's
//! own.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use filterblock_slatedb::Filters;
use futures::stream::BoxStream;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use slatedb::{BloomFilterPolicy, DbReader, PathResolver};

use crate::common::{Policies, ROOT, Store, compact, filled, key, manifest, metadata_cache, ssts};

/// An object store that counts the GETs of SST files, by the part of the file that they read.
#[derive(Debug)]
pub struct Counted {
    store: Store,
    /// The offset of the end of the data blocks, for the path of each SST.
    data_ends: Mutex<HashMap<Path, u64>>,
    data: AtomicU64,
    metadata: AtomicU64,
}

impl Counted {
    pub async fn new(store: Store) -> Arc<Self> {
        let paths = PathResolver::new(ROOT, &manifest(&store).await);
        let all = ssts(&store).await;
        let data_ends = all.iter().map(|sst| (paths.sst_path(&sst.id), sst.info.filter_offset)).collect();
        Arc::new(Self { store, data_ends: Mutex::new(data_ends), data: AtomicU64::new(0), metadata: AtomicU64::new(0) })
    }

    /// Returns the numbers of GETs of data blocks and of other parts of SSTs since the last call.
    pub fn take(&self) -> (u64, u64) {
        (self.data.swap(0, Ordering::Relaxed), self.metadata.swap(0, Ordering::Relaxed))
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counted {}", self.store)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(&end) = self.data_ends.lock().unwrap().get(path) {
            let is_data = matches!(&options.range, Some(GetRange::Bounded(range)) if range.start < end);
            let counter = if is_data { &self.data } else { &self.metadata };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.store.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

const KEYS: u64 = 80_000;

struct Measured {
    filter_bytes: u64,
    data_gets: u64,
}

/// Builds a database, and gets `misses` absent keys while filters and indexes are in the cache.
/// Returns the length of the filters and the number of GETs of data blocks.
async fn measured(policies: Policies, misses: u64) -> Measured {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, &policies, 0..KEYS, 2).await;
    compact(&store, &policies, 1 << 20).await;
    let all = ssts(&store).await;
    assert!(all.len() >= 2 && all.len() <= 5, "{} SSTs", all.len());
    let filter_bytes = all.iter().map(|sst| sst.info.filter_len).sum();

    let counted = Counted::new(store).await;
    let reader = DbReader::builder(ROOT, Arc::clone(&counted) as Store).with_db_cache(metadata_cache(), 0);
    let reader = reader.with_filter_policies(policies).build().await.unwrap();
    for i in 0..KEYS {
        assert!(reader.get(key(i)).await.unwrap().is_some(), "{i}");
    }
    let (data, metadata) = counted.take();
    // A get of a present key reads one data block, or two if the key is the first key of a block.
    // The filter and the index of each SST are read once.
    assert!((KEYS..KEYS + KEYS / 50).contains(&data) && metadata == 2 * all.len() as u64, "{data}, {metadata}");
    for i in 0..misses {
        let absent = [&key(i % (KEYS - 1))[..], &(i / (KEYS - 1)).to_le_bytes()].concat();
        assert_eq!(reader.get(absent).await.unwrap(), None);
    }
    let (data_gets, metadata) = counted.take();
    assert_eq!(metadata, 0);
    reader.close().await.unwrap();
    Measured { filter_bytes, data_gets }
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_read_under_a_sixth_of_the_blocks_in_equal_bytes() {
    let misses = 400_000;
    let own: Policies = vec![Arc::new(BloomFilterPolicy::new(10))];
    let filters = Filters::new("bumped-ribbon:9.95".parse().unwrap());
    let (own, ours) = tokio::join!(measured(own, misses), measured(filters.policies(), misses));
    let ratio = ours.data_gets as f64 / own.data_gets as f64;
    println!(
        "{misses} misses: own Bloom {} data GETs with {} filter bytes, ours {} with {}: {ratio:.3}",
        own.data_gets, own.filter_bytes, ours.data_gets, ours.filter_bytes
    );
    assert!(ours.filter_bytes <= own.filter_bytes);
    assert!(own.data_gets > misses / 200, "SlateDB's own filter must be in use");
    assert!(ratio <= 0.15, "{ratio}");
    assert_eq!((filters.counts().unusable(), filters.counts().failed_builds), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_read_about_as_many_blocks_in_71_percent_of_bytes() {
    let misses = 200_000;
    let own: Policies = vec![Arc::new(BloomFilterPolicy::new(10))];
    let filters = Filters::new("bumped-ribbon:7".parse().unwrap());
    let (own, ours) = tokio::join!(measured(own, misses), measured(filters.policies(), misses));
    println!(
        "{misses} misses: own Bloom {} data GETs with {} filter bytes, ours {} with {}",
        own.data_gets, own.filter_bytes, ours.data_gets, ours.filter_bytes
    );
    assert!(ours.filter_bytes * 100 <= own.filter_bytes * 71);
    assert!(ours.data_gets <= own.data_gets + own.data_gets / 10);
}
