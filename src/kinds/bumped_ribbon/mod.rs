//! The bumped ribbon filter: about one per cent above the least space that a filter of its rate can have, at the
//! price of two adjacent cache lines a query.
//!
//! ```text
//! hash ──reduce, clamp──▶ start s          sorted hashes are sorted starts, so a build reads its keys in order
//!      ──coefficients───▶ 64 bits c        which of the 64 slots from s on take part
//!      ──fingerprint────▶ r bits f         what they must add up to:  XOR of slot[s + j] over the set bits j of c = f
//! ```
//! A slot has `r` bits, so an absent key's equation holds with probability `2^-r`. Finding the slots is solving one
//! linear equation a key over GF(2) (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021).
//! There are fewer slots than keys, so that hardly one stays unused; keys whose equation contradicts the others are
//! *bumped* to a smaller layer of the same make, with all keys whose start is not above theirs in a few classes of
//! their bucket of 128 starts; two bits a bucket tell the reader (Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast
//! succinct retrieval and approximate membership using ribbon", 2022). What the last layer of that kind bumps goes into
//! a single system with one slot in a hundred to spare ([`small`]), and so does a filter of few keys as a whole.
//!
//! ```text
//! payload  | columns 0..8 of layer 0 | of layer 1 | .. | of the last | bumps of layer 0 | 1 | .. | columns 8..16 of layer 0 | ..
//! columns  | block 0: one word of 64 slots for each column | block 1 | ..
//! ```
//! A block of eight columns is a cache line. Columns come in groups of eight, stored group after group: a negative
//! query reads the second group once in 256 times, and a reader may leave it alone altogether ([`Columns::First`]).
//! Blocks below `fewer` have one column less in the last group, which gives rates between the powers of two.

mod band;
mod batch;
mod build;
mod equation;
mod hashes;
#[cfg(test)]
mod hashes_tests;
mod inline;
mod layer;
mod plan;
mod queries;
mod read;
mod small;
mod solve;
#[cfg(test)]
mod tests;

pub(super) use inline::Unread;
pub(super) use read::{Geometry, Plain};

use super::contract::{Budget, Budgets, Built, Kind, Planned, TOO_LARGE_FOR_MEMORY};
use super::shape::{Effort, Shape};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::KeyHash;

/// See [`FilterKind::BumpedRibbon`](crate::FilterKind::BumpedRibbon).
pub(super) struct BumpedRibbon;

impl Kind for BumpedRibbon {
    type Geometry = Geometry;
    const BUDGETS: Budgets = Budgets::ALL;
    const LOWEST_RATE: &'static str =
        "the lowest rate of a ribbon is 2.4e-10, that of 32 columns; use bloom (2.8e-11 at the lowest)";
    const HAS_COMPACT: bool = true;

    /// A column halves the rate; there are no more than 32, whatever the budget.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        plan::planned(budget, num_keys).ok_or(TOO_LARGE_FOR_MEMORY)
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        build::build(budget, hashes, effort)
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Geometry> {
        Geometry::new(shape, num_keys, len_bytes)
    }
}

/// Slots whose bits of one column make up a word.
const BLOCK_SLOTS: usize = 64;
/// Columns of a group.
const GROUP_COLUMNS: u32 = 8;
/// Most columns: as many as the fingerprint has bits.
const MAX_COLUMNS: u32 = 32;
/// Starts that share a threshold below which keys were bumped.
const BUCKET_STARTS: usize = 128;
/// Starts beyond the first and the last that are counted as those: without them the slots at both ends, which fewer keys
/// reach, stay empty (19 of the last 64). Of 4,096 keys, 0.33 % stay empty in place of 0.67 %.
const LEFT: u64 = 24;
const RIGHT: u64 = 16;
/// `THRESHOLDS[b]`: where a bucket's two bits are `b`, keys are bumped whose start is so little above the bucket's first.
///
/// Keys with small starts go first, because what an overfull bucket to the left pushes over fills those slots.
const THRESHOLDS: [u8; 4] = [128, 34, 15, 0];
const _: () = assert!(THRESHOLDS[0] as usize == BUCKET_STARTS, "0 bumps the whole bucket");

/// Which columns a query may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Columns {
    /// All: the filter's own rate.
    All,
    /// The first eight, for readers short of memory: a rate of at best 1/256, and the rest of the payload is not
    /// touched.
    First,
}
