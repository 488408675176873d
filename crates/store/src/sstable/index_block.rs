//! Builds and searches the index block, which lists the separator and the position of each data
//! block in key order.
//!
//! The index is a block with a restart point at each entry, so that a binary search alone finds an
//! entry. The value of an entry is the offset and the length of the data block, as varints. A
//! separator is at least the last key of its block and less than the first key of the next block.

use std::sync::Arc;

use super::block_cache::Blocks;
use super::data_block::{Block, BlockBuilder, BlockTooLong, shared_len};
use super::layout::Handle;
use crate::codec::{Cursor, order_prefix, put_varint};
use crate::error::{Error, Field, Result};

#[derive(Debug)]
pub(super) struct IndexBuilder(BlockBuilder);

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self(BlockBuilder::new(1))
    }

    pub(super) fn add(&mut self, separator: &[u8], handle: Handle) -> Result<()> {
        let mut value = Vec::new();
        put_varint(&mut value, handle.offset);
        put_varint(&mut value, handle.len_bytes);
        self.0.add(separator, Some(&value)).map_err(|BlockTooLong| Error::InvalidArgument {
            what: "size of the SST file",
            reason: "the index block would exceed 4 GiB; write smaller SST files or use larger data blocks".to_owned(),
        })
    }

    pub(super) fn finish(&mut self) -> &[u8] {
        self.0.finish()
    }
}

/// Returns a separator between a block that ends with `last` and a block that begins with `next`.
///
/// The separator is the shortest prefix of `next` that is greater than `last` and less than `next`.
/// If there is no such prefix, or if it is not shorter than `last`, the separator is `last`.
pub(super) fn separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    let len = shared_len(last, next) + 1;
    match next.get(..len) {
        Some(front) if len < last.len() && len < next.len() => front,
        _ => last,
    }
}

/// A verified index block on the heap.
///
/// Most steps of a search need only `prefixes`, which lie side by side in memory.
#[derive(Debug)]
pub(super) struct IndexBlock {
    content: Vec<u8>,
    /// The common prefix of all separators.
    common: Vec<u8>,
    /// For each separator, the [`order_prefix`] of its bytes after `common`.
    prefixes: Vec<u64>,
    /// The mean number of prefixes per unit between the first one and the last one.
    density: f64,
    blocks: Arc<Blocks>,
    offset: u64,
    data_len_bytes: u64,
}

/// Half of the number of prefixes in which an interpolation search expects the result. If prefixes are
/// uniform, the standard deviation of its error is at most half of the square root of their number.
const WINDOW: usize = 32;

impl IndexBlock {
    /// Creates the index from the content of the index block at `offset` of the file. The data
    /// blocks must lie within the first `data_len_bytes` of the file. The caller has verified the
    /// checksum. This function checks the order of the separators, and [`Self::entry`] checks the
    /// handles.
    pub(super) fn new(content: Vec<u8>, offset: u64, data_len_bytes: u64) -> Result<Self> {
        let block = Block::parse(&content, offset)?;
        let len = block.num_restarts();
        let common = match len.checked_sub(1) {
            None => &[],
            Some(last) => {
                let first = block.restart_entry(0)?.0;
                first.get(..shared_len(first, block.restart_entry(last)?.0)).unwrap_or_default()
            }
        };
        // Each restart point takes four bytes, so the length of the content bounds `len`.
        let mut prefixes = Vec::with_capacity(len);
        let mut previous = None;
        for position in 0..len {
            let (separator, _) = block.restart_entry(position)?;
            // With separators out of order, a search could miss present keys.
            if previous.is_some_and(|previous| separator <= previous) {
                return Err(Error::Corrupt { field: Field::IndexBlock, offset });
            }
            previous = Some(separator);
            prefixes.push(order_prefix(separator.get(common.len()..).unwrap_or_default()));
        }
        let common = common.to_vec();
        let width = prefixes.last().zip(prefixes.first()).map_or(0, |(last, first)| last - first);
        let density = len as f64 / width.max(1) as f64;
        let index = Self { common, prefixes, density, content, blocks: Arc::default(), offset, data_len_bytes };
        // A malformed place fails the read of that block only.
        let places = (0..len).map(|position| index.entry(position).ok().map(|(_, place)| place));
        Ok(Self { blocks: Blocks::new(places), ..index })
    }

    fn block(&self) -> Result<Block<'_>> {
        Block::parse(&self.content, self.offset)
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns the position of the first data block that may hold `key` or a greater key, or [`Self::len`].
    pub(super) fn seek(&self, key: &[u8]) -> Result<usize> {
        let block = self.block()?;
        let Some(tail) = key.strip_prefix(self.common.as_slice()) else {
            return block.partition_restarts(0..self.len(), |separator| separator < key);
        };
        let prefix = order_prefix(tail);
        let low = self.num_below(prefix);
        if self.prefixes.get(low) != Some(&prefix) {
            return Ok(low);
        }
        let high = self.prefixes.partition_point(|&other| other <= prefix);
        block.partition_restarts(low..high, |separator| separator < key)
    }

    /// Returns the number of prefixes below `prefix`. The search expects them at equal distances, and
    /// searches all of them if it errs.
    #[inline]
    fn num_below(&self, prefix: u64) -> usize {
        let first = self.prefixes.first().copied().unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and a cast clamps")]
        let guess = (prefix.saturating_sub(first) as f64 * self.density) as usize;
        let start = guess.saturating_sub(WINDOW);
        let end = guess.saturating_add(WINDOW).min(self.prefixes.len());
        if let Some(window) = self.prefixes.get(start..end)
            && window.first().is_some_and(|&other| other < prefix)
            && window.last().is_some_and(|&other| other >= prefix)
        {
            return start + window.partition_point(|&other| other < prefix);
        }
        self.prefixes.partition_point(|&other| other < prefix)
    }

    #[inline]
    pub(super) fn handle(&self, position: usize) -> Result<Handle> {
        self.blocks.handle(position).map_or_else(|| Ok(self.entry(position)?.1), Ok)
    }

    #[inline]
    pub(super) fn blocks(&self) -> &Arc<Blocks> {
        &self.blocks
    }

    pub(super) fn entry(&self, position: usize) -> Result<(&[u8], Handle)> {
        let corrupt = || Error::Corrupt { field: Field::Handle, offset: self.offset };
        let (separator, value) = self.block()?.restart_entry(position)?;
        let mut cursor = Cursor::new(value.ok_or_else(corrupt)?, self.offset);
        let handle =
            Handle { offset: cursor.take_varint(Field::Handle)?, len_bytes: cursor.take_varint(Field::Handle)? };
        // The data block must lie within the data, which is not longer than the file. A reader
        // therefore never allocates more than the length of the file for the stored bytes of a
        // block.
        let inside = handle.end().is_some_and(|end| end <= self.data_len_bytes);
        if inside && cursor.is_empty() { Ok((separator, handle)) } else { Err(corrupt()) }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.block()?.check_restarts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_divide_blocks_and_are_not_longer_than_keys() {
        let keys: Vec<Vec<u8>> = vec![
            b"".to_vec(),
            b"\0".to_vec(),
            b"a".to_vec(),
            b"aa".to_vec(),
            b"ab".to_vec(),
            b"abcdefgh1".to_vec(),
            b"abcdefgh2xyz".to_vec(),
            b"abd".to_vec(),
            b"b".to_vec(),
            b"\xff".to_vec(),
            b"\xff\xff".to_vec(),
        ];
        for (i, last) in keys.iter().enumerate() {
            for next in &keys[i + 1..] {
                let separator = separator(last, next);
                assert!(last.as_slice() <= separator && separator < next.as_slice() && separator.len() <= last.len());
            }
        }
        assert_eq!(separator(b"apple-pie", b"banana"), b"b");
        assert_eq!(separator(b"apple-pie", b"b"), b"apple-pie");
    }

    #[test]
    fn index_search_agrees_with_the_order_of_the_keys() {
        for front in ["", "p", "a prefix longer than eight bytes"] {
            let tails = ["", "\0", "\0\0", "a", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghj", "b", "zzzzzzzzzz"];
            let separators: Vec<String> = tails.iter().map(|tail| format!("{front}{tail}")).collect();
            for (from, to) in (0..10).flat_map(|from| (from..=10).map(move |to| (from, to))) {
                let mut builder = IndexBuilder::new();
                for separator in &separators[from..to] {
                    builder.add(separator.as_bytes(), Handle::default()).unwrap();
                }
                let index = IndexBlock::new(builder.finish().to_vec(), 0, 0).unwrap();
                let others =
                    ["", "A", "abc", "abcdefghia", "zzzzzzzzzzz", "a prefiw", "a prefiy", "q"].map(String::from);
                for key in separators.iter().chain(&others) {
                    let wanted = separators[from..to].iter().filter(|separator| *separator < key).count();
                    assert_eq!(index.seek(key.as_bytes()).unwrap(), wanted, "{key:?} in {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn the_interpolation_search_agrees_with_a_binary_search() {
        let shapes: [fn(u64) -> u64; 4] = [|i| i * 1_000_003, |i| i * i * i, |i| i / 50, |i| u64::MAX - 5_000 + i];
        for (shape, len) in shapes.into_iter().flat_map(|shape| [0, 1, 2, 63, 64, 65, 3_000].map(|len| (shape, len))) {
            let mut builder = IndexBuilder::new();
            for i in 0..len {
                let key = [shape(i), i].map(|number| number.swap_bytes().to_le_bytes()).concat();
                builder.add(&key, Handle { offset: i, len_bytes: 1 }).unwrap();
            }
            let index = IndexBlock::new(builder.finish().to_vec(), 0, len).unwrap();
            for &prefix in &index.prefixes {
                for prefix in [prefix.saturating_sub(1), prefix, prefix.saturating_add(1), 0, u64::MAX] {
                    assert_eq!(index.num_below(prefix), index.prefixes.partition_point(|&other| other < prefix));
                }
            }
            for (i, position) in (0..len).zip(0..) {
                let place = Handle { offset: i, len_bytes: 1 };
                assert_eq!((index.handle(position).unwrap(), index.entry(position).unwrap().1), (place, place));
            }
        }
    }

    #[test]
    fn a_handle_beyond_the_data_is_refused() {
        let mut builder = IndexBuilder::new();
        builder.add(b"m", Handle { offset: 0, len_bytes: 10 }).unwrap();
        builder.add(b"x", Handle { offset: 10, len_bytes: 10 }).unwrap();
        let index = IndexBlock::new(builder.finish().to_vec(), 500, 19).unwrap();
        assert_eq!(index.len(), 2);
        assert_eq!((index.seek(b"a").unwrap(), index.seek(b"n").unwrap(), index.seek(b"y").unwrap()), (0, 1, 2));
        assert_eq!(index.entry(0).unwrap(), (b"m".as_slice(), Handle { offset: 0, len_bytes: 10 }));
        assert!(matches!(index.entry(1), Err(Error::Corrupt { field: Field::Handle, offset: 500 })));
        assert!(matches!(index.handle(1), Err(Error::Corrupt { field: Field::Handle, offset: 500 })));
        assert!(index.entry(2).is_err());
    }
}
