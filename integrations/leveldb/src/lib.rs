//! Implements the filter policy of rusty-leveldb and of the crate `sstable` with filterblock.
//!
//! ```
//! # #[cfg(feature = "rusty-leveldb")] {
//! use filterblock::HashSeed;
//! use filterblock_leveldb::Policy;
//! use rusty_leveldb::{DB, Options};
//!
//! # let dir = tempfile::tempdir()?;
//! let policy = Policy::new("bloom:10".parse()?, HashSeed(42))?;
//! let counters = policy.counters();
//! let options = Options { filter_policy: policy.for_rusty_leveldb(), ..Options::default() };
//! let mut db = DB::open(dir.path(), options)?;
//! db.put(b"apple", b"red")?;
//! assert_eq!(db.get(b"apple").as_deref(), Some(&b"red"[..]));
//! // After a while:
//! assert_eq!(counters.counts().unfiltered(), 0);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who verifies what
//!
//! These engines build one filter for each 2 KiB of a file. The filter has the keys of the data
//! blocks that begin there. The engines read all filters of a file without verifying a checksum. So
//! each filter has the compact form ([`filterblock::compact`]), and each query verifies its CRC-32.
//! A damaged filter answers "maybe", and [`Counters`] counts the query.
//!
//! The engines do not tell the policy which file and block a filter belongs to. So a sound filter
//! of another block goes unnoticed and can deny present keys. The engines find a filter by a list
//! of offsets after the filters. They verify no checksum of this list either: see the README.

#[cfg(feature = "rusty-leveldb")]
mod rusty_leveldb;
#[cfg(feature = "sstable")]
mod sstable;

use filterblock::{Answer, FilterOptions, FilterSpec, KeyHash, KeyHasher, Result, compact};

pub use filterblock_adapter::{Counters, Counts};

/// The name of the policy in SST files. It contains the version of the compact form.
///
/// The name must sort before `leveldb.BuiltinBloomFilter2`. If a file has no filter with the name
/// of the policy, rusty-leveldb and `sstable` use the filter **with the next name**. So this policy
/// may get the bytes of an engine's Bloom filter, and answers "maybe" because their checksum is
/// wrong. If the name sorted later, the engine's Bloom policy could get our bytes and deny present
/// keys.
pub const NAME: &str = "filterblock.compact.v1";

/// A filter policy for engines that build a filter for each 2 KiB of a file.
#[derive(Debug, Clone)]
pub struct Policy {
    spec: FilterSpec,
    hasher: KeyHasher,
    /// The always-maybe filter, for builds that fail.
    always_maybe: Vec<u8>,
    counters: Counters,
}

impl Policy {
    /// Makes a policy that builds filters of `spec` and hashes keys with `hasher`.
    ///
    /// Always open a database with the same hasher. With another hash function, seed or secret,
    /// existing filters answer "maybe" until a compaction rewrites them.
    ///
    /// # Errors
    /// Returns an error if a filter of one key cannot be built. Only the kinds `bloom`,
    /// `blocked-bloom` and `always-maybe` have a compact form.
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Result<Self> {
        let hasher = hasher.into();
        let build_one = |spec| {
            let mut builder = FilterOptions::new(spec).builder(&hasher)?;
            builder.add_hash(KeyHash::from_raw(0));
            builder.finish_compact()
        };
        build_one(spec)?;
        let always_maybe = build_one(FilterSpec::ALWAYS_MAYBE)?;
        Ok(Self { spec, hasher, always_maybe, counters: Counters::default() })
    }

    /// Returns a handle to the policy's counters. Call this method before you pass the policy to an
    /// engine.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Builds a filter. Key `i` begins at `offsets[i]` in `keys` and ends where the next key
    /// begins. The last key ends at the end of `keys`. The filter is never 0 bytes long, because
    /// rusty-leveldb would panic when it reads such a filter. If the build fails, returns the
    /// always-maybe filter.
    fn build(&self, keys: &[u8], offsets: &[usize]) -> Vec<u8> {
        let build = || {
            let mut builder = FilterOptions::new(self.spec).builder(&self.hasher).ok()?;
            builder.reserve(offsets.len());
            let ends = offsets.iter().copied().skip(1).chain([keys.len()]);
            for (&start, end) in offsets.iter().zip(ends) {
                // If an offset is out of range, or below the offset before it, a filter without the
                // key at this offset would deny the key.
                builder.add(self.hasher.key(keys.get(start..end)?));
            }
            builder.finish_compact().ok()
        };
        self.counters.built(offsets.len(), build(), &self.always_maybe)
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        match compact::ask(filter, &self.hasher, self.hasher.of(key)) {
            Answer::No => false,
            Answer::Maybe => true,
            Answer::Unfiltered => {
                self.count_unfiltered(filter);
                true
            }
        }
    }

    #[cold]
    fn count_unfiltered(&self, filter: &[u8]) {
        if let Err(error) = compact::check(filter, &self.hasher) {
            self.counters.add_unfiltered(&error);
        }
    }
}
