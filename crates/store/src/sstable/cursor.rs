//! Seeks entries of an SST file, and walks over the entries in both directions.

use std::sync::Arc;

use super::block_cache::{BlockCache, BlockContent};
use super::data_block::{Block, EntryCursor};
use super::reader::{BlockReads, ReadAhead, Table};
use crate::error::{Error, Field, Result};

/// A position among the entries of an SST. The cursor keeps the SST open.
///
/// A new cursor has no position. A cursor loses its position past either end and after an error.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    cache: Option<Arc<BlockCache>>,
    /// The bytes of the last read-ahead. It is `None` in a cursor without read-ahead.
    ahead: Option<ReadAhead>,
    /// The last data block that the cursor entered, its number and its offset.
    block: Option<(BlockContent, usize, u64)>,
    entry: EntryCursor,
    valid: bool,
    reads: BlockReads,
}

impl Table {
    /// Creates a cursor that reads through `cache`. Without a cache the cursor keeps only its
    /// current block, which suits a single pass over the SST.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, cache: Option<Arc<BlockCache>>) -> TableCursor {
        TableCursor {
            table: Arc::clone(self),
            cache,
            ahead: None,
            block: None,
            entry: EntryCursor::default(),
            valid: false,
            reads: BlockReads::default(),
        }
    }

    /// Returns an iterator over all entries in ascending order. A value of `None` is a tombstone.
    /// The iterator ends after an error.
    #[must_use]
    pub fn iter(self: &Arc<Self>) -> TableIter {
        TableIter { cursor: self.cursor(None), started: false }
    }
}

impl TableCursor {
    /// Returns the cursor with read-ahead. It reads up to 64 KiB or one longer block at once, and
    /// does not use its cache. Read-ahead suits a pass over the whole SST.
    pub(crate) fn reading_ahead(self) -> Self {
        Self { ahead: Some(ReadAhead::default()), ..self }
    }

    /// Returns whether the cursor has a position.
    #[must_use]
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the key at the current position. The key is empty if the cursor has no position.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid { self.entry.key() } else { &[] }
    }

    /// Returns the value at the current position. Returns `None` for a tombstone, and if the cursor
    /// has no position.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        let (content, _, offset) = self.block.as_ref().filter(|_| self.valid)?;
        self.entry.value(&Block::parse(content.content(), *offset).ok()?)
    }

    /// Returns the number and the length of the data blocks that the cursor has read from the file.
    #[must_use]
    #[inline]
    pub fn reads(&self) -> BlockReads {
        self.reads
    }

    /// Returns the SST.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Moves to the first entry. In an SST without entries the cursor has no position.
    ///
    /// # Errors
    /// Returns an error if the index or a data block cannot be read, does not fit in memory, or is
    /// damaged or unsupported. Every error names the file.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.reposition(|cursor| {
            let found = cursor.enter_first(0)?;
            let agrees = !found || cursor.entry.key() == cursor.table.smallest();
            if agrees { Ok(found) } else { cursor.disordered() }
        })
    }

    /// Moves to the last entry. In an SST without entries the cursor has no position.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.reposition(Self::enter_last)
    }

    /// Moves to the first entry whose key is at least `key`. Without such an entry the cursor has
    /// no position.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.reposition(|cursor| cursor.seek_inner(key))
    }

    /// Moves to the last entry whose key is at most `key`. Without such an entry the cursor has no
    /// position.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.reposition(|cursor| match cursor.seek_inner(key)? {
            true if cursor.entry.key() == key => Ok(true),
            true => cursor.retreat(),
            false => cursor.enter_last(),
        })
    }

    /// Moves to the next entry. After the last entry, the cursor has no position. A cursor without
    /// a position stays without one.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::seek_to_first`].
    #[expect(clippy::should_implement_trait, reason = "`next` is the usual name, and an iterator would copy its items")]
    pub fn next(&mut self) -> Result<()> {
        if self.valid { self.reposition(Self::advance) } else { Ok(()) }
    }

    /// Moves to the previous entry. Before the first entry, the cursor has no position. A cursor
    /// without a position stays without one.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        if self.valid { self.reposition(Self::retreat) } else { Ok(()) }
    }

    fn reposition(&mut self, go: impl FnOnce(&mut Self) -> Result<bool>) -> Result<()> {
        self.valid = false;
        self.valid = go(self).map_err(|error| error.in_file(&self.table.path))?;
        Ok(())
    }

    /// Returns `false` if there is no such block or `go` returns `false`.
    fn enter(&mut self, number: usize, go: impl FnOnce(&mut EntryCursor, &Block<'_>) -> Result<bool>) -> Result<bool> {
        if self.block.as_ref().is_none_or(|block| block.1 != number) {
            let index = self.table.index()?;
            if number >= index.len() {
                return Ok(false);
            }
            let handle = index.handle(number)?;
            let content = match &mut self.ahead {
                Some(ahead) => self.table.data_block_ahead(handle, ahead, &mut self.reads)?,
                None => self.table.data_block(index, number, self.cache.as_deref(), &mut self.reads)?,
            };
            self.block = Some((content, number, handle.offset));
        }
        self.within(go)
    }

    /// Without a current block, returns `false`.
    fn within(&mut self, go: impl FnOnce(&mut EntryCursor, &Block<'_>) -> Result<bool>) -> Result<bool> {
        let Some((content, _, offset)) = &self.block else { return Ok(false) };
        go(&mut self.entry, &Block::parse(content.content(), *offset)?)
    }

    fn disordered<T>(&self) -> Result<T> {
        let offset = self.block.as_ref().map_or(0, |block| block.2);
        Err(Error::Corrupt { field: Field::Key, offset })
    }

    fn enter_last(&mut self) -> Result<bool> {
        let Some(number) = self.table.index()?.len().checked_sub(1) else { return Ok(false) };
        let found = self.enter(number, |entry, block| entry.last(block).map(|()| true))?;
        if self.entry.key() == self.table.largest() { Ok(found) } else { self.disordered() }
    }

    fn seek_inner(&mut self, key: &[u8]) -> Result<bool> {
        let number = self.table.index()?.seek(key)?;
        if self.enter(number, |entry, block| entry.seek(block, key))? {
            return Ok(true);
        }
        // If the block exists, `key` is above its last key and at most its separator. The next
        // block therefore starts above `key`.
        let found = number < self.table.index()?.len() && self.enter_first(number + 1)?;
        if found && self.entry.key() < key { self.disordered() } else { Ok(found) }
    }

    fn enter_first(&mut self, number: usize) -> Result<bool> {
        self.enter(number, |entry, block| entry.first(block).map(|()| true))
    }

    fn advance(&mut self) -> Result<bool> {
        if self.within(EntryCursor::advance)? {
            return Ok(true);
        }
        let next = self.block.as_ref().map_or(0, |block| block.1 + 1);
        let last = self.entry.key().to_vec();
        let found = self.enter_first(next)?;
        // A merge trusts that a run of SSTs is in order, so each SST must stay within its smallest
        // and largest key.
        let agrees = if found { self.entry.key() > last.as_slice() } else { last == self.table.largest() };
        if agrees { Ok(found) } else { self.disordered() }
    }

    fn retreat(&mut self) -> Result<bool> {
        if self.within(EntryCursor::retreat)? {
            return Ok(true);
        }
        match self.block.as_ref().and_then(|block| block.1.checked_sub(1)) {
            None if self.entry.key() == self.table.smallest() => Ok(false),
            None => self.disordered(),
            Some(number) => {
                let first = self.entry.key().to_vec();
                let found = self.enter(number, |entry, block| entry.last(block).map(|()| true))?;
                if self.entry.key() < first.as_slice() { Ok(found) } else { self.disordered() }
            }
        }
    }
}

/// An iterator over all entries of an SST, in ascending order.
#[derive(Debug)]
pub struct TableIter {
    cursor: TableCursor,
    started: bool,
}

impl Iterator for TableIter {
    type Item = Result<(Vec<u8>, Option<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = if self.started { self.cursor.next() } else { self.cursor.seek_to_first() };
        self.started = true;
        match moved {
            Err(error) => Some(Err(error)),
            Ok(()) if self.cursor.valid() => {
                Some(Ok((self.cursor.key().to_vec(), self.cursor.value().map(<[u8]>::to_vec))))
            }
            Ok(()) => None,
        }
    }
}
