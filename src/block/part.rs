//! Describes, queries and verifies one filter within the bytes of a block.

use std::ops::Bound;

use super::layout::{PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, page_count};
use super::pages::{self, FirstTouch, PageStates};
use super::trailer::Located;
use crate::error::Result;
use crate::filters::{FilterView, Kernel, Params, RangeHash, RangeKernel, is_empty_range, is_reversed_range};
use crate::hash::{KeyHash, KeyHasher};

/// Tells when the pages of a filter are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Verify {
    /// Verifies all pages at open, so queries need no further checks. A damaged page is an error,
    /// except in a range filter beside the filter: see
    /// [`ParsedBlock::ranges_error`](super::ParsedBlock::ranges_error).
    #[default]
    AtOpen,
    /// Verifies each page before a query first denies a key because of that page. Opening reads no
    /// page except those of a partition index. It reads the page checksums, which take about a
    /// thousandth of a large filter. If a query could deny a key only because of a damaged page, it
    /// answers "maybe". Then [`ParsedBlock::damaged_pages`](super::ParsedBlock::damaged_pages)
    /// counts the page.
    OnFirstTouch,
}

/// The lower and the upper bound of a query.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The hash function and the kernel that a query of a range filter needs besides the filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeQuery {
    pub(super) hash: RangeHash,
    pub(super) kernel: RangeKernel,
}

impl RangeQuery {
    pub(super) fn of(hasher: &KeyHasher) -> Self {
        Self { hash: RangeHash::of(hasher), kernel: RangeKernel::detect() }
    }
}

/// The position of one filter within the bytes of a block, and the state that queries need.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) params: Params,
    pub(super) kernel: Kernel,
    /// The states of the pages. It is `None` if no query has to verify a page.
    pub(super) states: Option<Box<PageStates>>,
}

impl Part {
    /// Creates the description of the filter that `found` describes, in a block that begins at
    /// offset `base` of `bytes`. Verifies the pages if `verify` is [`Verify::AtOpen`].
    pub(super) fn new(bytes: &[u8], base: usize, found: &Located<'_>, verify: Verify) -> Result<Self> {
        let params = found.params()?.unwrap_or(Params::AlwaysMaybe(()));
        let kernel = Kernel::of(&params);
        let (start, len) = (base + found.payload_start, found.payload_len);
        let mut part = Self { start, len, params, kernel, states: None };
        let (table_id, number) = (&found.trailer.table_id, found.trailer.partition_number);
        match verify {
            Verify::AtOpen => part.check_pages(bytes, table_id, number)?,
            // An empty payload has no pages, so it needs no states.
            Verify::OnFirstTouch if len == 0 => {}
            Verify::OnFirstTouch => part.states = Some(Box::new(PageStates::new(table_id, number, len)?)),
        }
        Ok(part)
    }

    pub(super) fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Returns the payload and all bytes after it.
    #[inline(always)]
    fn padded<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..).unwrap_or_default()
    }

    fn checksums<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let from = self.start + self.len;
        bytes.get(from..from + page_count(self.len) * PAGE_CHECKSUM_LEN_BYTES).unwrap_or_default()
    }

    #[inline]
    pub(super) fn view<'a>(&'a self, bytes: &'a [u8]) -> FilterView<'a> {
        FilterView::new(&self.params, self.kernel, self.padded(bytes), self.len)
    }

    #[inline(always)]
    pub(super) fn may_contain(&self, bytes: &[u8], hash: KeyHash) -> bool {
        match &self.states {
            None => self.kernel.may_contain(&self.params, self.padded(bytes), self.len, hash),
            Some(states) => self.may_contain_on_first_touch(bytes, hash, states),
        }
    }

    /// Answers like [`may_contain`](Self::may_contain), and verifies the pages that an answer
    /// "absent" depends on. This function is not inlined: inlining would take registers from the
    /// loops of queries that verify no pages.
    #[inline(never)]
    fn may_contain_on_first_touch(&self, bytes: &[u8], hash: KeyHash, states: &PageStates) -> bool {
        let touch = FirstTouch { states, payload: self.payload(bytes), checksums: self.checksums(bytes) };
        self.view(bytes).may_contain_if_valid(hash, |offset, len| touch.are_valid(offset, len))
    }

    /// Returns `false` if certainly no added key lies between the bounds. A filter that is not a
    /// range filter returns `false` only if it has no keys or the range is empty.
    #[inline(always)]
    pub(super) fn may_contain_range(&self, bytes: &[u8], query: &RangeQuery, bounds: Bounds<'_>) -> bool {
        match (self.params.range(), &self.states) {
            (Some(geometry), None) => {
                let (lower, upper) = bounds;
                query.kernel.may_contain(geometry, &query.hash, self.padded(bytes), self.len, lower, upper)
            }
            _ => self.may_contain_range_otherwise(bytes, query, bounds),
        }
    }

    #[cold]
    #[inline(never)]
    fn may_contain_range_otherwise(&self, bytes: &[u8], query: &RangeQuery, bounds: Bounds<'_>) -> bool {
        let (lower, upper) = bounds;
        let Some(geometry) = self.params.range() else {
            let is_maybe = self.params != Params::Empty(()) && !is_empty_range(lower, upper);
            return is_maybe || is_reversed_range(lower, upper);
        };
        match &self.states {
            None => query.kernel.may_contain(geometry, &query.hash, self.padded(bytes), self.len, lower, upper),
            Some(states) => {
                let touch = FirstTouch { states, payload: self.payload(bytes), checksums: self.checksums(bytes) };
                let are_valid = |offset, len| touch.are_valid(offset, len);
                geometry.may_contain_if_valid(&query.hash, self.padded(bytes), self.len, bounds, are_valid)
            }
        }
    }

    /// Compares each page with its checksum.
    pub(super) fn check_pages(&self, bytes: &[u8], table_id: &[u8; 16], partition_number: u32) -> Result<()> {
        self.check_pages_before(self.len, bytes, table_id, partition_number)
    }

    /// Compares the pages of the first `len` bytes of the payload with their checksums.
    pub(super) fn check_pages_before(
        &self,
        len: usize,
        bytes: &[u8],
        table_id: &[u8; 16],
        partition_number: u32,
    ) -> Result<()> {
        let payload = self.payload(bytes);
        // A page has one checksum, so the page in which the `len` bytes end is checked as a whole.
        let end = len.next_multiple_of(PAGE_LEN_BYTES).min(payload.len());
        pages::check_all(table_id, partition_number, payload.get(..end).unwrap_or_default(), self.checksums(bytes))
            .map_err(|error| error.moved_by(self.start as u64))
    }
}
