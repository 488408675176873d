//! Describes, queries and verifies one filter within the bytes of a block. Records which pages were
//! verified.

use std::fmt;
use std::ops::Bound;

use super::layout::{Located, PAGE_CHECKSUM_LEN_BYTES, PAGE_LEN_BYTES, page_checksum, page_count, page_identity};
use crate::codec::{self, Crc32};
use crate::error::{Error, Field, Result, too_large};
use crate::filters::{FilterView, Kernel, Params, RangeHash, RangeKernel, is_empty_range, is_reversed_range};
use crate::hash::{KeyHash, KeyHasher};
use crate::simd::try_collect;
use crate::sync::atomic::{AtomicU64, Ordering};

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

    pub(super) fn check_pages(&self, bytes: &[u8], table_id: &[u8; 16], partition_number: u32) -> Result<()> {
        self.check_pages_before(self.len, bytes, table_id, partition_number)
    }

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
        check_all(table_id, partition_number, payload.get(..end).unwrap_or_default(), self.checksums(bytes))
            .map_err(|error| error.moved_by(self.start as u64))
    }
}

/// The states of the pages of a payload. Each page has two bits: one says that the page was found
/// sound, and one that it was found damaged. The verification of a page sets one of them.
///
/// All accesses are relaxed. The bits only cache results that every thread can compute again from
/// bytes that do not change. A thread that does not see a bit that another thread set verifies the
/// page again.
pub(super) struct PageStates {
    /// The words with the bits of sound pages, then as many words with the bits of damaged pages.
    /// Both halves share one allocation, because each partition has a `PageStates`.
    words: Box<[AtomicU64]>,
    identity: Crc32,
}

impl fmt::Debug for PageStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageStates").field("num_bad", &self.num_bad()).finish_non_exhaustive()
    }
}

impl PageStates {
    pub(super) fn new(table_id: &[u8; 16], partition_number: u32, payload_len: usize) -> Result<Self> {
        let num_words = 2 * page_count(payload_len).div_ceil(64);
        let words = try_collect((0..num_words).map(|_| AtomicU64::new(0)));
        let words = words.map_err(too_large("the record of verified pages of a filter"))?.into_boxed_slice();
        Ok(Self { words, identity: page_identity(table_id, partition_number) })
    }

    fn good_and_bad(&self) -> (&[AtomicU64], &[AtomicU64]) {
        self.words.split_at(self.words.len() / 2)
    }

    pub(super) fn num_bad(&self) -> u64 {
        self.good_and_bad().1.iter().map(|bad| u64::from(bad.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// Returns whether a page matches its checksum. If this thread does not see the result of an
    /// earlier verification, verifies the page, and records the result.
    #[inline]
    fn is_valid(&self, page: usize, payload: &[u8], checksums: &[u8]) -> bool {
        let (word, bit) = (page / 64, 1u64 << (page % 64));
        let known_good = self.good_and_bad().0.get(word).is_some_and(|good| good.load(Ordering::Relaxed) & bit != 0);
        known_good || self.verify(page, payload, checksums)
    }

    #[cold]
    fn verify(&self, page: usize, payload: &[u8], checksums: &[u8]) -> bool {
        let (word, bit) = (page / 64, 1u64 << (page % 64));
        let (good, bad) = self.good_and_bad();
        let (Some(good), Some(bad)) = (good.get(word), bad.get(word)) else { return false };
        if bad.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        if check_page(&self.identity, page, payload, checksums).is_ok() {
            good.fetch_or(bit, Ordering::Relaxed);
            return true;
        }
        bad.fetch_or(bit, Ordering::Relaxed);
        false
    }
}

/// A payload whose pages are verified on first touch.
#[derive(Debug, Clone, Copy)]
struct FirstTouch<'a> {
    pub(super) states: &'a PageStates,
    pub(super) payload: &'a [u8],
    pub(super) checksums: &'a [u8],
}

impl FirstTouch<'_> {
    /// Returns whether the pages of a range of bytes match their checksums. Verifies each page only
    /// once.
    #[inline]
    fn are_valid(&self, offset: usize, len: usize) -> bool {
        let last = (offset + len.max(1) - 1) / PAGE_LEN_BYTES;
        (offset / PAGE_LEN_BYTES..=last).all(|page| self.states.is_valid(page, self.payload, self.checksums))
    }
}

/// Compares all pages with their checksums. The offset in an error counts from the start of the
/// payload.
fn check_all(table_id: &[u8; 16], partition_number: u32, payload: &[u8], checksums: &[u8]) -> Result<()> {
    let identity = page_identity(table_id, partition_number);
    (0..page_count(payload.len())).try_for_each(|page| check_page(&identity, page, payload, checksums))
}

fn check_page(identity: &Crc32, number: usize, payload: &[u8], checksums: &[u8]) -> Result<()> {
    let offset = number * PAGE_LEN_BYTES;
    let bytes = payload.get(offset..payload.len().min(offset + PAGE_LEN_BYTES)).unwrap_or_default();
    let missing = Error::Corrupt { field: Field::PageChecksums, offset: offset as u64 };
    let stored = codec::u32_at(checksums, number * PAGE_CHECKSUM_LEN_BYTES).ok_or(missing)?;
    let computed = page_checksum(identity, number, bytes);
    if computed == stored {
        return Ok(());
    }
    Err(Error::ChecksumMismatch { field: Field::Page, offset: offset as u64, stored, computed })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::codec::put_u32;

    #[test]
    fn a_sound_page_does_not_vouch_for_another() {
        // The states take more than 64 words of bits. Some sound and damaged pages have numbers
        // that differ by 1, 64 or 64 * 64.
        const PAGES: usize = 4_200;
        let payload = vec![0; PAGES * PAGE_LEN_BYTES];
        let identity = page_identity(&[1; 16], 0);
        let page = payload.get(..PAGE_LEN_BYTES).unwrap();
        let good = [0, 65, 4_097, 130, 127];
        let mut checksums = Vec::new();
        for number in 0..PAGES {
            put_u32(&mut checksums, if good.contains(&number) { page_checksum(&identity, number, page) } else { 0 });
        }
        let states = PageStates::new(&[1; 16], 0, payload.len()).unwrap();
        // The second round answers from the recorded states.
        for _ in 0..2 {
            assert!(good.iter().all(|&page| states.is_valid(page, &payload, &checksums)));
            for bad in [1, 2, 64, 66, 128, 129, 4_096, 4_098, 63, 191] {
                assert!(!states.is_valid(bad, &payload, &checksums), "page {bad}");
            }
        }
        assert_eq!(states.num_bad(), 10);
    }

    #[test]
    fn only_the_pages_that_hold_the_bytes_are_verified() {
        let payload = vec![7; 3 * PAGE_LEN_BYTES];
        let identity = page_identity(&[1; 16], 0);
        let mut checksums = Vec::new();
        // Only the page in the middle is sound.
        for (number, wrong) in [(0, 1), (1, 0), (2, 1)] {
            put_u32(&mut checksums, page_checksum(&identity, number, payload.get(..PAGE_LEN_BYTES).unwrap()) ^ wrong);
        }
        let states = PageStates::new(&[1; 16], 0, payload.len()).unwrap();
        let touch = FirstTouch { states: &states, payload: &payload, checksums: &checksums };
        let page = PAGE_LEN_BYTES;
        for (offset, len) in [(page, 1), (page, page), (2 * page - 1, 1), (2 * page - 64, 64), (2 * page - 1, 0)] {
            assert!(touch.are_valid(offset, len), "{len} bytes from {offset}");
        }
        assert_eq!(states.num_bad(), 0);
        for (offset, len) in
            [(page - 1, 1), (page - 1, 2), (2 * page - 1, 2), (2 * page, 1), (page, page + 1), (0, 3 * page)]
        {
            assert!(!touch.are_valid(offset, len), "{len} bytes from {offset}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::codec::put_u32;

    #[test]
    fn concurrent_threads_agree_on_the_state_of_a_page() {
        const PAGES: usize = 3;
        let payload = vec![7; PAGES * PAGE_LEN_BYTES];
        let identity = page_identity(&[1; 16], 0);
        let mut checksums = Vec::new();
        for page in 0..PAGES {
            // Only the first page is sound.
            let damage = u32::from(page > 0);
            put_u32(&mut checksums, page_checksum(&identity, page, &payload[..PAGE_LEN_BYTES]) ^ damage);
        }
        let (payload, checksums) = (std::sync::Arc::new(payload), std::sync::Arc::new(checksums));
        loom::model(move || {
            let states = loom::sync::Arc::new(PageStates::new(&[1; 16], 0, payload.len()).unwrap());
            let threads: Vec<_> = [[0, 1], [2, 0]]
                .into_iter()
                .map(|pages| {
                    let (states, payload, checksums) = (states.clone(), payload.clone(), checksums.clone());
                    loom::thread::spawn(move || {
                        for page in pages {
                            assert_eq!(states.is_valid(page, &payload, &checksums), page == 0);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(states.num_bad(), 2);
            assert_eq!(states.words[0].load(Ordering::Relaxed), 1);
        });
    }
}
