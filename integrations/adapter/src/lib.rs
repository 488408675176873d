//! Counts the filters that a policy built, and the queries that no usable filter answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use filterblock::Error;

/// A handle to the counters of a policy. Clones of the handle and of the policy share the counters.
///
/// A query that a usable filter answers is not counted.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    built_filters: AtomicU64,
    built_keys: AtomicU64,
    built_bytes: AtomicU64,
    failed_builds: AtomicU64,
    damaged: AtomicU64,
    unsupported: AtomicU64,
    other_hasher: AtomicU64,
}

/// The values of [`Counters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of filters that were built.
    pub built_filters: u64,
    /// The number of keys in the filters that were built. A key with several versions counts once
    /// for each version.
    pub built_keys: u64,
    /// The total length in bytes of the filters that were built.
    pub built_bytes: u64,
    /// The number of filters that could not be built. An always-maybe filter replaces each one.
    pub failed_builds: u64,
    /// The number of queries that were answered "maybe" because the filter is damaged, or cannot be
    /// used for a reason that no other field counts.
    pub damaged: u64,
    /// The number of queries that were answered "maybe" because a newer version of filterblock
    /// wrote the filter.
    pub unsupported: u64,
    /// The number of queries that were answered "maybe" because the filter has another seed, hash
    /// function or secret than the policy. The compact form of LevelDB does not state its hasher,
    /// so such a filter counts in `damaged`.
    pub other_hasher: u64,
}

impl Counts {
    /// Returns the number of queries that were answered "maybe" because their filter was not
    /// usable.
    #[must_use]
    pub fn unfiltered(&self) -> u64 {
        self.damaged + self.unsupported + self.other_hasher
    }
}

impl Counters {
    /// Returns the current values.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let cells = &*self.0;
        Counts {
            built_filters: cells.built_filters.load(Relaxed),
            built_keys: cells.built_keys.load(Relaxed),
            built_bytes: cells.built_bytes.load(Relaxed),
            failed_builds: cells.failed_builds.load(Relaxed),
            damaged: cells.damaged.load(Relaxed),
            unsupported: cells.unsupported.load(Relaxed),
            other_hasher: cells.other_hasher.load(Relaxed),
        }
    }

    /// Counts the build of a filter of `keys` keys. Returns the filter, or `always_maybe` if the
    /// build failed. The engines' traits cannot return an error. The always-maybe filter costs
    /// reads, but never denies a key.
    #[must_use]
    pub fn built(&self, keys: usize, filter: Option<Vec<u8>>, always_maybe: &[u8]) -> Vec<u8> {
        let Some(filter) = filter else {
            self.0.failed_builds.fetch_add(1, Relaxed);
            return always_maybe.to_vec();
        };
        self.0.built_filters.fetch_add(1, Relaxed);
        self.0.built_keys.fetch_add(keys as u64, Relaxed);
        self.0.built_bytes.fetch_add(filter.len() as u64, Relaxed);
        filter
    }

    /// Counts a query whose filter cannot be used because of `error`.
    #[cold]
    pub fn add_unfiltered(&self, error: &Error) {
        let cell = if error.is_unsupported() {
            &self.0.unsupported
        } else if error.is_secret_mismatch() {
            &self.0.other_hasher
        } else {
            &self.0.damaged
        };
        cell.fetch_add(1, Relaxed);
    }
}
