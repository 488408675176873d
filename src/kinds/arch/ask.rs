//! One query as a pointer to the kernel that answers it, so that it is a single call: nothing is decided in each query
//! that was known when the filter was opened.
//!
//! A match over kinds and instruction sets in front of each call, with the loop around it, was 29 % of the samples of a
//! blocked Bloom query (10,000 keys, AVX-512).
#![expect(unsafe_code, reason = "the pointer leads to functions that need a processor feature")]

use super::super::binary_fuse::Width;
use super::super::blocked_bloom::{self, line_within};
use super::super::bumped_ribbon::Portable;
use super::super::guard::Checked;
use super::super::split_block::{Lanes, narrow_all_set, wide_all_set};
use super::super::{Geometry, bloom};
use super::{Isa, kernel};
use crate::hash::KeyHash;

/// Answers for one key: the geometry, the payload and what lies behind it, the payload's length, the hash. The answer for a
/// geometry of another kind than the kernel's is "maybe".
pub(super) type Kernel = unsafe fn(&Geometry, &[u8], usize, KeyHash) -> bool;

/// The kernel for a geometry on this processor, over payloads that are known to be sound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask(Kernel);

impl Ask {
    pub(crate) fn new(geometry: &Geometry, isa: Isa) -> Self {
        Self(kernel(isa, geometry).unwrap_or_else(|| portable(geometry)))
    }

    #[inline(always)]
    pub(crate) fn may_contain(self, geometry: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        // SAFETY: every kernel is safe but for the features it needs. Those in the pointer are portable or came from a
        // level's proof that the processor has the features; what they are passed is theirs to check.
        unsafe { (self.0)(geometry, padded, len, hash) }
    }
}

fn payload_of(padded: &[u8], len: usize) -> &[u8] {
    padded.get(..len).unwrap_or_default()
}

/// Of the kinds that a level has no kernel for, and of all where there is no level.
fn portable(geometry: &Geometry) -> Kernel {
    match geometry {
        Geometry::Empty => |geometry, _, _, _| !matches!(geometry, Geometry::Empty),
        Geometry::Full => |_, _, _, _| true,
        Geometry::Bloom { .. } => |geometry, padded, len, hash| {
            let Geometry::Bloom { probes } = *geometry else { return true };
            bloom::may_contain(payload_of(padded, len), probes, hash, &Checked)
        },
        Geometry::BlockedBloom { .. } => |geometry, padded, len, hash| {
            let Geometry::BlockedBloom { probes } = *geometry else { return true };
            line_within(padded, len, hash).is_none_or(|line| blocked_bloom::all_set(line, probes, hash))
        },
        Geometry::SplitBlock { lanes: Lanes::Narrow } => {
            |_, padded, len, hash| line_within(padded, len, hash).is_none_or(|block| narrow_all_set(block, hash))
        }
        Geometry::SplitBlock { lanes: Lanes::Wide } => {
            |_, padded, len, hash| line_within(padded, len, hash).is_none_or(|block| wide_all_set(block, hash))
        }
        Geometry::Ribbon(_) => |geometry, padded, len, hash| {
            let Geometry::Ribbon(ribbon) = geometry else { return true };
            ribbon.may_contain(Isa::detect(), payload_of(padded, len), hash, &Checked)
        },
        Geometry::BumpedRibbon(..) => |geometry, padded, _, hash| {
            let Geometry::BumpedRibbon(_, ribbon) = geometry else { return true };
            ribbon.ask(Portable, padded, hash, ribbon.groups())
        },
        Geometry::BinaryFuse(fuse) => match fuse.width() {
            Width::Eight => fuse_kernel::<8>,
            Width::Twelve => fuse_kernel::<12>,
            Width::Sixteen => fuse_kernel::<16>,
        },
    }
}

fn fuse_kernel<const BITS: u32>(geometry: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
    let Geometry::BinaryFuse(fuse) = geometry else { return true };
    fuse.fits::<BITS>(payload_of(padded, len), hash)
}

/// The kernels of a level, by its proof of that name, in a file with functions `line`, `narrow` and `wide` for the features
/// named.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! kernels {
    ($proof:ident, $features:literal) => {
        impl $proof {
            /// The kernel for a geometry, if this level has one.
            pub(super) fn kernel(self, geometry: &Geometry) -> Option<Kernel> {
                match geometry {
                    Geometry::BlockedBloom { .. } => Some(line_kernel),
                    Geometry::SplitBlock { lanes: Lanes::Narrow } => Some(narrow_kernel),
                    Geometry::SplitBlock { lanes: Lanes::Wide } => Some(wide_kernel),
                    Geometry::BumpedRibbon(Some(_), _) => Some(plain_ribbon_kernel),
                    Geometry::BumpedRibbon(None, _) => Some(ribbon_kernel),
                    Geometry::Empty
                    | Geometry::Full
                    | Geometry::Bloom { .. }
                    | Geometry::Ribbon(_)
                    | Geometry::BinaryFuse(_) => None,
                }
            }
        }

        // The number of probes as a constant would save five of thirty instructions, and no time.
        #[target_feature(enable = $features)]
        fn line_kernel(geometry: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
            let Geometry::BlockedBloom { probes } = *geometry else { return true };
            line_within(padded, len, hash).is_none_or(|bytes| line(bytes, probes, hash))
        }

        #[target_feature(enable = $features)]
        fn narrow_kernel(_: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
            line_within(padded, len, hash).is_none_or(|block| narrow(block, hash))
        }

        #[target_feature(enable = $features)]
        fn wide_kernel(_: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
            line_within(padded, len, hash).is_none_or(|block| wide(block, hash))
        }

        /// Within these functions the features are there: that is what their pointers are given out for.
        #[target_feature(enable = $features)]
        fn plain_ribbon_kernel(geometry: &Geometry, padded: &[u8], _: usize, hash: KeyHash) -> bool {
            let Geometry::BumpedRibbon(Some(plain), ribbon) = geometry else { return true };
            plain.ask(ribbon, $proof(()), padded, hash)
        }

        #[target_feature(enable = $features)]
        fn ribbon_kernel(geometry: &Geometry, padded: &[u8], _: usize, hash: KeyHash) -> bool {
            let Geometry::BumpedRibbon(_, ribbon) = geometry else { return true };
            ribbon.ask($proof(()), padded, hash, ribbon.groups())
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use kernels;
