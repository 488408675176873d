//! In-memory filters of the Bloom family that accept changes. A filter block, in contrast, is
//! written once.
//!
//! | Struct | Use it for |
//! |---|---|
//! | [`Bloom`] | keys that arrive one by one, from many threads; [`Bloom::freeze`] makes a filter block |
//! | [`Partitioned`] | keys that arrive one by one, in one thread; the stages of `Scalable` are such filters |
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
//! ([`Comparison`]). The same works for filter blocks ([`merge_blocks`], [`compare_blocks`]).
//! [`Bloom::compress`] packs a filter for transport.
//!
//! Each struct holds the seed for hashing keys. Most methods that take a key have a twin with the
//! suffix `_hash`, which takes the key's [`KeyHash`] under that seed. Each module says how its
//! filter works and when another filter is better. docs/VARIANTS.md compares all of them.

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
pub mod partitioned;
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

use crate::hash::{HashSeed, KeyHash};

/// A set that may answer "maybe" for a key that it does not hold.
pub trait Membership {
    /// Returns the seed under which keys are hashed.
    fn seed(&self) -> HashSeed;

    /// Returns `false` if the key was certainly not added or was removed, and `true` if it may be
    /// present. Only [`Stable`] may also return `false` for an added key.
    fn may_contain_hash(&self, hash: KeyHash) -> bool;

    /// Hashes the key under [`Membership::seed`] and calls [`Membership::may_contain_hash`].
    fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(KeyHash::of(key, self.seed()))
    }
}

/// A set from which keys can be removed.
///
/// Remove only keys that were added. An absent key that gets the answer "maybe" shares its cells
/// with present keys. If it is removed, the filter may deny those keys. The filter cannot detect
/// this mistake. It only refuses keys that are certainly absent.
pub trait Removable: Membership {
    /// Takes back one insertion of a key, given by its hash.
    ///
    /// # Errors
    /// Returns [`Error::KeyAbsent`] if the key is certainly absent. The filter is then unchanged.
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()>;

    /// Takes back one insertion of a key.
    ///
    /// # Errors
    /// Returns the errors of [`Removable::remove_hash`].
    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.remove_hash(KeyHash::of(key, self.seed()))
    }
}

/// A multiset that estimates how often it holds a key.
pub trait Frequency: Membership {
    /// Returns an upper bound of the number of times that the key is present, or [`u64::MAX`] if a
    /// full counter allows no bound.
    fn estimate_hash(&self, hash: KeyHash) -> u64;

    /// Hashes the key under [`Membership::seed`] and calls [`Frequency::estimate_hash`].
    fn estimate(&self, key: &[u8]) -> u64 {
        self.estimate_hash(KeyHash::of(key, self.seed()))
    }
}
