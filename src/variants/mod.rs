//! The Bloom family in memory, open to changes: what a filter block, which is written once, cannot do.
//!
//! | Struct | For |
//! |---|---|
//! | [`Bloom`] | keys that come one by one, from many threads; [`Bloom::freeze`] makes a filter block of it |
//! | [`Partitioned`] | the same with one bit of a key in each of `k` slices |
//! | [`Counting`] | keys that are removed again; sent to others as a plain filter |
//! | [`DLeft`] | keys that are removed again, in half the memory |
//! | [`Spectral`] | how often a key is there |
//! | [`DynamicCounting`] | the same, for counts of unknown size and with removals |
//! | [`Scalable`] | a number of keys that nobody knows |
//! | [`Bloomier`], [`MutableBloomier`] | a short value for each of a set of keys |
//! | [`Noisy`] | a set shown to others in steps, each of which halves what they do not know |
//! | [`FileFilter`] | a filter that is kept in a file |
//! | [`Stable`] | duplicates in an endless stream; the only one that **may deny a key** |
//!
//! Two [`Bloom`]s of one shape are united, intersected and compared ([`Comparison`]), and so are filter blocks
//! ([`merge_blocks`], [`compare_blocks`]); [`Bloom::compress`] packs one for transport.
//!
//! Each struct holds the seed under which it hashes keys, and every method that takes a key has a twin that takes its
//! [`KeyHash`] under that seed. Each has a module that says how it works, and when another is better; docs/VARIANTS.md compares
//! them.

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

/// A set that may say "maybe" of a key that it does not have.
pub trait Membership {
    /// The seed under which keys are hashed.
    fn seed(&self) -> HashSeed;

    /// `false` if the key was certainly not added, or was removed; `true` if it may be there.
    fn may_contain_hash(&self, hash: KeyHash) -> bool;

    /// As [`Membership::may_contain_hash`].
    fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(KeyHash::of(key, self.seed()))
    }
}

/// A set from which keys can be removed.
///
/// Remove only what was added: a key that was not, but is answered "maybe", shares its cells with others, and removing it
/// would take them along. Only its caller can know; what is certainly absent is refused.
pub trait Removable: Membership {
    /// Takes back one insertion of the key.
    ///
    /// # Errors
    /// [`Error::KeyAbsent`] when the key is certainly not there; nothing is changed.
    fn remove_hash(&mut self, hash: KeyHash) -> Result<()>;

    /// As [`Removable::remove_hash`].
    ///
    /// # Errors
    /// As [`Removable::remove_hash`].
    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.remove_hash(KeyHash::of(key, self.seed()))
    }
}

/// A multiset that says how often it has a key.
pub trait Frequency: Membership {
    /// How often the key is there at most; [`u64::MAX`] where a counter is full and there is no saying.
    fn estimate_hash(&self, hash: KeyHash) -> u64;

    /// As [`Frequency::estimate_hash`].
    fn estimate(&self, key: &[u8]) -> u64 {
        self.estimate_hash(KeyHash::of(key, self.seed()))
    }
}
