//! Holds the filter of one SST in any state: ready, degraded or absent. Only a ready filter can
//! answer that a key is not in the SST.

use std::error::Error;
use std::ops::Bound;
use std::sync::Arc;

use super::reader::FilterBlock;
use crate::hash::{Key, KeyHash};

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
    pub fn must_read(self) -> bool {
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
/// host logs the [`reason`](Self::reason) once and reads the SST without a filter.
///
/// ```
/// use filterblock::{Answer, Expected, FilterBlock, HashSeed, KeyHasher, TableFilter, Verify};
///
/// let hasher = KeyHasher::xxh3(HashSeed(1));
/// let expected = Expected::of_table(*b"table 0000000012", &hasher);
/// let damaged = [0; 100];
/// let filter = TableFilter::from(FilterBlock::open(&damaged, &expected, Verify::AtOpen));
/// assert!(matches!(filter, TableFilter::Degraded(_)));
/// assert_eq!(filter.ask(hasher.key(b"apple")), Answer::Unfiltered);
/// ```
#[derive(Debug)]
pub enum TableFilter<D> {
    /// The SST has a filter, and the filter meets the host's expectations.
    Ready(FilterBlock<D>),
    /// The SST has a filter that cannot be used, for this reason. Every answer is
    /// [`Answer::Unfiltered`].
    Degraded(Arc<dyn Error + Send + Sync>),
    /// The host wrote the SST without a filter. Every answer is [`Answer::Unfiltered`].
    Absent,
}

impl<D: AsRef<[u8]>> TableFilter<D> {
    /// Asks the filter whether the SST may hold a whole key. Returns [`Answer::Unfiltered`] if there
    /// is no usable filter, or if the filter holds only prefixes or is a partition without its
    /// index. The key must come from the filter's hasher or an equal hasher: see
    /// [`FilterBlock::may_contain`].
    #[must_use]
    #[inline]
    pub fn ask(&self, key: Key<'_>) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_keys() => filter.may_contain(key).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Answers like [`ask`](Self::ask) for a key with this hash. A range filter stores no hashes.
    pub(super) fn ask_hash(&self, hash: KeyHash) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_hashes() => filter.may_contain_hash(hash).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Asks a usable range filter whether the SST may hold a key between two bounds.
    pub(super) fn ask_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Answer {
        match self {
            Self::Ready(filter) if filter.has_ranges() => filter.may_contain_range(lower, upper).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
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
    pub fn reason(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Degraded(reason) => Some(reason.as_ref()),
            Self::Ready(_) | Self::Absent => None,
        }
    }
}

impl<D, E: Error + Send + Sync + 'static> From<Result<FilterBlock<D>, E>> for TableFilter<D> {
    fn from(opened: Result<FilterBlock<D>, E>) -> Self {
        opened.map(Some).into()
    }
}

impl<D, E: Error + Send + Sync + 'static> From<Result<Option<FilterBlock<D>>, E>> for TableFilter<D> {
    fn from(opened: Result<Option<FilterBlock<D>>, E>) -> Self {
        match opened {
            Ok(Some(filter)) => Self::Ready(filter),
            Ok(None) => Self::Absent,
            Err(reason) => Self::Degraded(Arc::new(reason)),
        }
    }
}
