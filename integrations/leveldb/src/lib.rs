//! filterblock as the filter policy of rusty-leveldb and of the crate `sstable`.
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
//! These engines build one filter for each 2 KiB of a file, of some 30 to 150 keys. They read all
//! filters of a file without verifying their checksum. So each filter is a compact form
//! ([`filterblock::compact`]), and each query verifies its CRC-32. A damaged filter answers "maybe",
//! and [`Counters`] counts it. The engines' own filters deny keys instead.
//!
//! The engines do not tell the policy which file and block a filter belongs to. An undamaged filter
//! of another block cannot be detected and denies keys. The engines find a filter by a list of
//! offsets behind the filters, which no checksum protects either: see the README.

mod counters;
#[cfg(feature = "rusty-leveldb")]
mod rusty_leveldb;
#[cfg(feature = "sstable")]
mod sstable;

use filterblock::{Answer, FilterBuilder, FilterSpec, KeyHash, KeyHasher, Result, compact};

pub use counters::{Counters, Counts};

/// The name of the policy in SST files. It has the version of the compact form.
///
/// The name must sort before `leveldb.BuiltinBloomFilter2`. rusty-leveldb and `sstable` take the
/// filter with this name **or the next one**. So a policy with an earlier name gets the bytes of an
/// engine's Bloom filter, and refuses them by their checksum. With a later name, the engine's Bloom
/// filter would get our bytes, and would deny keys.
pub const NAME: &str = "filterblock.compact.v1";

/// A filter policy for engines with a filter for every 2 KiB of data.
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
    /// Keep the hasher of a database: under another seed or secret, existing filters answer "maybe"
    /// until a compaction rewrites them.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`](filterblock::Error::Invalid) if the kind has no compact form. The
    /// kinds `bloom` and `blocked-bloom` have one.
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Result<Self> {
        let hasher = hasher.into();
        let build_one = |spec| {
            let mut builder = FilterBuilder::new(spec, &hasher);
            builder.add_hash(KeyHash::from_raw(0));
            builder.finish_compact()
        };
        build_one(spec)?;
        let always_maybe = build_one("always-maybe".parse()?)?;
        Ok(Self { spec, hasher, always_maybe, counters: Counters::default() })
    }

    /// Returns a handle to the policy's counters. Take it before an engine takes the policy.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Builds a filter. Key `i` begins at `offsets[i]` of `keys` and ends where the next one begins.
    /// The filter never has zero bytes: an empty filter would panic the reader of rusty-leveldb.
    fn build(&self, keys: &[u8], offsets: &[usize]) -> Vec<u8> {
        let mut builder = FilterBuilder::new(self.spec, &self.hasher);
        builder.reserve(offsets.len());
        let ends = offsets.iter().copied().skip(1).chain([keys.len()]);
        let mut ranges = offsets.iter().zip(ends).map(|(&start, end)| keys.get(start..end));
        let built = match ranges.all(|key| key.map(|key| builder.add(key)).is_some()) {
            true => builder.finish_compact().ok(),
            // A filter without one of the keys would deny it.
            false => None,
        };
        match built {
            Some(filter) => {
                self.counters.add_built(offsets.len(), filter.len());
                filter
            }
            // The traits have no errors. A block without a filter loses no key, only time.
            None => {
                self.counters.add_failed_build();
                self.always_maybe.clone()
            }
        }
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
