//! Reads and builds LevelDB's filter block. All data blocks that begin in the same 2 KiB of the
//! file share one filter.
//!
//! ```text
//! filter*  offset of each filter (u32)*  offset of the offsets (u32)  base (u8)
//! ```
//! Filter `i` has the keys of the data blocks that begin at file offsets from `i << base` to
//! `((i + 1) << base) - 1`. It ends where the next filter or the list of offsets begins. It is
//! empty if no data block begins at these file offsets.

use std::ops::Range;

use crate::error::{Error, Result};
use filterblock::internals::codec::{put_u32, u32_at};

use super::bloom::{LevelDbBloom, LevelDbBloomBuilder};

/// The base for one filter per 2 KiB, the only base that LevelDB writes.
const BASE: u8 = 11;

/// A filter block, read in place. Any bytes are a valid block.
#[derive(Debug, Clone, Copy)]
pub struct LevelDbFilterBlock<'a> {
    filters: &'a [u8],
    /// The offset of each filter and the end of the last filter, four bytes each.
    offsets: &'a [u8],
    base: u8,
}

impl<'a> LevelDbFilterBlock<'a> {
    /// Reads the block in `bytes`. If `bytes` are too short or the offset of the offsets is
    /// invalid, the block has no filters and answers "maybe".
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::parse(bytes).unwrap_or(Self { filters: &[], offsets: &[], base: BASE })
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&base, rest) = bytes.split_last()?;
        let end = rest.len().checked_sub(4)?;
        let offsets_at = usize::try_from(u32_at(rest, end)?).ok().filter(|&at| at <= end)?;
        Some(Self { filters: rest.get(..offsets_at)?, offsets: rest.get(offsets_at..)?, base })
    }

    /// Returns the number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.offsets.len() / 4).saturating_sub(1)
    }

    /// Returns whether there are no filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the data block at the file offset `block_offset` may contain `key`, by
    /// LevelDB's rules. A filter whose stored start and end are equal holds no key. The answer is
    /// "maybe" if the data block has no filter, or if the filter's start and end differ and are not
    /// a valid range.
    #[must_use]
    pub fn may_contain(&self, block_offset: u64, key: &[u8]) -> bool {
        self.ask(block_offset, |filter| LevelDbBloom::new(filter).may_contain(key))
    }

    /// Answers like [`Self::may_contain`], but asks the given function `may_contain` about the
    /// bytes of the filter.
    pub(super) fn ask(&self, block_offset: u64, may_contain: impl Fn(&[u8]) -> bool) -> bool {
        match self.number(block_offset).and_then(|number| self.bounds(number)) {
            None => true,
            Some((start, limit)) => match self.filters.get(start..limit) {
                Some(filter) => may_contain(filter),
                None => start != limit,
            },
        }
    }

    pub(super) fn reaches(&self, block_offset: u64) -> bool {
        self.number(block_offset).is_some_and(|number| number < self.len())
    }

    /// Returns the number of the filter for the data block at `block_offset`. Returns `None` if the
    /// base is 64 or more, which LevelDB does not define, or if the number exceeds the address
    /// space.
    fn number(&self, block_offset: u64) -> Option<usize> {
        block_offset.checked_shr(u32::from(self.base)).and_then(|number| usize::try_from(number).ok())
    }

    /// Returns the stored start and end of filter `number` without checking them, or `None` if
    /// there is no such filter.
    fn bounds(&self, number: usize) -> Option<(usize, usize)> {
        if number >= self.len() {
            return None;
        }
        let bound = |number: usize| usize::try_from(u32_at(self.offsets, 4 * number)?).ok();
        Some((bound(number)?, bound(number + 1)?))
    }

    /// Returns the range of filter `number` in the bytes of the block, or `None` if there is no
    /// such filter or its offsets are invalid.
    #[must_use]
    pub fn range(&self, number: usize) -> Option<Range<usize>> {
        let (start, limit) = self.bounds(number)?;
        (start <= limit && limit <= self.filters.len()).then_some(start..limit)
    }

    /// Returns filter `number`, or `None` if there is no such filter or its offsets are invalid.
    #[must_use]
    pub fn filter(&self, number: usize) -> Option<LevelDbBloom<'a>> {
        self.filter_bytes(number).map(LevelDbBloom::new)
    }

    pub(super) fn filter_bytes(&self, number: usize) -> Option<&'a [u8]> {
        self.filters.get(self.range(number)?)
    }

    /// Returns the range of file offsets at which the data blocks of filter `number` begin. A bound
    /// that exceeds 64 bits is [`u64::MAX`], and so are both bounds if the base is 64 or more.
    #[must_use]
    pub fn covers(&self, number: usize) -> Range<u64> {
        let edge = |number: u64| {
            let shift = u32::from(self.base);
            number.checked_shl(shift).filter(|edge| edge.checked_shr(shift) == Some(number)).unwrap_or(u64::MAX)
        };
        edge(number as u64)..edge((number as u64).saturating_add(1))
    }
}

/// Builds a filter block as LevelDB does, byte for byte.
///
/// Call [`Self::start_block`] for each data block, and [`Self::add`] for each of its keys.
#[derive(Debug)]
pub struct LevelDbFilterBlockBuilder {
    filters: Vec<u8>,
    offsets: Vec<u32>,
    /// The keys of the data blocks in the current range of 2 KiB, which has no filter yet.
    pending: LevelDbBloomBuilder,
}

impl LevelDbFilterBlockBuilder {
    /// Starts a block without filters. Its filters will have `bits_per_key` bits per key: see
    /// [`LevelDbBloomBuilder::new`].
    #[must_use]
    pub fn new(bits_per_key: u32) -> Self {
        Self { filters: Vec::new(), offsets: Vec::new(), pending: LevelDbBloomBuilder::new(bits_per_key) }
    }

    /// Starts the data block at `offset` in the file. Keys that are added later belong to this data
    /// block. Start the data blocks in ascending order of their offsets.
    ///
    /// # Errors
    /// Returns `Invalid` if the filters exceed 4 GiB. The filter block cannot be finished then.
    pub fn start_block(&mut self, offset: u64) -> Result<()> {
        while (self.offsets.len() as u64) < offset >> BASE {
            self.end_filter()?;
        }
        Ok(())
    }

    /// Adds a user key of the current data block to the filter of this data block.
    pub fn add(&mut self, key: &[u8]) {
        self.pending.add(key);
    }

    fn end_filter(&mut self) -> Result<()> {
        self.offsets.push(position(self.filters.len())?);
        if self.pending.num_keys() > 0 {
            self.filters.extend_from_slice(&self.pending.finish());
        }
        Ok(())
    }

    /// Returns the bytes of the block.
    ///
    /// # Errors
    /// Returns `Invalid` if the filters exceed 4 GiB.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        if self.pending.num_keys() > 0 {
            self.end_filter()?;
        }
        let offsets_at = position(self.filters.len())?;
        let mut block = self.filters;
        self.offsets.into_iter().chain([offsets_at]).for_each(|offset| put_u32(&mut block, offset));
        block.push(BASE);
        Ok(block)
    }
}

fn position(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| {
        let reason = "its filters exceed 4 GiB, the limit of their 32-bit offsets; write smaller tables";
        Error::invalid("table", "LevelDB", reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_block_has_no_filters_and_answers_maybe() {
        let block = LevelDbFilterBlockBuilder::new(10).finish().unwrap();
        assert_eq!(block, [0, 0, 0, 0, 11]);
        let block = LevelDbFilterBlock::new(&block);
        assert!(block.is_empty());
        assert!(block.may_contain(0, b"k") && block.may_contain(u64::MAX, b"k"));
    }

    #[test]
    fn ranges_without_a_block_have_a_filter_that_holds_no_key() {
        let mut builder = LevelDbFilterBlockBuilder::new(10);
        builder.start_block(0).unwrap();
        builder.add(b"foo");
        builder.start_block(2000).unwrap();
        builder.add(b"bar");
        builder.start_block(3100).unwrap();
        builder.add(b"box");
        builder.start_block(9000).unwrap();
        builder.add(b"hello");
        let bytes = builder.finish().unwrap();
        let block = LevelDbFilterBlock::new(&bytes);
        assert_eq!(block.len(), 5);
        let asked = |offset| [&b"foo"[..], b"bar", b"box", b"hello"].map(|key| block.may_contain(offset, key));
        assert_eq!(asked(0), [true, true, false, false]);
        assert_eq!(asked(2047), [true, true, false, false]);
        assert_eq!(asked(3100), [false, false, true, false]);
        assert_eq!(asked(4100), [false; 4]);
        assert_eq!(asked(9000), [false, false, false, true]);
        assert_eq!(asked(10240), [true; 4]);
        assert_eq!(block.range(2).map(|range| range.is_empty()), Some(true));
        assert_eq!(block.covers(4), 8192..10240);
    }

    #[test]
    fn invalid_filter_blocks_answer_as_in_leveldb() {
        // Two blocks are too short, one has its offsets after its end, and two have a base of 64 or
        // more.
        for bytes in
            [&[][..], &[0; 4], &[9, 0, 0, 0, 11], &[0, 0, 0, 0, 0, 0, 0, 0, 64], &[0, 0, 0, 0, 0, 0, 0, 0, 255]]
        {
            assert!(LevelDbFilterBlock::new(bytes).may_contain(5000, b"k"), "{bytes:?}");
        }
        // The filter ends before it starts.
        let crossed = [6, 5, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 11];
        assert!(LevelDbFilterBlock::new(&crossed).may_contain(0, b"k"));
        // The filter starts and ends at the same offset, which lies after the filters.
        let equal_but_outside = [1, 9, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 11];
        assert!(!LevelDbFilterBlock::new(&equal_but_outside).may_contain(0, b"k"), "LevelDB treats it as empty");
    }
}
