//! Implements the filter policy of SurrealKV with filterblock.
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
//! cache. A partition that is damaged in the file never reaches the policy: SurrealKV answers
//! "maybe" and logs a warning. So the policy does not read all bytes at each query. It verifies
//! only the trailer ([`VerifiedFilter`](filterblock::VerifiedFilter)), which also identifies the
//! hasher. Damage of the payload after SurrealKV's check goes unnoticed and can deny present keys.
//!
//! SurrealKV does not tell the policy which SST file a filter belongs to. So a sound filter of
//! another SST file goes unnoticed and can deny present keys.

mod memo;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use filterblock::planning::Plan;
use filterblock::{Error, Expected, FilterOptions, FilterSpec, KeyHash, KeyHasher, Result, layout};
use surrealkv::FilterPolicy;

pub use filterblock_adapter::{Counters, Counts};

/// The name of the policy in SST files. It contains the version of the block format.
///
/// The name does not contain the kind of filter and the hasher, because each block states both. So
/// a policy with another [`FilterSpec`] and the same hasher reads the filters of existing SST
/// files.
pub const NAME: &str = "filterblock.v1";

/// The number of keys for which a policy plans the length of a filter.
const USUAL_KEYS: u64 = 16_384;

/// A filter policy for `TreeBuilder::with_filter_policy`.
#[derive(Debug, Clone)]
pub struct Policy {
    spec: FilterSpec,
    hasher: KeyHasher,
    /// The block of the always-maybe filter, which replaces a filter that could not be built.
    always_maybe: Vec<u8>,
    /// The planned length in bytes of a filter of [`USUAL_KEYS`] keys, with checksums and trailer.
    usual_len_bytes: u64,
    counters: Counters,
    /// The number of the policy and of its clones. Two policies that were made by [`Policy::new`]
    /// have different numbers.
    number: u64,
}

impl Policy {
    /// Makes a policy that builds filters of `spec` and hashes keys with `hasher`.
    ///
    /// Always open a store with the same hasher. With another hash function, seed or secret, the
    /// filters of existing SST files answer "maybe" until a compaction rewrites them.
    ///
    /// # Errors
    /// Returns an error if a filter of 16,384 keys cannot be planned, or if a filter of one hash
    /// cannot be built. A range filter is always an error.
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Result<Self> {
        let hasher = hasher.into();
        let plan = Plan::new(spec, USUAL_KEYS)?;
        let usual_len_bytes = layout::block_len_bytes(plan.payload_len_bytes(), plan.record_len_bytes())
            .ok_or(Error::TooLarge { what: "a filter" })?;
        let always_maybe = built(FilterSpec::ALWAYS_MAYBE, &hasher, &[KeyHash::from_raw(0)])?;
        // This build fails for a range filter, which needs the bytes of keys. SurrealKV passes only
        // hashes.
        built(spec, &hasher, &[KeyHash::from_raw(0)])?;
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        Ok(Self { spec, hasher, always_maybe, usual_len_bytes, counters: Counters::default(), number })
    }

    /// Returns a handle to the policy's counters. Call this method before you pass the policy to
    /// SurrealKV.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn build(&self, hashes: &[KeyHash]) -> Vec<u8> {
        self.counters.built(hashes.len(), built(self.spec, &self.hasher, hashes).ok(), &self.always_maybe)
    }
}

fn built(spec: FilterSpec, hasher: &KeyHasher, hashes: &[KeyHash]) -> Result<Vec<u8>> {
    let mut builder = FilterOptions::new(spec).builder(hasher)?;
    builder.add_hashes(hashes);
    Ok(builder.finish()?.bytes)
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        NAME
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        // A partition has at least one key, so a filter without keys is not the filter of a
        // partition. It does not open.
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
        self.build(&hashes)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.hasher.of(key).raw()
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        let hashes: Vec<KeyHash> = hashes.iter().map(|&hash| KeyHash::from_raw(hash)).collect();
        self.build(&hashes)
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        let keys = partition_bytes as u128 * u128::from(USUAL_KEYS) / u128::from(self.usual_len_bytes.max(1));
        usize::try_from(keys).unwrap_or(usize::MAX).max(1)
    }
}
