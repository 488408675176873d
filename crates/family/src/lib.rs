//! The Bloom filters of the literature, in memory. Most of them accept new keys at any time, whereas a
//! filter block of the crate `filterblock` is written once.
//!
//! | Struct | Use it for |
//! |---|---|
//! | [`Bloom`] | keys that arrive one by one, from many threads; [`Bloom::freeze`] makes a filter block |
//! | [`Partitioned`] | keys that arrive one by one, in one thread; an FPR that can be computed exactly |
//! | [`Counting`] | sets with removals that are sent to others as a plain filter |
//! | [`DLeft`] | sets with removals, in half the memory of `Counting` |
//! | [`Spectral`] | how often each key was added |
//! | [`DynamicCounting`] | how often each key was added, if counts may become large and keys are removed |
//! | [`Scalable`] | sets whose final size is unknown |
//! | [`Bloomier`], [`MutableBloomier`] | a short value for each of a set of keys |
//! | [`Noisy`] | disclosing a set in steps; each step halves the FPR for the recipient |
//! | [`FileFilter`] | a filter that is kept in a file |
//! | [`Stable`] | duplicates in an endless stream; the only filter here that **may deny an added key** |
//!
//! Two [`Bloom`]s with the same shape and seed can be united, intersected and compared
//! ([`Comparison`]). Matching filter blocks can be united and compared ([`merge_blocks`],
//! [`compare_blocks`]). [`Bloom::compress`] packs a filter for transport. [`plan`] plans sizes and
//! false-positive rates (FPRs) before a filter is built.
//!
//! Each filter stores the seed under which it hashes keys. Most methods that take a key have a
//! counterpart with the suffix `_hash`, which takes the key's [`KeyHash`] under that seed.
//!
//! Constructors return [`Error::Invalid`] for an argument outside its bounds. A capacity must be above
//! 0. An FPR must be below 1 and, because hashes have 64 bits, at least about `capacity / 2^63`.
//! Constructors and methods that return a new filter return [`Error::TooLarge`] if it does not fit in
//! memory.
//!
//! Each module says how its filter works and when another filter is better. docs/VARIANTS.md compares
//! all of them.

pub mod algebra;
pub mod blocks;
pub mod bloom;
pub mod bloomier;
pub mod compressed;
mod counters;
pub mod counting;
pub mod d_left;
pub mod dynamic_counting;
mod error;
pub mod file_filter;
pub mod noisy;
mod packed;
pub mod partitioned;
pub mod plan;
pub mod replace;
mod retrieval;
pub mod scalable;
mod shape;
pub mod spectral;
pub mod stable;

pub use algebra::{Comparison, Estimate};
pub use blocks::{Difference, compare_blocks, differences, merge_blocks};
pub use bloom::Bloom;
pub use bloomier::{Bloomier, MutableBloomier};
pub use counting::{CounterBits, Counting};
pub use d_left::DLeft;
pub use dynamic_counting::DynamicCounting;
pub use error::{Error, Field, Result};
pub use file_filter::FileFilter;
pub use noisy::Noisy;
pub use partitioned::Partitioned;
pub use scalable::{Growth, Scalable};
pub use spectral::{Spectral, SpectralMode};
pub use stable::{Stable, StableShape};

use filterblock::{HashSeed, KeyHash};

/// A set that may answer "maybe" for a key that it does not hold.
pub trait Membership {
    /// Returns the seed under which keys are hashed.
    fn seed(&self) -> HashSeed;

    /// Returns whether the key may be present. `false` means that the key is certainly absent: it
    /// was never added, or it was removed. There are two exceptions. [`Stable`] forgets old keys.
    /// The removal of a key that was not added may also remove present keys; see [`Removable`].
    fn may_contain_hash(&self, hash: KeyHash) -> bool;

    /// Hashes the key under [`Membership::seed`] and calls [`Membership::may_contain_hash`].
    fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(KeyHash::of(key, self.seed()))
    }
}

/// A set from which keys can be removed.
///
/// Remove only keys that were added. An absent key that gets the answer "maybe" may share its cells
/// with present keys. If it is removed, the filter may deny those keys. The filter cannot detect
/// this mistake.
pub trait Removable: Membership {
    /// Removes one occurrence of a key, given by its hash. A saturated counter keeps its value, so
    /// the key may stay present.
    ///
    /// # Errors
    /// Returns [`Error::KeyAbsent`] if the key is certainly absent. A [`Spectral`] filter in the
    /// mode [`SpectralMode::MinimumIncrease`] returns [`Error::Invalid`] for every key. After an
    /// error, the filter is unchanged.
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()>;

    /// Hashes the key under [`Membership::seed`] and calls [`Removable::remove_hash`].
    ///
    /// # Errors
    /// Returns the errors of [`Removable::remove_hash`].
    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.remove_hash(KeyHash::of(key, self.seed()))
    }
}

/// A multiset that estimates the count of a key: how often the key was added, minus how often it
/// was removed.
pub trait Frequency: Membership {
    /// Returns an upper bound on the count of the key. Returns [`u64::MAX`] if saturated counters
    /// allow no better bound.
    fn estimate_hash(&self, hash: KeyHash) -> u64;

    /// Hashes the key under [`Membership::seed`] and calls [`Frequency::estimate_hash`].
    fn estimate(&self, key: &[u8]) -> u64 {
        self.estimate_hash(KeyHash::of(key, self.seed()))
    }
}
