//! Holds the filter of one SST in any state: ready, degraded or absent. Only a ready filter can
//! answer that a key is not in the SST.

use std::ops::Bound;

use super::reader::FilterBlock;
use crate::error::Error;
use crate::hash::KeyHash;

/// A filter's answer to one of three questions: may its SST hold this key, a key with this prefix,
/// or a key in this range?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// No such key is in the SST.
    No,
    /// Such a key may be in the SST.
    Maybe,
    /// No usable filter was asked, so such a key may be in the SST. Count these answers separately:
    /// each one costs a read that a usable filter might have saved.
    Unfiltered,
}

impl Answer {
    /// Returns whether the host must read the SST. The result is `false` only for [`Answer::No`].
    #[must_use]
    #[inline]
    pub fn may_contain(self) -> bool {
        self != Self::No
    }
}

impl From<bool> for Answer {
    /// Converts the answer of a usable filter.
    #[inline]
    fn from(may_contain: bool) -> Self {
        if may_contain { Self::Maybe } else { Self::No }
    }
}

/// The filter of an SST in any state: usable, unusable or missing. Only [`TableFilter::Ready`]
/// ever answers [`Answer::No`].
///
/// A host makes a `TableFilter` from the result of [`FilterBlock::open`]. If opening failed, the
/// host logs the [`reason`](Self::reason) once and reads the SST without a filter. `E` is the
/// host's own error type, if [`Error`] does not suffice.
///
/// ```
/// use filterblock::{Answer, Expected, FilterBlock, HashSeed, KeyHasher, TableFilter, Verify};
///
/// let hasher = KeyHasher::xxh3(HashSeed(1));
/// let expected = Expected::of_table(*b"table 0000000012", &hasher);
/// let damaged = [0; 100];
/// let filter = TableFilter::from(FilterBlock::open(&damaged, &expected, Verify::AtOpen));
/// assert!(matches!(filter, TableFilter::Degraded(_)));
/// assert_eq!(filter.ask(b"apple"), Answer::Unfiltered);
/// assert!(filter.may_contain(b"apple"));
/// ```
#[derive(Debug)]
pub enum TableFilter<D, E = Error> {
    /// The SST has a filter, and the filter meets the host's expectations.
    Ready(FilterBlock<D>),
    /// The SST has a filter that cannot be used, for this reason. Every answer is
    /// [`Answer::Unfiltered`].
    Degraded(E),
    /// The host wrote the SST without a filter. Every answer is [`Answer::Unfiltered`].
    Absent,
}

impl<D: AsRef<[u8]>, E> TableFilter<D, E> {
    /// Asks the filter whether the SST may hold a whole key. Hashes the key with the filter's own
    /// hasher. Returns [`Answer::Unfiltered`] if there is no usable filter, or if the filter holds
    /// only prefixes or is a partition without its index.
    #[must_use]
    #[inline]
    pub fn ask(&self, key: &[u8]) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_keys() => filter.may_contain(key).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Answers like [`TableFilter::ask`] for a key with this hash. Also returns
    /// [`Answer::Unfiltered`] for a range filter, because it stores no hashes. The hash must come
    /// from the filter's hasher or an equal hasher: see [`FilterBlock::may_contain_hash`].
    #[must_use]
    #[inline]
    pub fn ask_hash(&self, hash: KeyHash) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_hashes() => filter.may_contain_hash(hash).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Asks the filter whether the SST may hold a key between two bounds: see
    /// [`FilterBlock::may_contain_range`]. Returns [`Answer::Unfiltered`] if there is no usable
    /// range filter.
    #[must_use]
    #[inline]
    pub fn ask_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Answer {
        match self {
            Self::Ready(filter) if filter.has_ranges() => filter.may_contain_range(lower, upper).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Returns `false` if the key is certainly not in the SST, and `true` if it may be. If there is
    /// no usable filter, the function returns `true`.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.ask(key).may_contain()
    }

    /// Returns the filter if it is usable, and `None` if it is degraded or absent.
    #[must_use]
    pub fn ready(&self) -> Option<&FilterBlock<D>> {
        match self {
            Self::Ready(filter) => Some(filter),
            Self::Degraded(_) | Self::Absent => None,
        }
    }

    /// Returns the reason why the filter cannot be used, or `None` if it is usable or absent.
    #[must_use]
    pub fn reason(&self) -> Option<&E> {
        match self {
            Self::Degraded(reason) => Some(reason),
            Self::Ready(_) | Self::Absent => None,
        }
    }
}

impl<D, E> From<Result<FilterBlock<D>, E>> for TableFilter<D, E> {
    fn from(opened: Result<FilterBlock<D>, E>) -> Self {
        opened.map_or_else(Self::Degraded, Self::Ready)
    }
}

impl<D, E> From<Result<Option<FilterBlock<D>>, E>> for TableFilter<D, E> {
    fn from(opened: Result<Option<FilterBlock<D>>, E>) -> Self {
        opened.map_or_else(Self::Degraded, |filter| filter.map_or(Self::Absent, Self::Ready))
    }
}
