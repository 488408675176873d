//! Asks open blocks for ranges of keys.

use std::ops::Bound;

use super::part::Part;
use super::range_query::{Bounds, RangeQuery};
use super::ranges::{RangeFilter, Ranges};
use super::reader::FilterBlock;
use crate::error::Error;
use crate::kinds::is_empty_range;

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Returns `false` if certainly no added key lies between the bounds, and `true` if one may.
    ///
    /// Keys are compared as byte strings. Bounds may have any length, and may be included, excluded
    /// or unbounded. The function returns `true` if the lower bound is above the upper bound: the
    /// caller may have exchanged them. It returns `false` for an empty range: if an excluded bound
    /// equals the other bound, or if the upper bound excludes the empty key. For any other range,
    /// the function returns `true` if the block has no usable range filter
    /// ([`FilterBlock::has_ranges`]).
    ///
    /// ```
    /// use std::ops::Bound::{Excluded, Included, Unbounded};
    /// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify};
    ///
    /// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
    /// let mut builder = FilterBuilder::new("grafite:fpr=0.01".parse()?, &hasher).with_table_id(table_id);
    /// for key in [b"user0100", b"user0200", b"user0300"] {
    ///     builder.add(key);
    /// }
    /// let block = FilterBlock::open(builder.finish()?, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
    /// assert!(block.may_contain_range(Included(b"user0150"), Included(b"user0200")));
    /// assert!(!block.may_contain_range(Included(b"user0400"), Unbounded));
    /// assert!(!block.may_contain_range(Excluded(b"user0300"), Excluded(b"user0400")));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn may_contain_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let Some(Ranges { query, filter }) = self.ranges.as_deref() else {
            return !is_empty_range(lower, upper);
        };
        let data = self.data.as_ref();
        match filter {
            RangeFilter::Beside(part) => part.may_contain_range(data, query, (lower, upper)),
            RangeFilter::Own if self.trailer.partition_number != 0 => !is_empty_range(lower, upper),
            RangeFilter::Own => self.own_may_contain_range(query, (lower, upper)),
            RangeFilter::Unusable(_) => !is_empty_range(lower, upper),
        }
    }

    /// Returns the answer of the block's own filter or partitions. If the block is a partition,
    /// `false` says nothing about the keys of other partitions. So the caller first checks that the
    /// range lies within the partition.
    pub(super) fn own_may_contain_range(&self, query: &RangeQuery, bounds: Bounds<'_>) -> bool {
        match self.partitions() {
            None => self.filter.may_contain_range(self.data.as_ref(), query, bounds),
            Some(partitions) => partitions.may_contain_range(self.data.as_ref(), query, bounds),
        }
    }

    /// Returns whether the block has a usable range filter. It has none if it is a partition
    /// without its index.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        let is_usable = |ranges: &Ranges| !matches!(ranges.filter, RangeFilter::Unusable(_));
        self.trailer.partition_number == 0 && self.ranges.as_deref().is_some_and(is_usable)
    }

    /// Returns the expected false-positive rate for ranges: the share of ranges without a key for
    /// which the answer is "maybe". It is an upper bound for ranges of at most the length for which
    /// the filter was built. For a filter without a range length, it is an upper bound for scans
    /// that span at most 16 cells of the filter. Returns `None` if there is no usable range filter.
    #[must_use]
    pub fn expected_range_fpr(&self) -> Option<f64> {
        if !self.has_ranges() {
            return None;
        }
        let of_part = |part: &Part| part.geometry.expected_fpr(0, 0);
        Some(self.part_beside().map_or_else(|| self.expected_fpr(), of_part))
    }

    /// Returns the reason why the range filter beside the block's filter cannot be used. The
    /// block's filter is usable nevertheless. Returns `None` if the range filter is usable, or if
    /// the bytes of the block hold none.
    #[must_use]
    pub fn ranges_error(&self) -> Option<&Error> {
        match &self.ranges.as_deref()?.filter {
            RangeFilter::Unusable(error) => Some(error),
            RangeFilter::Own | RangeFilter::Beside(_) => None,
        }
    }

    /// Returns the usable range filter beside the block's filter. Returns `None` if there is none.
    pub(super) fn part_beside(&self) -> Option<&Part> {
        match &self.ranges.as_deref()?.filter {
            RangeFilter::Beside(part) => Some(part),
            RangeFilter::Own | RangeFilter::Unusable(_) => None,
        }
    }
}
