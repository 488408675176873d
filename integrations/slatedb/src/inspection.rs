//! Inspects the filter of every SST of a database.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use slatedb::config::DbReaderOptions;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache};
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::path::Path;
use slatedb::{CacheTarget, DbCacheManagerOps, DbReader, DbReaderBuilder, DbReaderMode, SstReader};

use crate::counters::{Counters, Counts};
use crate::error::{Error, Result};
use crate::filters::Filters;
use crate::report::{SstFilter, SstReport};

/// The reports about the filters of all SSTs of one manifest: see [`Filters::inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name of the policy for keys and prefixes.
    pub policy: String,
    /// The SSTs of level 0 and of all sorted runs.
    pub ssts: Vec<SstReport>,
}

impl Inspection {
    /// Checks that every SST has a usable filter, and a usable range filter if the policies have
    /// one. An SST with fewer rows than `min_filter_keys` may have no filter block. Pass SlateDB's
    /// setting of this name.
    ///
    /// # Errors
    /// Returns [`Error::Ssts`] with the SSTs that fail this check.
    pub fn check(&self, min_filter_keys: u32) -> Result<()> {
        let is_expected = |sst: &SstReport, filter: &SstFilter| match filter {
            SstFilter::Usable => true,
            SstFilter::NoBlock => sst.num_rows.is_some_and(|rows| rows < u64::from(min_filter_keys)),
            _ => false,
        };
        let is_sound = |sst: &SstReport| {
            is_expected(sst, &sst.filter) && sst.ranges.as_ref().is_none_or(|ranges| is_expected(sst, ranges))
        };
        let without: Vec<_> = self.ssts.iter().filter(|sst| !is_sound(sst)).cloned().collect();
        if without.is_empty() {
            return Ok(());
        }
        Err(Error::Ssts { policy: self.policy.clone(), num_ssts: self.ssts.len(), without })
    }
}

impl Filters {
    /// Reads the filter block of every SST in the latest manifest, and returns a report for each
    /// SST. Writes no SST. Other processes may use the database meanwhile.
    ///
    /// The inspection finds SSTs that a writer or compactor wrote with another list of policies,
    /// but only **after** they were written. It does not find a running process with another list
    /// that has not yet written an SST. It does not find a sound filter that belongs to another
    /// SST.
    ///
    /// `reader` and `ssts` must be of the same database. Give `reader` the segment extractor, the
    /// block transformer and the WAL store of the database, and `ssts` the block transformer. The
    /// function sets the options, the mode, the cache and the policies of `reader`. It does not
    /// change [`counts`](Self::counts).
    ///
    /// # Errors
    /// Returns [`Error::Engine`] if the database cannot be opened or closed. An SST that cannot be
    /// read is not an error: see [`SstFilter::Unreadable`].
    pub async fn inspect<P: Into<Path>>(&self, reader: DbReaderBuilder<P>, ssts: &SstReader) -> Result<Inspection> {
        let mut looking = self.clone();
        looking.config.counters = Arc::new(Counters::default());
        looking.config.handler = None;
        let of_ranges = Arc::new(Counters::default());
        // The reader must not load a newer manifest, because it could then no longer read SSTs of
        // the first manifest.
        let never = Duration::from_secs(365 * 86_400);
        let options = DbReaderOptions {
            manifest_poll_interval: never,
            checkpoint_lifetime: never * 3,
            skip_wal_replay: true,
            ..DbReaderOptions::default()
        };
        let reader = reader
            .with_options(options)
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_db_cache(Arc::new(NoCache), 0)
            .with_filter_policies(looking.policies_counting_ranges(&of_ranges))
            .build()
            .await?;
        let manifest = reader.manifest();
        let (mut seen, mut reports) = (HashSet::new(), Vec::new());
        for view in manifest.all_sst_views() {
            if seen.insert(view.sst.id) {
                reports.push(looking.look_at(&of_ranges, &reader, ssts, &view.sst).await);
            }
        }
        reader.close().await?;
        Ok(Inspection { policy: self.name(), ssts: reports })
    }

    /// Makes SlateDB decode the filters of an SST, and returns a report. The counts before and
    /// after show which policy SlateDB called. SlateDB decompresses and decrypts the filter block,
    /// and offers no other access to it.
    async fn look_at(
        &self,
        of_ranges: &Counters,
        reader: &DbReader,
        ssts: &SstReader,
        sst: &SsTableHandle,
    ) -> SstReport {
        let num_rows = match ssts.open_with_handle(sst.clone()) {
            Ok(file) => file.stats().await.ok().flatten().map(|stats| stats.num_rows()),
            Err(_) => None,
        };
        let before = (self.counts(), of_ranges.snapshot());
        let decoded = reader.warm_sst(sst.id, &[CacheTarget::Filters]).await.map_err(|error| error.to_string());
        let filter = found(&decoded, sst, before.0, self.counts());
        let ranges = self.has_ranges().then(|| found(&decoded, sst, before.1, of_ranges.snapshot()));
        SstReport { id: sst.id.value().to_string(), num_rows, filter_len_bytes: sst.info.filter_len, filter, ranges }
    }
}

/// Returns the state of the filter that SlateDB decoded for one policy, from the policy's counts
/// before and after.
fn found(decoded: &Result<(), String>, sst: &SsTableHandle, before: Counts, after: Counts) -> SstFilter {
    match decoded {
        Err(error) => SstFilter::Unreadable(error.clone()),
        Ok(()) if sst.info.filter_len == 0 => SstFilter::NoBlock,
        Ok(()) if after.opened > before.opened => SstFilter::Usable,
        Ok(()) if after.unusable() > before.unusable() => SstFilter::Unusable,
        Ok(()) if after.bloom_opened > before.bloom_opened => SstFilter::Bloom,
        Ok(()) => SstFilter::Other,
    }
}

/// A cache that keeps no entry, so that SlateDB decodes the filters of each SST.
struct NoCache;

#[async_trait]
impl DbCache for NoCache {
    async fn get_block(&self, _: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_index(&self, _: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_filter(&self, _: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_stats(&self, _: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn insert(&self, _: CachedKey, _: CachedEntry) {}

    async fn remove(&self, _: &CachedKey) {}

    fn entry_count(&self) -> u64 {
        0
    }
}
