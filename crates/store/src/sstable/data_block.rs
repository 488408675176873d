//! Builds, searches and walks a block of sorted entries with prefix-compressed keys and restart
//! points.
//!
//! ```text
//! entry*  restart offset (u32)*  number of restarts (u32)
//! entry = shared (varint)  unshared (varint)  value code (varint)  key suffix  value
//! ```
//! A key consists of the first `shared` bytes of the previous key, followed by the suffix. At a
//! restart point `shared` is 0. The value code is 0 for a tombstone, and otherwise the value's
//! length plus 1. The index block has the same format, with a restart point at each entry. Errors
//! report the block's offset in the file. An offset inside a compressed block would match no byte
//! of the file.

use std::cmp::Ordering;
use std::ops::Range;

use crate::codec::{Cursor, put_u32, put_varint, u32_at, u32_from};
use crate::error::{Error, Field, Result};

/// The error that a restart offset would not fit into 32 bits, because the entries before it take 4
/// GiB or more.
#[derive(Debug)]
pub(super) struct BlockTooLong;

#[derive(Debug)]
pub(super) struct BlockBuilder {
    restart_interval: usize,
    content: Vec<u8>,
    restarts: Vec<u32>,
    /// The number of entries from the last restart point on.
    run_len: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Creates a builder of an empty block. The first entry and every `restart_interval`-th entry
    /// after it get a restart point. An interval of 0 counts as 1.
    pub(super) fn new(restart_interval: usize) -> Self {
        let restart_interval = restart_interval.max(1);
        Self { restart_interval, content: Vec::new(), restarts: Vec::new(), run_len: 0, last_key: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the last added key. The key is empty if the block is empty.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The length if the block ended now.
    pub(super) fn len_bytes(&self) -> usize {
        self.content.len() + 4 * self.restarts.len() + 4
    }

    /// Returns an upper bound on [`Self::len_bytes`] after one more entry with this key length and
    /// value length.
    pub(super) fn len_bytes_with(&self, key_len: usize, value_len: usize) -> usize {
        // Each of the three varints is below 2^35 and takes at most 5 bytes. The final 4 is the
        // length of a restart offset.
        self.len_bytes() + key_len + value_len + 3 * 5 + 4
    }

    /// Adds an entry. The caller ensures that `key` is greater than the last added key.
    ///
    /// # Errors
    /// Returns [`BlockTooLong`] if the entry needs a restart point at or above 4 GiB. The block is
    /// unchanged then.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), BlockTooLong> {
        let mut shared = 0;
        if self.run_len.is_multiple_of(self.restart_interval) {
            let restart = u32::try_from(self.content.len()).map_err(|_| BlockTooLong)?;
            self.restarts.push(restart);
            self.run_len = 0;
        } else {
            shared = shared_len(&self.last_key, key);
        }
        self.run_len += 1;
        let suffix = key.get(shared..).unwrap_or_default();
        put_varint(&mut self.content, shared as u64);
        put_varint(&mut self.content, suffix.len() as u64);
        put_varint(&mut self.content, value.map_or(0, |value| value.len() as u64 + 1));
        self.content.extend_from_slice(suffix);
        self.content.extend_from_slice(value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        Ok(())
    }

    /// The caller must call [`Self::clear`] before it adds entries of the next block.
    pub(super) fn finish(&mut self) -> &[u8] {
        for &restart in &self.restarts {
            put_u32(&mut self.content, restart);
        }
        #[expect(clippy::cast_possible_truncation, reason = "restart offsets are distinct u32")]
        put_u32(&mut self.content, self.restarts.len() as u32);
        &self.content
    }

    pub(super) fn clear(&mut self) {
        self.content.clear();
        self.restarts.clear();
        self.last_key.clear();
        self.run_len = 0;
    }
}

pub(super) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).take_while(|(a, b)| a == b).count() * 8;
    let (a, b) = (a.get(words..).unwrap_or_default(), b.get(words..).unwrap_or_default());
    words + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The length of the prefix that the key shares with the key before it.
    pub(super) shared: usize,
    /// The rest of the key.
    pub(super) suffix: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    /// The offset of the first byte after the entry, counted from the first entry of the block.
    next: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    entries: &'a [u8],
    restarts: &'a [[u8; 4]],
    offset: u64,
}

impl<'a> Block<'a> {
    pub(super) fn parse(content: &'a [u8], offset: u64) -> Result<Self> {
        let corrupt = || Error::Corrupt { field: Field::Restarts, offset };
        let (rest, count) = content.split_last_chunk::<4>().ok_or_else(corrupt)?;
        let restarts_len = usize::try_from(u32_from(count)).ok().and_then(|count| count.checked_mul(4));
        let entries_len = restarts_len.and_then(|len| rest.len().checked_sub(len)).ok_or_else(corrupt)?;
        let (entries, restarts) = rest.split_at(entries_len);
        let restarts = restarts.as_chunks::<4>().0;
        if entries.is_empty() != restarts.is_empty() {
            return Err(corrupt());
        }
        Ok(Self { entries, restarts, offset })
    }

    /// Returns a block that can be used only for [`Self::entry_at`]. [`Self::parse`] must have
    /// accepted `content` before.
    pub(super) fn entries(content: &'a [u8], offset: u64) -> Self {
        Self { entries: content, restarts: &[], offset }
    }

    pub(super) fn num_restarts(&self) -> usize {
        self.restarts.len()
    }

    fn corrupt<T>(&self, field: Field) -> Result<T> {
        Err(Error::Corrupt { field, offset: self.offset })
    }

    /// Decodes the entry at offset `at`, counted from the first entry of the block.
    #[inline]
    pub(super) fn entry_at(&self, at: usize) -> Result<Entry<'a>> {
        let Some(rest) = self.entries.get(at..) else { return self.corrupt(Field::Restarts) };
        let (shared, unshared, code, body) = match rest {
            [shared, unshared, code, body @ ..] if (shared | unshared | code) < 0x80 => {
                (usize::from(*shared), usize::from(*unshared), usize::from(*code), body)
            }
            _ => self.long_head(rest)?,
        };
        let value_len = code.saturating_sub(1);
        let Some((suffix, body)) = body.split_at_checked(unshared) else { return self.corrupt(Field::Key) };
        let Some((value, rest)) = body.split_at_checked(value_len) else { return self.corrupt(Field::Value) };
        Ok(Entry { shared, suffix, value: (code != 0).then_some(value), next: self.entries.len() - rest.len() })
    }

    fn long_head(&self, rest: &'a [u8]) -> Result<(usize, usize, usize, &'a [u8])> {
        let mut cursor = Cursor::new(rest, 0);
        let mut take = |field| cursor.take_varint_usize(field).or_else(|_| self.corrupt(field));
        let head = (take(Field::Entry)?, take(Field::Key)?, take(Field::Value)?);
        Ok((head.0, head.1, head.2, cursor.rest()))
    }

    fn restart(&self, index: usize) -> Result<usize> {
        let Some(at) = self.restarts.get(index) else { return self.corrupt(Field::Restarts) };
        usize::try_from(u32_from(at)).or_else(|_| self.corrupt(Field::Restarts))
    }

    /// At a restart point, the key is stored whole.
    pub(super) fn restart_entry(&self, index: usize) -> Result<(&'a [u8], Option<&'a [u8]>)> {
        let entry = self.entry_at(self.restart(index)?)?;
        if entry.shared != 0 { self.corrupt(Field::Restarts) } else { Ok((entry.suffix, entry.value)) }
    }

    /// Returns the number of the first restart point in `range` whose key does not satisfy
    /// `before`, or the end of `range` if there is none. The restart points whose keys satisfy
    /// `before` must precede all others.
    pub(super) fn partition_restarts(&self, range: Range<usize>, before: impl Fn(&[u8]) -> bool) -> Result<usize> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.restart_entry(middle)?.0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Finds the value of `key`. The search compares key suffixes and never assembles a whole key.
    /// `None` means that the block has no entry for `key`, and `Some(None)` is a tombstone.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>> {
        let Some(run) =
            self.partition_restarts(0..self.num_restarts(), |restart_key| restart_key <= key)?.checked_sub(1)
        else {
            return Ok(None);
        };
        let mut at = self.restart(run)?;
        // The key of the previous entry is smaller than `key`, has `len` bytes and shares its first
        // `matched` bytes with `key`.
        let (mut matched, mut len) = (0, 0);
        while at < self.entries.len() {
            let entry = self.entry_at(at)?;
            if entry.shared > len {
                return self.corrupt(Field::Entry);
            }
            at = entry.next;
            len = entry.shared + entry.suffix.len();
            // At offset `matched`, the previous key has a smaller byte than `key`. This entry
            // shares that byte with the previous key, so its key is smaller than `key`, too.
            if entry.shared > matched {
                continue;
            }
            let rest = key.get(entry.shared..).unwrap_or_default();
            let common = shared_len(entry.suffix, rest);
            match entry.suffix.get(common..).cmp(&rest.get(common..)) {
                Ordering::Less => matched = entry.shared + common,
                Ordering::Equal => return Ok(Some(entry.value)),
                Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Decodes all entries and checks the restart points, because searches rely on them. The first
    /// restart point must be the first entry. Each restart point must be the start of an entry that
    /// stores its whole key. The restart points must ascend.
    pub(super) fn check_restarts(&self) -> Result<()> {
        let (mut at, mut wanted) = (0, 0);
        while at < self.entries.len() {
            let entry = self.entry_at(at)?;
            if wanted < self.restarts.len() && self.restart(wanted)? == at {
                if entry.shared != 0 {
                    return self.corrupt(Field::Restarts);
                }
                wanted += 1;
            }
            at = entry.next;
        }
        let first = u32_at(self.restarts.as_flattened(), 0);
        let starts = first.is_none_or(|first| first == 0);
        if starts && wanted == self.restarts.len() { Ok(()) } else { self.corrupt(Field::Restarts) }
    }
}

/// A position among the entries of a block. The caller passes the block, because the cursor does
/// not own it.
#[derive(Debug, Default)]
pub(super) struct EntryCursor {
    at: usize,
    next: usize,
    key: Vec<u8>,
    /// The key at which the last [`Self::retreat`] began.
    above: Vec<u8>,
    /// The length of the value, or `None` for a tombstone. The value ends where the next entry
    /// begins.
    value_len: Option<usize>,
}

impl EntryCursor {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn value<'a>(&self, block: &Block<'a>) -> Option<&'a [u8]> {
        block.entries.get(self.next.checked_sub(self.value_len?)?..self.next)
    }

    fn take(&mut self, at: usize, entry: &Entry<'_>) {
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        (self.at, self.next, self.value_len) = (at, entry.next, entry.value.map(<[u8]>::len));
    }

    fn load_restart(&mut self, block: &Block<'_>, index: usize) -> Result<()> {
        let at = block.restart(index)?;
        let entry = block.entry_at(at)?;
        if entry.shared != 0 {
            return block.corrupt(Field::Entry);
        }
        self.take(at, &entry);
        Ok(())
    }

    /// Moves to the first entry. A block without entries is an error.
    pub(super) fn first(&mut self, block: &Block<'_>) -> Result<()> {
        self.load_restart(block, 0)
    }

    /// Moves to the last entry. A block without entries is an error.
    pub(super) fn last(&mut self, block: &Block<'_>) -> Result<()> {
        self.load_restart(block, block.num_restarts().saturating_sub(1))?;
        while self.advance(block)? {}
        Ok(())
    }

    /// Moves to the next entry and returns `true`. At the last entry it changes nothing and
    /// returns `false`.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] for a malformed entry, and for a key that is not greater than the
    /// previous key. A merge would lose keys if it accepted keys out of order.
    pub(super) fn advance(&mut self, block: &Block<'_>) -> Result<bool> {
        if self.next >= block.entries.len() {
            return Ok(false);
        }
        let entry = block.entry_at(self.next)?;
        match self.key.get(entry.shared..) {
            None => return block.corrupt(Field::Entry),
            Some(rest) if entry.suffix <= rest => return block.corrupt(Field::Key),
            Some(_) => self.take(self.next, &entry),
        }
        Ok(true)
    }

    /// Moves to the previous entry and returns `true`. At the first entry it changes nothing and
    /// returns `false`. It walks forward from the last restart point before the current entry.
    pub(super) fn retreat(&mut self, block: &Block<'_>) -> Result<bool> {
        let here = self.at;
        let (mut low, mut high) = (0, block.num_restarts());
        while low < high {
            let middle = low + (high - low) / 2;
            if block.restart(middle)? < here { low = middle + 1 } else { high = middle }
        }
        let Some(run) = low.checked_sub(1) else { return Ok(false) };
        std::mem::swap(&mut self.key, &mut self.above);
        self.load_restart(block, run)?;
        while self.next < here && self.advance(block)? {}
        // With restart points in the wrong order, a backward walk could run in a loop.
        match self.at < here {
            false => block.corrupt(Field::Restarts),
            true if self.key >= self.above => block.corrupt(Field::Key),
            true => Ok(true),
        }
    }

    /// Moves to the first entry whose key is at least `key` and returns `true`. Without such an
    /// entry it moves to the last entry and returns `false`.
    pub(super) fn seek(&mut self, block: &Block<'_>, key: &[u8]) -> Result<bool> {
        let run = block.partition_restarts(0..block.num_restarts(), |restart_key| restart_key < key)?.saturating_sub(1);
        self.load_restart(block, run)?;
        while self.key.as_slice() < key {
            if !self.advance(block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn entries(count: u32) -> Entries {
        let key = |i: u32| format!("{}key{:05}", "p".repeat(i as usize / 7 % 3 * 100), i * 2).into_bytes();
        let mut entries: Entries =
            (0..count).map(|i| (key(i), (i % 5 != 0).then(|| vec![b'v'; (i as usize * 37) % 300]))).collect();
        entries.sort();
        entries
    }

    fn build(entries: &Entries, restart_interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, value) in entries {
            let bound = builder.len_bytes_with(key.len(), value.as_ref().map_or(0, Vec::len));
            builder.add(key, value.as_deref()).unwrap();
            assert!(builder.len_bytes() <= bound);
        }
        let len = builder.len_bytes();
        let content = builder.finish().to_vec();
        assert_eq!(content.len(), len);
        content
    }

    fn at(cursor: &EntryCursor, block: &Block<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
        (cursor.key().to_vec(), cursor.value(block).map(<[u8]>::to_vec))
    }

    #[test]
    fn seek_and_walks_find_every_entry_and_no_other() {
        for (count, interval) in [(1, 16), (2, 1), (15, 16), (16, 16), (17, 16), (100, 16), (100, 1), (100, 1000)] {
            let entries = entries(count);
            let content = build(&entries, interval);
            let block = Block::parse(&content, 0).unwrap();
            block.check_restarts().unwrap();
            let mut cursor = EntryCursor::default();
            cursor.first(&block).unwrap();
            for (i, (key, value)) in entries.iter().enumerate() {
                assert_eq!(block.find(key).unwrap(), Some(value.as_deref()));
                let gap = [key.as_slice(), b"0"].concat();
                assert_eq!(block.find(&gap).unwrap(), None);
                assert_eq!(block.find(&key[..key.len() - 1]).unwrap(), None);
                assert_eq!(at(&cursor, &block), entries[i]);
                assert_eq!(cursor.advance(&block).unwrap(), i + 1 < entries.len());
                let mut seeker = EntryCursor::default();
                assert_eq!(seeker.seek(&block, &gap).unwrap(), i + 1 < entries.len());
                assert_eq!(at(&seeker, &block), entries[(i + 1).min(entries.len() - 1)]);
                assert!(seeker.seek(&block, key).unwrap());
                assert_eq!(at(&seeker, &block), entries[i]);
            }
            assert_eq!(block.find(b"").unwrap(), None);
            cursor.last(&block).unwrap();
            for i in (0..entries.len()).rev() {
                assert_eq!(at(&cursor, &block), entries[i]);
                assert_eq!(cursor.retreat(&block).unwrap(), i > 0);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_an_error_or_an_answer() {
        let entries = entries(40);
        let content = build(&entries, 4);
        for i in 0..content.len() {
            for byte in [0, 0xff, content[i] ^ 1, content[i] ^ 0x80] {
                let mut bad = content.clone();
                bad[i] = byte;
                let Ok(block) = Block::parse(&bad, 0) else { continue };
                let _ = (block.check_restarts(), block.find(&entries[20].0), block.find(b"zzz"));
                let mut cursor = EntryCursor::default();
                let _ = cursor.seek(&block, &entries[30].0);
                let _ = cursor.first(&block);
                while cursor.advance(&block).unwrap_or(false) {}
                let _ = cursor.last(&block);
                while cursor.retreat(&block).unwrap_or(false) {}
            }
        }
        for len in 0..content.len() {
            let _ = Block::parse(&content[..len], 0).map(|block| block.find(&entries[3].0));
        }
    }
}
