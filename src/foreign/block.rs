//! The key/value block that LevelDB and RocksDB share.
//!
//! ```text
//! block = entry*  restart offset (u32)*  number of restarts (u32)
//! entry = shared (varint)  unshared (varint)  value length (varint)  key suffix  value
//! ```
//! A key is the first `shared` bytes of the key before it and the suffix; at a restart point `shared` is 0. RocksDB's
//! index blocks from format version 4 on leave the value length out: there a value is a handle, and behind a shared key
//! only what its length differs by from the handle before, which ends where this one begins.
//!
//! RocksDB keeps flags in the high bits of the number of restarts; of those, a hash index (which lies between restarts
//! and number) is passed over, and values stored apart from keys are not read.

use std::ops::Range;

use crate::codec::{Cursor, put_u32, put_varint, u16_at, u32_at};
use crate::foreign::error::{Error, Field, Result};

use super::stored::BlockHandle;

const HASH_INDEX: u32 = 1 << 31;
const UNIFORM_KEYS: u32 = 1 << 29;
const MAX_RESTARTS: u32 = (1 << 28) - 1;

/// What the values of a block are, and so where they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Any bytes, behind their length.
    WithLength,
    /// Handles without a length.
    Handles {
        /// Behind each handle stands the first key of its block, behind its length.
        first_key: bool,
    },
}

/// A block's content, as it is unpacked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    entries: &'a [u8],
    /// Four bytes each.
    restarts: &'a [u8],
    values: Values,
    /// The block's offset in the file, which errors give: an unpacked entry has no other.
    offset: u64,
}

impl<'a> Block<'a> {
    /// A block of LevelDB.
    ///
    /// # Errors
    /// `Corrupt` when the restart points do not fit.
    pub(crate) fn leveldb(content: &'a [u8], offset: u64) -> Result<Self> {
        let corrupt = || Error::Corrupt { field: Field::Restarts, offset };
        let end = content.len().checked_sub(4).ok_or_else(corrupt)?;
        let count = u32_at(content, end).ok_or_else(corrupt)?;
        Self::split(content.get(..end).unwrap_or_default(), count, Values::WithLength, offset)
    }

    /// A block of RocksDB.
    ///
    /// # Errors
    /// `Corrupt` when the restart points do not fit, `Unsupported` for a layout of other features.
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

    /// All entries together.
    pub(crate) fn len_bytes(&self) -> usize {
        self.entries.len()
    }

    /// A cursor before the first entry.
    pub(crate) fn cursor(self) -> BlockCursor<'a> {
        let handle = BlockHandle { offset: 0, len_bytes: 0 };
        BlockCursor { block: self, next: 0, spelled: Vec::new(), stored: Some(&[]), value: &[], handle }
    }

    /// A cursor at the first entry whose key `is_before` does not hold for; `None` behind the last.
    ///
    /// # Errors
    /// `Corrupt` for an entry or a restart point on the way that does not hold.
    pub(crate) fn seek(self, is_before: impl Fn(&[u8]) -> Result<bool>) -> Result<Option<BlockCursor<'a>>> {
        let mut cursor = self.cursor();
        let (mut low, mut high) = (0, self.restarts.len() / 4);
        // The last restart point before the target, or the first of all.
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

    /// The key at a restart point, which lies there whole.
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

    /// Walks the whole block, and calls `each` at every entry. After this no search meets an error.
    ///
    /// # Errors
    /// `Corrupt` for the first entry or restart point that does not hold.
    pub(crate) fn check(self, mut each: impl FnMut(&BlockCursor<'a>) -> Result<()>) -> Result<()> {
        let (mut cursor, mut restart) = (self.cursor(), 0);
        loop {
            let start = cursor.next;
            let is_restart = self.restart(restart) == Some(start);
            restart += usize::from(is_restart);
            if !cursor.advance()? {
                break;
            }
            if is_restart && cursor.stored.is_none() {
                return Err(self.corrupt(Field::Restarts));
            }
            each(&cursor)?;
        }
        // All of them were met, in their order.
        if restart * 4 == self.restarts.len() { Ok(()) } else { Err(self.corrupt(Field::Restarts)) }
    }

    pub(crate) fn corrupt(&self, field: Field) -> Error {
        Error::Corrupt { field, offset: self.offset }
    }
}

/// A place in a block: at an entry, once it was moved.
#[derive(Debug, Clone)]
pub(crate) struct BlockCursor<'a> {
    block: Block<'a>,
    /// Where the next entry begins.
    next: usize,
    /// The key, where it lies in the block in one piece.
    stored: Option<&'a [u8]>,
    /// The key, where it does not.
    spelled: Vec<u8>,
    value: &'a [u8],
    handle: BlockHandle,
}

impl<'a> BlockCursor<'a> {
    /// Moves to the next entry; `false` when there is none.
    ///
    /// # Errors
    /// `Corrupt` for an entry that does not hold.
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

    /// The handle of the block behind the last one, of which the entry has the difference in length.
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

    /// The value of [`Values::WithLength`].
    pub(crate) fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Where the value of [`Values::WithLength`] lies in the block.
    pub(crate) fn value_range(&self) -> Range<usize> {
        self.next - self.value.len()..self.next
    }

    /// The handle that the entry's value is.
    ///
    /// # Errors
    /// `Corrupt` for a value that is none.
    pub(crate) fn handle(&self) -> Result<BlockHandle> {
        match self.block.values {
            Values::Handles { .. } => Ok(self.handle),
            Values::WithLength => BlockHandle::parse(self.value, 0).map_err(|_| self.block.corrupt(Field::Handle)),
        }
    }
}

/// Collects the entries of one block, in ascending order.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    restart_interval: usize,
    content: Vec<u8>,
    restarts: Vec<u32>,
    /// Entries since the last restart point.
    run_len: usize,
    last_key: Vec<u8>,
    is_empty: bool,
}

impl BlockBuilder {
    /// An empty block with a restart point at every `restart_interval` entries (0 counts as 1).
    pub(crate) fn new(restart_interval: usize) -> Self {
        let restart_interval = restart_interval.max(1);
        let (content, restarts, last_key) = (Vec::new(), vec![0], Vec::new());
        Self { restart_interval, content, restarts, run_len: 0, last_key, is_empty: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The length that the block would have if it ended here.
    pub(crate) fn len_bytes(&self) -> usize {
        self.content.len() + 4 * self.restarts.len() + 4
    }

    /// Adds an entry; the caller sees to the order.
    ///
    /// # Errors
    /// `Invalid` when the block would exceed what 32-bit offsets reach.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let too_long = || {
            let reason = "a block exceeds 4 GiB; the format has 32 bits for a place in it; try smaller values";
            Error::invalid("table", "LevelDB", reason)
        };
        let longest = self.content.len().saturating_add(key.len()).saturating_add(value.len()).saturating_add(15);
        u32::try_from(longest).map_err(|_| too_long())?;
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

    /// Ends the block: its content, good until [`Self::clear`].
    pub(crate) fn finish(&mut self) -> &[u8] {
        for &restart in &self.restarts {
            put_u32(&mut self.content, restart);
        }
        #[expect(clippy::cast_possible_truncation, reason = "restart offsets are distinct u32")]
        put_u32(&mut self.content, self.restarts.len() as u32);
        &self.content
    }

    /// Makes ready for the next block; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.content.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.last_key.clear();
        self.run_len = 0;
        self.is_empty = true;
    }
}
