//! Provides a cache and an object store for the tests and the benchmark of the adapter of SlateDB.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache, SplitCache};
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

/// A cache that never evicts an entry.
#[derive(Default)]
pub struct Entries {
    entries: Mutex<HashMap<CachedKey, CachedEntry>>,
    /// Changes each filter that the cache returns.
    change: Option<Change>,
}

type Change = Box<dyn Fn(&CachedEntry) -> CachedEntry + Send + Sync>;

impl Entries {
    /// Returns a cache that calls `change` with each filter that it returns.
    pub fn changing_filters(change: impl Fn(&CachedEntry) -> CachedEntry + Send + Sync + 'static) -> Self {
        Self { change: Some(Box::new(change)), ..Self::default() }
    }

    /// Returns the cache without data blocks: with filters, indexes and statistics.
    #[must_use]
    pub fn of_metadata(self) -> Arc<dyn DbCache> {
        Arc::new(SplitCache::new().with_meta_cache(Some(Arc::new(self))).build())
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<CachedKey, CachedEntry>) -> T) -> T {
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self, key: &CachedKey) -> Option<CachedEntry> {
        self.with(|entries| entries.get(key).cloned())
    }
}

#[async_trait]
impl DbCache for Entries {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.get(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        let found = self.get(key);
        Ok(self.change.as_ref().map_or(found.clone(), |change| found.as_ref().map(change)))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.get(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.with(|entries| entries.insert(key, value));
    }

    async fn remove(&self, key: &CachedKey) {
        self.with(|entries| entries.remove(key));
    }

    fn entry_count(&self) -> u64 {
        self.with(|entries| entries.len()) as u64
    }
}

/// An object store that counts GETs of two sorts.
pub struct Counted {
    store: Arc<dyn ObjectStore>,
    sort_of: Box<SortOf>,
    counts: [AtomicU64; 2],
}

/// Returns the sort of a GET, 0 or 1. GETs of other sorts are not counted.
type SortOf = dyn Fn(&Path, &GetOptions) -> Option<usize> + Send + Sync;

impl Counted {
    /// Returns a store that counts the GETs for which `sort_of` returns 0 or 1.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        sort_of: impl Fn(&Path, &GetOptions) -> Option<usize> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { store, sort_of: Box::new(sort_of), counts: Default::default() })
    }

    /// Returns the numbers of GETs of both sorts since the last call.
    pub fn take(&self) -> [u64; 2] {
        self.counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counted").field(&self.store).finish()
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
        if let Some(count) = (self.sort_of)(path, &options).and_then(|sort| self.counts.get(sort)) {
            count.fetch_add(1, Ordering::Relaxed);
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
