//! filterblock as the filter policy of SurrealKV.
//!
//! ```
//! use std::sync::Arc;
//!
//! use filterblock::HashSeed;
//! use filterblock_surrealkv::Policy;
//! use surrealkv::TreeBuilder;
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let runtime = tokio::runtime::Runtime::new().unwrap();
//! # let _inside = runtime.enter();
//! let policy = Policy::new("bumped-ribbon:7".parse()?, HashSeed(42))?;
//! let counters = policy.counters();
//! let tree = TreeBuilder::new().with_path(dir.path().into()).with_filter_policy(Some(Arc::new(policy))).build()?;
//! // After a while:
//! assert_eq!(counters.counts().unfiltered(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who verifies what
//!
//! SurrealKV verifies the CRC-32 of a filter partition when it reads the partition into its block
//! cache. A damaged partition never reaches the policy: SurrealKV answers "maybe" and logs a
//! warning. The policy therefore opens the bytes at each query without reading all of them
//! ([`VerifiedFilter`](filterblock::VerifiedFilter)), and verifies only the trailer, which also
//! identifies the hasher.
//!
//! SurrealKV does not tell the policy which SST file a filter belongs to. A sound filter of another
//! SST file cannot be detected and denies keys.

mod counters;
mod memo;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use filterblock::planning::Plan;
use filterblock::{Error, Expected, FilterBuilder, FilterSpec, KeyHash, KeyHasher, Result, layout};
use surrealkv::FilterPolicy;

pub use counters::{Counters, Counts};

/// The name of the policy in SST files. It has the version of the block format.
///
/// The name has neither the kind of filter nor the hasher, because each block states both. So a
/// policy of another [`FilterSpec`] reads the filters of all existing SST files.
pub const NAME: &str = "filterblock.v1";

/// Number of keys for which a policy computes the length of its filters.
const USUAL_KEYS: u64 = 16_384;

/// A filter policy for `TreeBuilder::with_filter_policy`.
#[derive(Debug, Clone)]
pub struct Policy {
    spec: FilterSpec,
    hasher: KeyHasher,
    /// The block of the always-maybe filter, for builds that fail.
    always_maybe: Vec<u8>,
    /// The length of a filter of [`USUAL_KEYS`], with checksums and trailer.
    usual_len_bytes: u64,
    counters: Counters,
    /// A number that no policy with another hasher has.
    number: u64,
}

impl Policy {
    /// Makes a policy that builds filters of `spec` and hashes keys with `hasher`.
    ///
    /// Keep the hasher of a database: under another seed or secret, the filters of existing SST
    /// files answer "maybe" until a compaction rewrites them.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::new`] for a filter of 16,384 keys, and [`Error::Invalid`] if the
    /// kind cannot be built from hashes.
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Result<Self> {
        let hasher = hasher.into();
        let plan = Plan::new(spec, USUAL_KEYS)?;
        let usual_len_bytes = layout::block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes())
            .ok_or(Error::TooLarge { what: "a filter" })?;
        let always_maybe = FilterBuilder::new("always-maybe".parse()?, &hasher).finish_with(&[KeyHash::from_raw(0)])?;
        // A range filter needs the bytes of keys, and SurrealKV gives hashes.
        FilterBuilder::new(spec, &hasher).finish_with(&[KeyHash::from_raw(0)])?;
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        Ok(Self { spec, hasher, always_maybe, usual_len_bytes, counters: Counters::default(), number })
    }

    /// Returns a handle to the policy's counters. Take it before SurrealKV takes the policy.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn build(&self, builder: FilterBuilder, hashes: &[KeyHash]) -> Vec<u8> {
        match builder.finish_with(hashes) {
            Ok(block) => {
                self.counters.add_built(hashes.len(), block.len());
                block
            }
            // The trait has no errors. An SST file without a filter loses no key, only time.
            Err(_) => {
                self.counters.add_failed_build();
                self.always_maybe.clone()
            }
        }
    }
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        NAME
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        // A partition holds at least one key, so a filter of no keys belongs to another partition.
        let expected = Expected::of_any_table(&self.hasher).with_num_entries(u64::MAX);
        match memo::ask(filter, self.number, &expected, self.hasher.of(key)) {
            Ok(answer) => answer,
            Err(error) => {
                self.counters.add_unfiltered(&error);
                true
            }
        }
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.hasher.of(key)).collect();
        self.build(FilterBuilder::new(self.spec, &self.hasher), &hashes)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.hasher.of(key).raw()
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        let hashes: Vec<KeyHash> = hashes.iter().map(|&hash| KeyHash::from_raw(hash)).collect();
        self.build(FilterBuilder::new(self.spec, &self.hasher), &hashes)
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        let keys = partition_bytes as u128 * u128::from(USUAL_KEYS) / u128::from(self.usual_len_bytes.max(1));
        usize::try_from(keys).unwrap_or(usize::MAX).max(1)
    }
}
