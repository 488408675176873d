//! Defines the geometry of a filter: its parsed shape, checked against the payload's length.

use std::fmt;
use std::sync::Arc;

use super::binary_fuse::{self, BinaryFuse};
use super::blocked_bloom::{self, BlockedBloom};
use super::bloom::{self, Bloom};
use super::bumped_ribbon::{self, BumpedRibbon};
use super::constant::{AlwaysMaybe, Empty};
use super::contract::Kind;
use super::kind::FilterKind;
use super::math;
use super::range::{self, Grafite};
use super::ribbon::{self, Ribbon};
use super::shape::Shape;
use super::split_block::{self, Lanes, SplitBlock, SplitBlock512};
use crate::error::Result;

/// A parsed shape that fits its payload.
///
/// The enum is small, because every partition of an open filter has one. The geometries of the two
/// ribbons and of the range filter are larger, so they lie behind an `Arc`. Clones share them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Geometry {
    Empty,
    AlwaysMaybe,
    Bloom { probes: u32 },
    BlockedBloom { probes: u32 },
    SplitBlock { lanes: Lanes },
    Ribbon(Arc<ribbon::Geometry>),
    BumpedRibbon(Option<bumped_ribbon::Flat>, Arc<bumped_ribbon::Geometry>),
    BinaryFuse(binary_fuse::Geometry),
    Range(Arc<range::Geometry>),
}

/// Bounds the memory of an open partition. The memory must stay below the minimum size of a
/// partition on disk: 64 bytes and an index entry.
const _: () = assert!(size_of::<Geometry>() <= 24);

impl Geometry {
    /// Reads a shape and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`](crate::Error::Corrupt) that names the invalid field. The offset
    /// is 0, or an offset in the record of a ribbon.
    pub(crate) fn new(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self> {
        Ok(match shape.kind {
            FilterKind::Empty => {
                let () = Empty::parse(shape, num_keys, len_bytes)?;
                Self::Empty
            }
            FilterKind::AlwaysMaybe => {
                let () = AlwaysMaybe::parse(shape, num_keys, len_bytes)?;
                Self::AlwaysMaybe
            }
            FilterKind::Bloom => Self::Bloom { probes: Bloom::parse(shape, num_keys, len_bytes)? },
            FilterKind::BlockedBloom => Self::BlockedBloom { probes: BlockedBloom::parse(shape, num_keys, len_bytes)? },
            FilterKind::SplitBlock => Self::SplitBlock { lanes: SplitBlock::parse(shape, num_keys, len_bytes)? },
            FilterKind::SplitBlock512 => Self::SplitBlock { lanes: SplitBlock512::parse(shape, num_keys, len_bytes)? },
            FilterKind::Ribbon => Self::Ribbon(Arc::new(Ribbon::parse(shape, num_keys, len_bytes)?)),
            FilterKind::BumpedRibbon => Self::from_ribbon(BumpedRibbon::parse(shape, num_keys, len_bytes)?),
            FilterKind::BinaryFuse => Self::BinaryFuse(BinaryFuse::parse(shape, num_keys, len_bytes)?),
            FilterKind::Grafite => Self::Range(Arc::new(Grafite::parse(shape, num_keys, len_bytes)?)),
        })
    }

    pub(super) fn from_ribbon(ribbon: bumped_ribbon::Geometry) -> Self {
        Self::BumpedRibbon(ribbon.flat(), Arc::new(ribbon))
    }

    /// Returns the expected FPR: the share of absent keys for which the filter answers "maybe". For
    /// a range filter, it is an upper bound for ranges of the length that the filter is sized for.
    pub(crate) fn expected_fpr(&self, num_keys: u64, payload_len_bytes: u64) -> f64 {
        match *self {
            Self::Empty => 0.0,
            Self::AlwaysMaybe => 1.0,
            Self::Bloom { probes } => bloom::expected_fpr(num_keys, payload_len_bytes, probes),
            // The next two formulas include absent keys with the line and fold of a present key.
            // Absent keys with the hash of a present key are among them.
            Self::BlockedBloom { probes } => blocked_bloom::expected_fpr(num_keys, payload_len_bytes, probes),
            Self::SplitBlock { lanes } => split_block::expected_fpr(lanes, num_keys, payload_len_bytes),
            Self::BumpedRibbon(_, ref ribbon) => math::with_equal_hashes(ribbon.expected_fpr(), num_keys),
            Self::Ribbon(ref ribbon) => math::with_equal_hashes(ribbon.expected_fpr(), num_keys),
            Self::BinaryFuse(fuse) => math::with_equal_hashes(fuse.expected_fpr(), num_keys),
            Self::Range(ref range) => range.expected_fpr(),
        }
    }

    pub(crate) fn kind(&self) -> FilterKind {
        match self {
            Self::Empty => FilterKind::Empty,
            Self::AlwaysMaybe => FilterKind::AlwaysMaybe,
            Self::Bloom { .. } => FilterKind::Bloom,
            Self::BlockedBloom { .. } => FilterKind::BlockedBloom,
            Self::SplitBlock { lanes: Lanes::Narrow } => FilterKind::SplitBlock,
            Self::SplitBlock { lanes: Lanes::Wide } => FilterKind::SplitBlock512,
            Self::Ribbon(_) => FilterKind::Ribbon,
            Self::BumpedRibbon(..) => FilterKind::BumpedRibbon,
            Self::BinaryFuse(_) => FilterKind::BinaryFuse,
            Self::Range(_) => FilterKind::Grafite,
        }
    }

    /// Returns the maximum number of bits that a query tests. It is 0 for range filters and for
    /// filters without bits.
    pub(crate) fn probes(&self) -> u32 {
        match *self {
            Self::Empty | Self::AlwaysMaybe | Self::Range(_) => 0,
            Self::Bloom { probes } | Self::BlockedBloom { probes } => probes,
            Self::SplitBlock { .. } => math::LANES,
            Self::BumpedRibbon(_, ref ribbon) => ribbon.columns(),
            Self::Ribbon(ref ribbon) => ribbon.columns(),
            Self::BinaryFuse(fuse) => fuse.bits(),
        }
    }

    /// Returns whether a part of the geometry is in the extension.
    pub(crate) fn has_layers(&self) -> bool {
        match self {
            Self::Ribbon(_) | Self::Range(_) => true,
            Self::BumpedRibbon(_, ribbon) => ribbon.has_layers(),
            Self::Empty
            | Self::AlwaysMaybe
            | Self::Bloom { .. }
            | Self::BlockedBloom { .. }
            | Self::SplitBlock { .. }
            | Self::BinaryFuse(_) => false,
        }
    }

    /// Returns the geometry of a range filter, or `None` for any other kind.
    pub(crate) fn range(&self) -> Option<&range::Geometry> {
        match self {
            Self::Range(range) => Some(range),
            Self::Empty
            | Self::AlwaysMaybe
            | Self::Bloom { .. }
            | Self::BlockedBloom { .. }
            | Self::SplitBlock { .. }
            | Self::Ribbon(_)
            | Self::BumpedRibbon(..)
            | Self::BinaryFuse(_) => None,
        }
    }

    /// Estimates the number of distinct keys of a filter in which `set_bits` of `bits` bits are 1.
    /// Returns `None` for kinds whose bits give no estimate.
    pub(crate) fn estimated_keys(&self, set_bits: u64, bits: u64) -> Option<f64> {
        match *self {
            Self::Empty => Some(0.0),
            Self::Bloom { probes } | Self::BlockedBloom { probes } => {
                Some(math::estimated_keys(set_bits, bits, probes))
            }
            Self::SplitBlock { .. } => Some(math::estimated_keys(set_bits, bits, math::LANES)),
            Self::AlwaysMaybe | Self::Ribbon(_) | Self::BumpedRibbon(..) | Self::BinaryFuse(_) | Self::Range(_) => None,
        }
    }
}

/// Prints the parameters in one line of text.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ribbon(ribbon) => ribbon.fmt(f),
            Self::BumpedRibbon(_, ribbon) => ribbon.fmt(f),
            Self::BinaryFuse(fuse) => fuse.fmt(f),
            Self::Range(range) => range.fmt(f),
            Self::Empty
            | Self::AlwaysMaybe
            | Self::Bloom { .. }
            | Self::BlockedBloom { .. }
            | Self::SplitBlock { .. } => {
                let probes = self.probes();
                write!(
                    f,
                    "{probes} {} tested per query; the other parameters are reserved",
                    if probes == 1 { "bit" } else { "bits" }
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::shape::{Effort, Rounding};
    use super::*;
    use crate::FilterSpec;
    use crate::hash::KeyHash;

    #[test]
    fn geometries_print_their_parameters() {
        let geometry = |text: &str, keys: u64| {
            let mut state = 0u64;
            let mut next = || {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                KeyHash::from_raw((state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
            };
            let mut hashes: Vec<_> = (0..keys).map(|_| next()).collect();
            hashes.sort_unstable();
            let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
            let (shape, payload) = text.parse::<FilterSpec>().unwrap().encode(&mut hashes, effort).unwrap();
            Geometry::new(&shape, keys, payload.len() as u64).unwrap()
        };
        for (text, keys, expected) in [
            ("always-maybe", 9, "0 bits tested per query; the other parameters are reserved"),
            ("bloom:1", 9_000, "1 bit tested per query; the other parameters are reserved"),
            ("split-block:9", 9, "8 bits tested per query; the other parameters are reserved"),
            ("binary-fuse:12", 1_000, "segments of 128 slots, 12 bits per slot, seed 0; 1408 slots"),
            ("ribbon:7.3", 1_000, "columns: 8, seed 0; 8 blocks of 128 slots, 7 with one column less"),
            (
                "bumped-ribbon:7.3",
                300,
                "columns: 8; 304 slots in the single system, seed 0, 3 of 4 whole blocks with one column less",
            ),
            (
                "bumped-ribbon:7.3",
                12_000,
                "columns: 8; layer 0: 182 blocks of 64 slots, 137 with one column less; 392 slots in the single \
                 system, seed 2, 4 of 6 whole blocks with one column less",
            ),
        ] {
            assert_eq!(geometry(text, keys).to_string(), expected, "{text}, {keys} keys");
        }
        for (text, keys, has_layers) in [
            ("bloom:10", 9_000, false),
            ("binary-fuse:8", 9_000, false),
            ("ribbon:8", 1_000, true),
            ("bumped-ribbon:8", 300, false),
            ("bumped-ribbon:8", 12_000, true),
        ] {
            assert_eq!(geometry(text, keys).has_layers(), has_layers, "{text}, {keys} keys");
        }
    }
}
