//! Shrinks filters that are already built, alone or towards a budget for a whole set. A bumped ribbon
//! can answer with fewer of its columns, so a host with little memory keeps a weaker filter instead of
//! none.
//!
//! Each dropped column at most doubles the FPR. A shrunk filter answers "maybe" whenever the whole
//! filter does, so it never denies a present key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::bytes::{AlignedBytes, SharedBytes};
use super::layout::Trailer;
use super::parsed::ParsedBlock;
use super::part::Verify;
use super::reader::{FilterBlock, TableFilter};
use super::set::{COUNTED_ONE_IN, FilterSet, FilterSlot};
use crate::error::{Result, too_large};
use crate::filters::Params;
use crate::simd::try_collect;

const SHRUNK: &str = "a shrunk filter";

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Returns a copy with as many columns as fit in `max_len_bytes`, and at least one column.
    /// Returns `None` if the block is short enough, or has no smaller form. The copy has no range
    /// filter, so it answers "maybe" for every range that can hold a key. Hosts use
    /// [`FilterSet::shrink_to`](super::FilterSet::shrink_to).
    ///
    /// The copy is a complete block on the heap, and its checksum differs from the original's. Keep
    /// the original in the SST, because dropped columns cannot be computed again.
    ///
    /// # Errors
    /// Returns [`Error::ChecksumMismatch`](crate::Error::ChecksumMismatch) if a page that the copy
    /// needs is damaged, and [`Error::TooLarge`](crate::Error::TooLarge) if there is no memory.
    #[doc(hidden)]
    pub fn shrunk_to(&self, max_len_bytes: u64) -> Result<Option<FilterBlock<SharedBytes>>> {
        let Some(start) = self.columns_to_drop_from() else { return Ok(None) };
        if self.metadata().block_len_bytes <= max_len_bytes {
            return Ok(None);
        }
        let fits = |&columns: &u32| self.len_with(columns).is_some_and(|len| len <= max_len_bytes);
        let columns = (1..start).rfind(fits).unwrap_or(1);
        if columns < start { self.copy_of_columns(columns) } else { Ok(None) }
    }

    /// Returns a copy of the block with only the first `columns` columns and without a range
    /// filter. Returns `None` if this block has no such smaller form.
    fn copy_of_columns(&self, columns: u32) -> Result<Option<FilterBlock<SharedBytes>>> {
        let (Some(header), Some(params)) = (self.header(), self.params_of_copy(columns)) else { return Ok(None) };
        let (bytes, trailer) = (self.as_bytes(), &self.trailer);
        let payload = self.filter.payload(bytes);
        let (header, mut copy) = if self.filter.params == params {
            let copy = try_collect(payload.iter().copied()).map_err(too_large(SHRUNK))?;
            (header.clone(), copy)
        } else {
            self.filter.params.copy_columns(header, payload, &params)?
        };
        // The copy gets new checksums, which would hide damage of the original. So the original
        // pages are verified after the copy, even if they were verified at open. A memory map may
        // read a page from the file again, and the file may be damaged by then. The columns of a
        // group of eight are interleaved, so the copy read whole groups.
        let groups = self.filter.params.with_columns(columns.next_multiple_of(8));
        let len = groups.map_or(self.filter.len, |groups| groups.asked_len(self.filter.len));
        let checked = self.filter.check_pages_before(len, bytes, &trailer.table_id, trailer.partition_number);
        checked.map_err(|error| error.moved_by(self.offset))?;
        // A range filter cannot shrink, so the copy has none.
        let (header, payload_len_bytes) = (Some(header), copy.len() as u64);
        let trailer = Trailer { header, payload_len_bytes, ranges: None, ..Trailer::clone(trailer) };
        trailer.append_to(&mut copy).map_err(too_large(SHRUNK))?;
        let copy = SharedBytes::from(AlignedBytes::copy_of(&copy)?);
        ParsedBlock::open(copy, Verify::AtOpen)?.bind_to(&self.hasher).map(Some)
    }
}

impl<D: AsRef<[u8]>> ParsedBlock<D> {
    /// Returns the number of columns below which the smaller forms of the block begin. It is the
    /// present number of columns, or one more for a block that has a range filter: a copy has no
    /// range filter, so even a copy of all columns is smaller. Returns `None` if the filter cannot
    /// drop columns. Of a filter in partitions, a host can load and unload partitions.
    fn columns_to_drop_from(&self) -> Option<u32> {
        if self.partitions().is_some() || self.trailer.partition_number != 0 {
            return None;
        }
        Some(self.filter.params.columns()? + u32::from(self.filter.start > 0))
    }

    /// Returns the length in bytes of a copy of the first `columns` columns. Returns `None` if the
    /// block has no such smaller form.
    fn len_with(&self, columns: u32) -> Option<u64> {
        let payload_len = self.params_of_copy(columns)?.asked_len(self.filter.len);
        let record_len = self.header()?.record.len();
        Trailer { ranges: None, ..Trailer::clone(&self.trailer) }.block_len_bytes(payload_len as u64, record_len)
    }

    fn params_of_copy(&self, columns: u32) -> Option<Params> {
        let params = &self.filter.params;
        if params.columns() == Some(columns) { Some(params.clone()) } else { params.with_columns(columns) }
    }
}

/// The result of [`FilterSet::shrink_to`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FilterSetShrunk {
    /// The bytes of all filters of the set after shrinking: see [`FilterSet::len_bytes`]. They
    /// exceed the limit if the filters cannot drop enough columns.
    pub len_bytes: u64,
    /// The number of filters that lost columns or their range filter.
    pub num_shrunk: usize,
    /// The number of filters that should have lost columns but could not, for example because a
    /// page is damaged.
    pub num_failed: usize,
}

impl FilterSet {
    /// Makes the set estimate how many whole keys each filter is asked for: see
    /// [`FilterSet::queries`].
    #[must_use]
    pub fn counting_queries(mut self) -> Self {
        self.queries.is_on = true;
        self
    }

    /// Returns an estimate of the number of whole keys for which the filter at `slot` was asked. It
    /// includes the numbers that [`FilterSet::add_queries`] added. Queries count only after
    /// [`FilterSet::counting_queries`]. For a slot of another set, the result is 0.
    ///
    /// The set counts a random sample of one query in 64. So an estimate of `n` has a standard
    /// deviation of at most about `8 * sqrt(n)`.
    #[must_use]
    pub fn queries(&self, slot: FilterSlot) -> u64 {
        self.queries.of(self.position(slot))
    }

    /// Adds `queries` to the count of a filter. Use this method to copy the counts of an earlier
    /// set to a new set. For a slot of another set, the call has no effect.
    pub fn add_queries(&self, slot: FilterSlot, queries: u64) {
        self.queries.add(self.position(slot), queries);
    }

    /// Returns the length in bytes of the blocks of all [`TableFilter::Ready`] filters together.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.blocks().map(|(_, block)| block.metadata().block_len_bytes).fold(0, u64::saturating_add)
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, &FilterBlock<SharedBytes>)> {
        let filters = self.filters.iter().enumerate();
        filters.filter_map(|(index, entry)| entry.filter.ready().map(|block| (index, block)))
    }

    /// Drops columns of bumped ribbons until the filters take at most `max_len_bytes` together, or
    /// until no more columns can be dropped. It first drops the columns whose loss adds the fewest
    /// false positives for keys per freed byte, by the counts of [`FilterSet::queries`]. Without
    /// counts, it treats all filters as asked equally often.
    ///
    /// A copy on the heap with at least one column replaces a filter. The copy has no range filter.
    ///
    /// After a copy, the bytes of the original are freed when the host drops its own references to
    /// the filter. So after this call, the host should keep only the filters that
    /// [`FilterSet::filter`] returns. To use dropped columns again, open the filter again.
    pub fn shrink_to(&mut self, max_len_bytes: u64) -> FilterSetShrunk {
        let mut len_bytes = self.len_bytes();
        if len_bytes <= max_len_bytes {
            return FilterSetShrunk { len_bytes, ..FilterSetShrunk::default() };
        }
        let mut num_failed = 0;
        // If a filter fails to drop its columns, another round drops columns of the other filters.
        let mut failed = vec![false; self.len()];
        let mut shrunk = vec![false; self.len()];
        loop {
            let plan = self.plan((max_len_bytes, len_bytes), &failed);
            let failures_before = num_failed;
            for (index, planned) in plan.into_iter().enumerate().filter_map(|(i, planned)| Some((i, planned?))) {
                let is_done = self.replace(index, planned).is_some();
                num_failed += usize::from(!is_done);
                let of = if is_done { &mut shrunk } else { &mut failed };
                of.get_mut(index).into_iter().for_each(|it| *it = true);
            }
            len_bytes = self.len_bytes();
            if len_bytes <= max_len_bytes || num_failed == failures_before {
                let num_shrunk = shrunk.iter().filter(|&&it| it).count();
                return FilterSetShrunk { len_bytes, num_shrunk, num_failed };
            }
        }
    }

    /// Returns one element for each filter: the number of columns to keep, or `None`
    /// if the filter stays as it is. Skips the filters in `failed`.
    fn plan(&self, (max_len_bytes, mut len_bytes): (u64, u64), failed: &[bool]) -> Vec<Option<u32>> {
        let mut plan = vec![None; self.len()];
        let mut steps = BinaryHeap::new();
        for (index, block) in self.blocks().filter(|&(index, _)| !failed.get(index).copied().unwrap_or(true)) {
            let Some(columns) = block.columns_to_drop_from() else { continue };
            let (rate, len) = (block.expected_fpr(), block.metadata().block_len_bytes);
            // One sample is added to each count, so that a filter without queries has a cost, too.
            let queries = self.queries.of(index).saturating_add(COUNTED_ONE_IN.into()) as f64;
            steps.extend(Step { index, columns, rate, len, queries }.next(block));
        }
        while len_bytes > max_len_bytes {
            let Some(Reverse((_, _, Next { step, saved }))) = steps.pop() else { break };
            len_bytes = len_bytes.saturating_sub(saved);
            if let Some(planned) = plan.get_mut(step.index) {
                *planned = Some(step.columns);
            }
            let block = self.filters.get(step.index).and_then(|entry| entry.filter.ready());
            steps.extend(block.and_then(|block| step.next(block)));
        }
        plan
    }

    /// Replaces a filter with its smaller form. Returns `None` if the filter stays as it was.
    fn replace(&mut self, index: usize, columns: u32) -> Option<()> {
        let smaller = self.filters.get(index)?.filter.ready()?.copy_of_columns(columns).ok()??;
        self.set(index, Arc::new(TableFilter::Ready(smaller)));
        Some(())
    }
}

/// The state of a filter while columns are chosen.
#[derive(Debug, Clone, Copy)]
struct Step {
    index: usize,
    columns: u32,
    rate: f64,
    len: u64,
    queries: f64,
}

/// The state after the next step, and the bytes that the step saves.
#[derive(Debug, Clone, Copy)]
struct Next {
    step: Step,
    saved: u64,
}

impl Step {
    /// Returns the next step and its sort key: the number of false positives that the step adds per
    /// freed byte, then the index of the filter. Returns `None` if the filter has no smaller form.
    fn next<D: AsRef<[u8]>>(self, block: &FilterBlock<D>) -> Option<Reverse<(u64, usize, Next)>> {
        let columns = self.columns.checked_sub(1).filter(|&columns| columns > 0)?;
        let len = block.len_with(columns)?;
        let saved = self.len.saturating_sub(len);
        let rate = 0.5f64.powi(columns.cast_signed()).max(self.rate);
        let cost = self.queries * (rate - self.rate) / saved.max(1) as f64;
        // The cost is not negative, so its bits as an integer sort like the cost itself. If two
        // costs are equal, the index decides, so that each run of the program has the same order.
        Some(Reverse((cost.to_bits(), self.index, Next { step: Self { columns, rate, len, ..self }, saved })))
    }
}

/// All values are equal, because the cost and the index in front of the step decide the order.
impl PartialEq for Next {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
