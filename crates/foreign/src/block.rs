//! Reads and builds blocks in the key/value format that LevelDB and RocksDB share.
//!
//! ```text
//! block = entry*  restart offset (u32)*  number of restarts (u32)
//! entry = shared (varint)  unshared (varint)  value length (varint)  key suffix  value
//! ```
//! The key of an entry is the first `shared` bytes of the previous key, followed by the key suffix
//! of `unshared` bytes. At a restart point, `shared` is 0.
//!
//! A handle is the offset and the length of a block in the file. A value of an index block is a
//! handle, and the first key of the handle's block may follow. From format version 4 on, RocksDB's
//! index blocks can leave out the value length. In such an index block, an entry whose `shared` is
//! not 0 stores a difference in place of the handle. The difference is the length of the handle's
//! block minus the length of the previous handle's block. The handle's block begins after the
//! trailer of the previous handle's block.
//!
//! RocksDB keeps flags in the high bits of the number of restarts. This reader skips a hash index,
//! which lies between the restart offsets and their number, and ignores the flag for uniform keys.
//! It refuses any other flag.

use std::ops::Range;

use crate::error::{Error, Field, Result};
use filterblock::internals::codec::{Cursor, put_u32, put_varint, u16_at, u32_at};

use super::stored::BlockHandle;

const HASH_INDEX: u32 = 1 << 31;
const UNIFORM_KEYS: u32 = 1 << 29;
const MAX_RESTARTS: u32 = (1 << 28) - 1;

/// The form of the values in a block. It decides where a value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Values of any bytes. Each entry stores the length of its value.
    WithLength,
    /// Handles. The entries store no value length.
    Handles {
        /// Whether each handle is followed by the length and bytes of its block's first key.
        first_key: bool,
    },
}

/// The uncompressed content of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    entries: &'a [u8],
    /// The restart offsets, four bytes each.
    restarts: &'a [u8],
    values: Values,
    /// The block's offset in the file. Errors report it, because an entry of a decompressed
    /// block has no file offset of its own.
    offset: u64,
}

impl<'a> Block<'a> {
    pub(crate) fn leveldb(content: &'a [u8], offset: u64) -> Result<Self> {
        let corrupt = || Error::Corrupt { field: Field::Restarts, offset };
        let end = content.len().checked_sub(4).ok_or_else(corrupt)?;
        let count = u32_at(content, end).ok_or_else(corrupt)?;
        Self::split(content.get(..end).unwrap_or_default(), count, Values::WithLength, offset)
    }

    pub(crate) fn rocksdb(content: &'a [u8], values: Values, offset: u64) -> Result<Self> {
        let corrupt = || Error::Corrupt { field: Field::Restarts, offset };
        let mut end = content.len().checked_sub(4).ok_or_else(corrupt)?;
        let packed = u32_at(content, end).ok_or_else(corrupt)?;
        let count = packed & !(HASH_INDEX | UNIFORM_KEYS);
        if count > MAX_RESTARTS {
            return Err(Error::Unsupported { field: Field::BlockFeatures, found: u64::from(packed >> 28) });
        }
        if packed & HASH_INDEX != 0 {
            let at = end.checked_sub(2).ok_or_else(corrupt)?;
            let buckets = usize::from(u16_at(content, at).ok_or_else(corrupt)?);
            end = at.checked_sub(buckets).ok_or_else(corrupt)?;
        }
        Self::split(content.get(..end).unwrap_or_default(), count, values, offset)
    }

    fn split(content: &'a [u8], restarts: u32, values: Values, offset: u64) -> Result<Self> {
        let corrupt = || Error::Corrupt { field: Field::Restarts, offset };
        let len = usize::try_from(restarts).ok().and_then(|count| count.checked_mul(4)).ok_or_else(corrupt)?;
        let (entries, restarts) = content.split_at(content.len().checked_sub(len).ok_or_else(corrupt)?);
        Ok(Self { entries, restarts, values, offset })
    }

    /// Returns the total length of the entries in bytes, without the restart points.
    pub(crate) fn len_bytes(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn cursor(self) -> BlockCursor<'a> {
        let handle = BlockHandle { offset: 0, len_bytes: 0 };
        BlockCursor { block: self, next: 0, spelled: Vec::new(), stored: Some(&[]), value: &[], handle }
    }

    /// Returns a cursor at the first entry whose key is not before the target, or `None` if there
    /// is no such entry. `is_before` says whether a key is before the target. The keys must ascend.
    pub(crate) fn seek(self, is_before: impl Fn(&[u8]) -> Result<bool>) -> Result<Option<BlockCursor<'a>>> {
        let mut cursor = self.cursor();
        let (mut low, mut high) = (0, self.restarts.len() / 4);
        // Find the last restart point before the target, or the first restart point.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_before(self.restart_key(middle)?)? { low = middle } else { high = middle }
        }
        cursor.next = self.restart(low).unwrap_or(0);
        while cursor.advance()? {
            if !is_before(cursor.key())? {
                return Ok(Some(cursor));
            }
        }
        Ok(None)
    }

    fn restart(&self, number: usize) -> Option<usize> {
        usize::try_from(u32_at(self.restarts, 4 * number)?).ok()
    }

    /// Returns the key at a restart point. The block stores this key whole.
    fn restart_key(&self, number: usize) -> Result<&'a [u8]> {
        let corrupt = || self.corrupt(Field::Restarts);
        let start = self.restart(number).ok_or_else(corrupt)?;
        let mut cursor = Cursor::new(self.entries.get(start..).ok_or_else(corrupt)?, self.offset);
        let (shared, unshared) = (cursor.take_varint(Field::Entry)?, cursor.take_varint_usize(Field::Entry)?);
        if self.values == Values::WithLength {
            cursor.take_varint(Field::Entry)?;
        }
        if shared == 0 { Ok(cursor.take(unshared, Field::Key)?) } else { Err(corrupt()) }
    }

    /// Checks every entry and restart point of the block, and calls `each` at every entry.
    pub(crate) fn check(self, mut each: impl FnMut(&BlockCursor<'a>) -> Result<()>) -> Result<()> {
        let (mut cursor, mut restart) = (self.cursor(), 0);
        loop {
            let start = cursor.next;
            let is_restart = self.restart(restart) == Some(start);
            restart += usize::from(is_restart);
            if !cursor.advance()? {
                // Only a block without entries has a restart point at the end of its entries.
                if is_restart && start > 0 {
                    return Err(self.corrupt(Field::Restarts));
                }
                break;
            }
            if is_restart && cursor.stored.is_none() {
                return Err(self.corrupt(Field::Restarts));
            }
            each(&cursor)?;
        }
        // The walk must meet all restart points, in their order.
        if restart * 4 == self.restarts.len() { Ok(()) } else { Err(self.corrupt(Field::Restarts)) }
    }

    pub(crate) fn corrupt(&self, field: Field) -> Error {
        Error::Corrupt { field, offset: self.offset }
    }
}

/// A position in a block: before the first entry, or at an entry.
#[derive(Debug, Clone)]
pub(crate) struct BlockCursor<'a> {
    block: Block<'a>,
    /// The offset of the next entry within the entries.
    next: usize,
    /// The key, if the entry stores it whole.
    stored: Option<&'a [u8]>,
    /// The key assembled from several entries, if `stored` is `None`.
    spelled: Vec<u8>,
    value: &'a [u8],
    handle: BlockHandle,
}

impl<'a> BlockCursor<'a> {
    /// Moves to the next entry. Returns `false` if there is none.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let rest = self.block.entries.get(self.next..).ok_or_else(|| self.block.corrupt(Field::Restarts))?;
        if rest.is_empty() {
            return Ok(false);
        }
        self.read(rest).map_err(|_| self.block.corrupt(Field::Entry))?;
        Ok(true)
    }

    fn read(&mut self, rest: &'a [u8]) -> Result<()> {
        let mut cursor = Cursor::new(rest, 0);
        let shared = cursor.take_varint_usize(Field::Entry)?;
        let unshared = cursor.take_varint_usize(Field::Entry)?;
        match self.block.values {
            Values::WithLength => {
                let value_len = cursor.take_varint_usize(Field::Entry)?;
                self.spell(shared, cursor.take(unshared, Field::Key)?)?;
                self.value = cursor.take(value_len, Field::Value)?;
            }
            Values::Handles { first_key } => {
                self.spell(shared, cursor.take(unshared, Field::Key)?)?;
                self.handle = if shared == 0 { BlockHandle::take(&mut cursor)? } else { self.following(&mut cursor)? };
                if first_key {
                    cursor.take_bytes(Field::Key)?;
                }
            }
        }
        self.next = self.block.entries.len() - cursor.rest().len();
        Ok(())
    }

    /// Decodes the handle of an entry that stores only a difference: the length of the handle's
    /// block minus the length of the previous handle's block.
    fn following(&self, cursor: &mut Cursor<'_>) -> Result<BlockHandle> {
        let coded = cursor.take_varint(Field::Handle)?;
        let (half, is_negative) = (coded >> 1, coded & 1 == 1);
        let len_bytes = if is_negative {
            self.handle.len_bytes.checked_sub(half + 1)
        } else {
            self.handle.len_bytes.checked_add(half)
        };
        match (self.handle.end(), len_bytes) {
            (Some(offset), Some(len_bytes)) => Ok(BlockHandle { offset, len_bytes }),
            _ => Err(cursor.corrupt(Field::Handle).into()),
        }
    }

    fn spell(&mut self, shared: usize, suffix: &'a [u8]) -> Result<()> {
        if shared == 0 {
            self.stored = Some(suffix);
            return Ok(());
        }
        let front = self.key().get(..shared).ok_or_else(|| self.block.corrupt(Field::Key))?;
        match self.stored {
            Some(_) => self.spelled = front.to_vec(),
            None => self.spelled.truncate(shared),
        }
        self.spelled.extend_from_slice(suffix);
        self.stored = None;
        Ok(())
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.stored.unwrap_or(&self.spelled)
    }

    /// Returns the current entry's value. It is empty in a block with [`Values::Handles`].
    pub(crate) fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Returns the range of the current entry's value within the block. The block must have
    /// [`Values::WithLength`].
    pub(crate) fn value_range(&self) -> Range<usize> {
        self.next - self.value.len()..self.next
    }

    pub(crate) fn handle(&self) -> Result<BlockHandle> {
        match self.block.values {
            Values::Handles { .. } => Ok(self.handle),
            Values::WithLength => BlockHandle::parse(self.value, 0).map_err(|_| self.block.corrupt(Field::Handle)),
        }
    }
}

/// Builds a block from entries in ascending order of their keys.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    restart_interval: usize,
    content: Vec<u8>,
    restarts: Vec<u32>,
    /// The number of entries since the last restart point.
    run_len: usize,
    last_key: Vec<u8>,
    is_empty: bool,
}

impl BlockBuilder {
    /// Returns a builder without entries. It sets a restart point every `restart_interval` entries
    /// (0 counts as 1).
    pub(crate) fn new(restart_interval: usize) -> Self {
        let restart_interval = restart_interval.max(1);
        let (content, restarts, last_key) = (Vec::new(), vec![0], Vec::new());
        Self { restart_interval, content, restarts, run_len: 0, last_key, is_empty: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns the length in bytes that the block would have without further entries.
    pub(crate) fn len_bytes(&self) -> usize {
        self.content.len() + 4 * self.restarts.len() + 4
    }

    /// Returns an error if the entries, including this entry, could take 4 GiB or more.
    pub(crate) fn check_space(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let longest = self.content.len().saturating_add(key.len()).saturating_add(value.len()).saturating_add(15);
        u32::try_from(longest).map(drop).map_err(|_| too_long())
    }

    /// Adds an entry. The caller adds keys in ascending order. After an error, the block is
    /// unchanged.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_space(key, value)?;
        let mut shared = 0;
        if self.run_len == self.restart_interval {
            self.restarts.push(u32::try_from(self.content.len()).map_err(|_| too_long())?);
            self.run_len = 0;
        } else {
            shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        self.run_len += 1;
        let suffix = key.get(shared..).unwrap_or_default();
        put_varint(&mut self.content, shared as u64);
        put_varint(&mut self.content, suffix.len() as u64);
        put_varint(&mut self.content, value.len() as u64);
        self.content.extend_from_slice(suffix);
        self.content.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.is_empty = false;
        Ok(())
    }

    /// Ends the block and returns its content. Call [`Self::clear`] before the first entry of the
    /// next block.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for &restart in &self.restarts {
            put_u32(&mut self.content, restart);
        }
        #[expect(clippy::cast_possible_truncation, reason = "restart offsets are distinct u32")]
        put_u32(&mut self.content, self.restarts.len() as u32);
        &self.content
    }

    /// Removes all entries, and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.content.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.last_key.clear();
        self.run_len = 0;
        self.is_empty = true;
    }
}

fn too_long() -> Error {
    let reason = "a data block exceeds 4 GiB, the limit of its 32-bit offsets; use smaller values or a smaller \
                  size of data blocks";
    Error::invalid("table", "LevelDB", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_point_after_the_last_entry_is_damage() {
        // One entry: no shared bytes, a key and a value of one byte each. Then the restart points
        // and their number.
        let block = |restarts: &[u8]| [&[0, 1, 1, b'a', b'1'], restarts].concat();
        let sound = block(&[0, 0, 0, 0, 1, 0, 0, 0]);
        Block::leveldb(&sound, 0).unwrap().check(|_| Ok(())).unwrap();
        let damaged = block(&[0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0]);
        let damaged = Block::leveldb(&damaged, 0).unwrap();
        assert!(damaged.seek(|key| Ok(key < b"b")).is_err());
        assert!(matches!(damaged.check(|_| Ok(())), Err(Error::Corrupt { field: Field::Restarts, .. })));
        let empty = [0, 0, 0, 0, 1, 0, 0, 0];
        Block::leveldb(&empty, 0).unwrap().check(|_| Ok(())).unwrap();
    }
}
