//! Defines the parameters of a filter that is opened for one query. It takes no heap memory.

use std::ops::Bound;

use super::bumped_ribbon::Unread;
use super::filter::payload_of;
use super::header::Header;
use super::kernels::Kernel;
use super::range::{self, RangeHash, RangeKernel, is_empty_range, is_reversed_range};
use super::ribbon;
use super::{FilterKind, Params};
use crate::error::Result;
use crate::hash::{KeyHash, KeyHasher};
use crate::simd::Portable;
use crate::simd::ribbon::Layout;

/// The parameters of a filter in borrowed bytes. They answer like the [`Params`] of the same header.
#[derive(Debug, Clone)]
pub(crate) enum InlineParams<'a> {
    /// A filter whose parameters are a few numbers.
    Plain(Params, Kernel),
    Ribbon(Layout),
    /// A bumped ribbon. Each query parses the record of the layers, because the parsed layers may
    /// take more than a kilobyte. A query answers "maybe" if the geometry is invalid.
    BumpedRibbon(Unread<'a>),
    Range(range::Geometry),
}

impl<'a> InlineParams<'a> {
    /// Reads a header: see [`Params::new`]. For a bumped ribbon, this function checks nothing.
    #[inline]
    pub(crate) fn new(header: Header<'a>, num_keys: u64, len_bytes: u64) -> Result<Self> {
        let Header { kind, params, record } = &header;
        match kind {
            FilterKind::Ribbon => Ok(Self::Ribbon(ribbon::parse(*params, record, num_keys, len_bytes)?)),
            FilterKind::BumpedRibbon => Ok(Self::BumpedRibbon(Unread { header, num_keys, len_bytes })),
            FilterKind::Grafite => Ok(Self::Range(range::Geometry::parse(*params, record, num_keys, len_bytes)?)),
            _ => {
                let params = Params::new(&header, num_keys, len_bytes)?;
                let kernel = Kernel::of(&params);
                Ok(Self::Plain(params, kernel))
            }
        }
    }

    /// Returns `false` if no added key lies between the bounds, and `true` if one may. `padded`
    /// begins with the payload of `len` bytes. For a filter of keys, the answer is `true`, unless
    /// the range is empty or the filter is of the kind `empty`. It is `true` for a reversed range.
    pub(crate) fn may_contain_range(
        &self,
        hasher: &KeyHasher,
        padded: &[u8],
        len: usize,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> bool {
        match self {
            Self::Range(geometry) => {
                RangeKernel::detect().may_contain(geometry, &RangeHash::of(hasher), padded, len, lower, upper)
            }
            Self::Plain(Params::Empty(()), _) => is_reversed_range(lower, upper),
            Self::Plain(..) | Self::Ribbon(_) | Self::BumpedRibbon(_) => !is_empty_range(lower, upper),
        }
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    /// `padded` begins with the payload of `len` bytes; if `padded` is shorter, the answer is
    /// "maybe".
    #[inline]
    pub(crate) fn may_contain(&self, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        if padded.len() < len {
            return true;
        }
        match self {
            Self::Plain(params, kernel) => kernel.may_contain(params, padded, len, hash),
            Self::Ribbon(ribbon) => ribbon.holds(Portable, payload_of(padded, len), &ribbon.row(hash.raw())),
            Self::BumpedRibbon(unread) => unread.may_contain(padded, hash),
            // A range filter needs the bytes of the key: see `may_contain_range`.
            Self::Range(_) => true,
        }
    }
}
