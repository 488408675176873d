//! Reads the sound parts of a damaged SST file.
//!
//! If the index is sound, the salvage checks each block that the index lists.
//!
//! Without a sound index, a search finds the blocks by their checksums. Blocks follow one another
//! from offset 0. From a known start, the search extends a candidate byte by byte until its
//! checksum equals the four bytes after it. The checksum covers table id and offset, so other bytes
//! match only by chance (once in 2^32). After a damaged block, the search tries as the next start
//! every offset at which a block may begin.

use std::fmt;
use std::ops::Bound;

use super::data_block::{Block, EntryCursor};
use super::index_block::IndexBlock;
use super::layout::{BLOCK_TRAILER_LEN_BYTES, FOOTER_LEN_BYTES, Footer, Handle, TableId, block_checksum, unseal};
use super::properties::Properties;
use crate::checksum::crc32;
use crate::codec::{Cursor, u32_at};
use crate::error::{Error, Field, Result};
use filterblock::HashIdentity;
use filterblock::{ParsedBlock, Verify};

/// The smallest limit of the search for the end of a block after a gap, in bytes. The actual limit
/// adds twice the length of the block's first entry, or twice the length of the content of a
/// compressed block.
const SEARCH_LEN_BYTES: usize = 256 << 10;

/// The number of bytes that the search may checksum in addition to four times the length of the
/// searched bytes. If the search needs more, it stops, and the rest of the file counts as lost.
const SEARCH_BUDGET_BYTES: usize = 16 << 20;

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower bound.
    pub from: Bound<Vec<u8>>,
    /// The upper bound.
    pub to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range of all keys.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    /// The empty range, which contains no key.
    pub const NONE: Self = Self { from: Bound::Included(Vec::new()), to: Bound::Excluded(Vec::new()) };

    /// Returns whether the range contains `key`.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let from = match &self.from {
            Bound::Included(from) => from.as_slice() <= key,
            Bound::Excluded(from) => from.as_slice() < key,
            Bound::Unbounded => true,
        };
        let to = match &self.to {
            Bound::Included(to) => key <= to.as_slice(),
            Bound::Excluded(to) => key < to.as_slice(),
            Bound::Unbounded => true,
        };
        from && to
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Long keys are cut, so that the message stays readable.
        let text = |key: &Vec<u8>| match key.get(..60) {
            Some(front) if front.len() < key.len() => format!("\"{}..\"", front.escape_ascii()),
            _ => format!("\"{}\"", key.escape_ascii()),
        };
        match &self.from {
            Bound::Included(key) => write!(f, "from {}", text(key))?,
            Bound::Excluded(key) => write!(f, "above {}", text(key))?,
            Bound::Unbounded => f.write_str("from the first")?,
        }
        match &self.to {
            Bound::Included(key) => write!(f, " to {}", text(key)),
            Bound::Excluded(key) => write!(f, " to below {}", text(key)),
            Bound::Unbounded => f.write_str(" to the last"),
        }
    }
}

/// A part of a file that could not be read, a missing file, or a gap in the sequence numbers. The
/// affected keys may be lost, or may show an older value.
#[derive(Debug)]
pub struct Loss {
    /// The damage. The error names the file or directory. For damage inside a file, it also names
    /// the field and the offset.
    pub error: Error,
    /// The range of the keys that may be affected.
    pub keys: KeyRange,
}

impl Loss {
    pub(crate) fn without_keys(error: Error) -> Self {
        Self { error, keys: KeyRange::NONE }
    }

    /// Returns whether the loss may affect keys.
    #[must_use]
    pub fn holds_keys(&self) -> bool {
        self.keys != KeyRange::NONE
    }

    /// Returns the message of the error without its next step. The next step is usually a repair,
    /// and the repair itself reports the loss.
    #[must_use]
    pub fn damage(&self) -> String {
        let error = self.error.to_string();
        error.rsplit_once("; ").map_or(error.as_str(), |(damage, _)| damage).to_owned()
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let damage = self.damage();
        if !self.holds_keys() {
            return write!(f, "{damage}; this damage alone affects no key");
        }
        write!(
            f,
            "{damage}; keys {} may be lost, or may show an older value; restore them from a backup, if there is one",
            self.keys
        )
    }
}

/// The facts about a file that its checksums prove.
#[derive(Debug, Default)]
pub(crate) struct Peek {
    /// The table id, if the footer is sound.
    pub(crate) table_id: Option<TableId>,
    /// The properties, if they match the checksum in the footer. The footer itself may be damaged.
    pub(crate) properties: Option<Properties>,
    /// The hash identity of the filter, if the filter is sound and has the footer's table id.
    pub(crate) hash: Option<HashIdentity>,
}

impl Peek {
    pub(crate) fn at(bytes: &[u8]) -> Self {
        let Some(footer) = footer_of(bytes) else { return Self::default() };
        let sound = bytes.last_chunk().and_then(|footer| Footer::decode(footer, bytes.len() as u64).ok());
        let properties = checksummed(bytes, footer.properties, footer.properties_checksum);
        let filter = part(bytes, footer.filter).and_then(|filter| ParsedBlock::open(filter, Verify::AtOpen).ok());
        Self {
            table_id: sound.map(|footer| footer.table_id),
            properties: properties.and_then(|content| Properties::decode(content, footer.properties.offset).ok()),
            hash: filter
                .filter(|filter| filter.metadata().table_id == footer.table_id)
                .map(|filter| filter.metadata().hash),
        }
    }
}

/// Decodes the fields of a footer whose checksum may not match.
fn footer_of(bytes: &[u8]) -> Option<Footer> {
    let footer = bytes.last_chunk::<FOOTER_LEN_BYTES>()?;
    Footer::decode_fields(&mut Cursor::new(footer, 0)).ok()
}

fn part(bytes: &[u8], handle: Handle) -> Option<&[u8]> {
    let (start, end) = (usize::try_from(handle.offset).ok()?, usize::try_from(handle.end()?).ok()?);
    bytes.get(start..end)
}

fn checksummed(bytes: &[u8], handle: Handle, checksum: u32) -> Option<&[u8]> {
    part(bytes, handle).filter(|content| !content.is_empty() && crc32(content) == checksum)
}

/// Facts about an SST file from other sources, such as the manifest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) num_entries: Option<u64>,
    pub(crate) keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// A callback that receives the key and the value of an entry. The value of a tombstone is `None`.
type Visit<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<()> + 'a;

/// Passes the entries of all sound data blocks that it finds in the file `bytes` to `visit`, in
/// ascending order. Returns the losses.
///
/// # Errors
/// Returns the errors of `visit`. Damage is not an error.
pub(crate) fn salvage(bytes: &[u8], table_id: &TableId, known: &Known, visit: &mut Visit<'_>) -> Result<Vec<Loss>> {
    let mut known = known.clone();
    if let Some(properties) = Peek::at(bytes).properties {
        known.num_entries = Some(properties.num_entries);
        known.keys = Some((properties.smallest, properties.largest));
    }
    // Bytes after the end of the data cannot belong to a data block.
    let footer = bytes.last_chunk().and_then(|footer| Footer::decode(footer, bytes.len() as u64).ok());
    let data_len = footer.and_then(|footer| usize::try_from(footer.data_len_bytes).ok()).unwrap_or(bytes.len());
    let data = bytes.get(..data_len).unwrap_or(bytes);
    let mut walk = Walk { bytes: data, table_id, visit, last_key: None, num_entries: 0, losses: Vec::new() };
    match trusted_index(bytes) {
        Some(index) => walk.by_index(&index, &known)?,
        None => walk.by_search(&known)?,
    }
    // If the walk found all entries of the file, the gaps held no entry.
    if known.num_entries == Some(walk.num_entries) {
        walk.losses.clear();
    }
    Ok(walk.losses)
}

/// `None` if the index does not match the checksum in the footer, or is malformed.
fn trusted_index(bytes: &[u8]) -> Option<IndexBlock> {
    let footer = footer_of(bytes)?;
    let content = checksummed(bytes, footer.index, footer.index_checksum)?;
    let index = IndexBlock::new(content.to_vec(), footer.index.offset, bytes.len() as u64).ok()?;
    index.check().ok().map(|()| index)
}

struct Walk<'a> {
    bytes: &'a [u8],
    table_id: &'a TableId,
    visit: &'a mut Visit<'a>,
    last_key: Option<Vec<u8>>,
    num_entries: u64,
    losses: Vec<Loss>,
}

impl Walk<'_> {
    fn lose(&mut self, error: Error, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) {
        self.losses.push(Loss { error, keys: KeyRange { from, to } });
    }

    fn by_index(&mut self, index: &IndexBlock, known: &Known) -> Result<()> {
        let smallest = known.keys.as_ref().map(|keys| keys.0.clone());
        let mut from = smallest.map_or(Bound::Unbounded, Bound::Included);
        for number in 0..index.len() {
            let (separator, handle) = match index.entry(number) {
                Ok(entry) => entry,
                Err(error) => {
                    self.lose(error, from, Bound::Unbounded);
                    return Ok(());
                }
            };
            let sealed = part(self.bytes, handle).unwrap_or_default();
            if let Err(error) = self.check(sealed, handle.offset, Some(separator)) {
                self.lose(error, from, Bound::Included(separator.to_vec()));
            } else {
                self.take(sealed, handle.offset)?;
            }
            from = Bound::Excluded(separator.to_vec());
        }
        Ok(())
    }

    fn by_search(&mut self, known: &Known) -> Result<()> {
        let mut budget = SEARCH_BUDGET_BYTES.saturating_add(self.bytes.len().saturating_mul(4));
        let mut gap: Option<usize> = None;
        let mut at = 0;
        while at < self.bytes.len() {
            let limit = match gap {
                None => Some(self.bytes.len()),
                Some(_) => self.plausible_len(at),
            };
            let Some(len) = limit.and_then(|limit| self.block_at(at, limit, &mut budget)) else {
                gap.get_or_insert(at);
                at += 1;
                continue;
            };
            let sealed = self.bytes.get(at..at + len).unwrap_or_default();
            if let Some(start) = gap.take() {
                let to = self.first_key(sealed, at).map_or(Bound::Unbounded, Bound::Excluded);
                let from = self.floor(known);
                self.lose(Error::Corrupt { field: Field::DataBlock, offset: start as u64 }, from, to);
            }
            self.take(sealed, at as u64)?;
            at += len;
        }
        let offset = gap.unwrap_or(at) as u64;
        let largest = known.keys.as_ref().map(|keys| keys.1.clone());
        if largest.is_none() || largest != self.last_key {
            let from = self.floor(known);
            let to = largest.map_or(Bound::Unbounded, Bound::Included);
            self.lose(Error::Corrupt { field: Field::DataBlock, offset }, from, to);
        }
        Ok(())
    }

    /// Returns the lower bound of the keys that the walk has not seen yet.
    fn floor(&self, known: &Known) -> Bound<Vec<u8>> {
        match (&self.last_key, &known.keys) {
            (Some(last), _) => Bound::Excluded(last.clone()),
            (None, Some((smallest, _))) => Bound::Included(smallest.clone()),
            (None, None) => Bound::Unbounded,
        }
    }

    /// Returns the length of the sound block at `at`. Returns `None` if there is no sound block
    /// whose stored bytes and compression tag together have at most `limit` bytes, or if `budget`
    /// is used up. Each byte that is added to a checksum reduces `budget` by one.
    fn block_at(&self, at: usize, limit: usize, budget: &mut usize) -> Option<usize> {
        let mut checksum = block_checksum(self.table_id, at as u64);
        let rest = self.bytes.get(at..)?;
        for (len, byte) in (1..).zip(rest.iter().take(limit)) {
            *budget = budget.checked_sub(1)?;
            checksum.update(std::slice::from_ref(byte));
            // A compression tag is 1 or 2, and the checksum of the block follows it.
            if !(1..=2).contains(byte) || u32_at(rest, len) != Some(checksum.clone().finish()) {
                continue;
            }
            let len = len + BLOCK_TRAILER_LEN_BYTES - 1;
            if self.check(rest.get(..len)?, at as u64, None).is_ok() {
                return Some(len);
            }
        }
        None
    }

    /// Returns the limit for [`Self::block_at`], or `None` if no block can begin at `at`.
    fn plausible_len(&self, at: usize) -> Option<usize> {
        let rest = self.bytes.get(at..)?;
        let plain = || {
            let mut cursor = Cursor::new(rest, 0);
            let shared = cursor.take_varint_usize(Field::Entry).ok()?;
            let unshared = cursor.take_varint_usize(Field::Key).ok()?;
            let value_len = cursor.take_varint_usize(Field::Value).ok()?.saturating_sub(1);
            let key = cursor.take(unshared, Field::Key).ok()?;
            cursor.take(value_len, Field::Value).ok()?;
            let ascends = self.last_key.as_deref().is_none_or(|last| last < key);
            (shared == 0 && ascends).then_some(unshared + value_len)
        };
        // A compressed block stores the length of its content and an LZ4 block that starts with
        // literals. The first literal is the `shared` of the first entry, which is 0.
        let packed = || {
            let content_len = usize::try_from(u32_at(rest, 0)?).ok()?;
            let token = *rest.get(4)?;
            let mut first = 5;
            if token >> 4 == 15 {
                first += rest.get(5..)?.iter().position(|&byte| byte != 0xff)? + 1;
            }
            let fits = content_len / 255 <= rest.len() && token >> 4 != 0;
            (fits && rest.get(first) == Some(&0)).then_some(content_len)
        };
        let first_len = plain().max(packed())?;
        Some(first_len.saturating_mul(2).saturating_add(SEARCH_LEN_BYTES))
    }

    /// Checks a whole block: its checksum, its restart points and the order of its keys. The keys
    /// must be greater than the keys of the previous blocks, and at most `separator` if it is
    /// given.
    fn check(&self, sealed: &[u8], offset: u64, separator: Option<&[u8]>) -> Result<()> {
        let corrupt = || Error::Corrupt { field: Field::Key, offset };
        let mut scratch = Vec::new();
        let content = unseal(sealed, self.table_id, offset, &mut scratch)?;
        let block = Block::parse(content, offset)?;
        block.check_restarts()?;
        let mut entry = EntryCursor::default();
        entry.first(&block)?;
        let mut floor = self.last_key.clone();
        loop {
            let key = entry.key();
            if floor.as_deref().is_some_and(|floor| key <= floor) || separator.is_some_and(|separator| key > separator)
            {
                return Err(corrupt());
            }
            floor = Some(key.to_vec());
            if !entry.advance(&block)? {
                return Ok(());
            }
        }
    }

    fn first_key(&self, sealed: &[u8], at: usize) -> Option<Vec<u8>> {
        let mut scratch = Vec::new();
        let block = Block::parse(unseal(sealed, self.table_id, at as u64, &mut scratch).ok()?, at as u64).ok()?;
        block.restart_entry(0).ok().map(|(key, _)| key.to_vec())
    }

    fn take(&mut self, sealed: &[u8], offset: u64) -> Result<()> {
        let mut scratch = Vec::new();
        let block = Block::parse(unseal(sealed, self.table_id, offset, &mut scratch)?, offset)?;
        let mut entry = EntryCursor::default();
        entry.first(&block)?;
        loop {
            (self.visit)(entry.key(), entry.value(&block))?;
            self.num_entries += 1;
            if !entry.advance(&block)? {
                break;
            }
        }
        self.last_key = Some(entry.key().to_vec());
        Ok(())
    }
}
