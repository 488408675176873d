//! Walks over the entries of a sorted file, in both directions.

use std::sync::Arc;

use super::block_cache::{BlockCache, BlockContent};
use super::data_block::{Block, EntryCursor};
use super::reader::{BlockReads, Table};
use crate::error::{Error, Field, Result};

/// A place among the entries of a table, which it keeps open.
///
/// It begins nowhere, and is nowhere again past either end and after an error.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    cache: Option<Arc<BlockCache>>,
    /// The data block of the present place, its number and its offset.
    block: Option<(BlockContent, usize, u64)>,
    entry: EntryCursor,
    valid: bool,
}

impl Table {
    /// A cursor that reads through `cache`, or, without one, keeps only the block that it is in: for whoever goes through
    /// the table once.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, cache: Option<Arc<BlockCache>>) -> TableCursor {
        TableCursor { table: Arc::clone(self), cache, block: None, entry: EntryCursor::default(), valid: false }
    }

    /// All entries in ascending order; a value of `None` is a tombstone. It ends after an error.
    #[must_use]
    pub fn iter(self: &Arc<Self>) -> TableIter {
        TableIter { cursor: self.cursor(None), started: false }
    }
}

impl TableCursor {
    /// Whether there is an entry at the present place.
    #[must_use]
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key at the present place; empty when there is none.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid { self.entry.key() } else { &[] }
    }

    /// The value at the present place; `None` for a tombstone, and when there is no entry.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        let (content, _, offset) = self.block.as_ref().filter(|_| self.valid)?;
        self.entry.value(&Block::parse(content, *offset).ok()?)
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// I/O errors and damage, with the file named; so for all that moves.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.place(|cursor| {
            let found = cursor.enter_first(0)?;
            let agrees = !found || cursor.entry.key() == cursor.table.smallest();
            if agrees { Ok(found) } else { cursor.disordered() }
        })
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// As for [`Self::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.place(Self::enter_last)
    }

    /// Goes to the first entry whose key is at least `key`.
    ///
    /// # Errors
    /// As for [`Self::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place(|cursor| cursor.seek_inner(key))
    }

    /// Goes to the last entry whose key is at most `key`.
    ///
    /// # Errors
    /// As for [`Self::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.place(|cursor| match cursor.seek_inner(key)? {
            true if cursor.entry.key() == key => Ok(true),
            true => cursor.retreat(),
            false => cursor.enter_last(),
        })
    }

    /// Goes one entry on; stays nowhere if it is nowhere.
    ///
    /// # Errors
    /// As for [`Self::seek_to_first`].
    #[expect(clippy::should_implement_trait, reason = "the usual name; an iterator's items would be copies")]
    pub fn next(&mut self) -> Result<()> {
        if self.valid { self.place(Self::advance) } else { Ok(()) }
    }

    /// Goes one entry back; stays nowhere if it is nowhere.
    ///
    /// # Errors
    /// As for [`Self::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        if self.valid { self.place(Self::retreat) } else { Ok(()) }
    }

    fn place(&mut self, go: impl FnOnce(&mut Self) -> Result<bool>) -> Result<()> {
        self.valid = false;
        self.valid = go(self).map_err(|error| error.in_file(&self.table.path))?;
        Ok(())
    }

    /// Makes the data block `number` the present one and goes to a place in it; `false` when there is no such block.
    fn enter(&mut self, number: usize, go: impl FnOnce(&mut EntryCursor, &Block<'_>) -> Result<bool>) -> Result<bool> {
        if self.block.as_ref().is_none_or(|block| block.1 != number) {
            let index = self.table.index()?;
            if number >= index.len() {
                return Ok(false);
            }
            let handle = index.handle(number)?;
            let content = self.table.data_block(handle, self.cache.as_deref(), &mut BlockReads::default())?;
            self.block = Some((content, number, handle.offset));
        }
        self.within(go)
    }

    /// Moves within the present block; `false` when there is none.
    fn within(&mut self, go: impl FnOnce(&mut EntryCursor, &Block<'_>) -> Result<bool>) -> Result<bool> {
        let Some((content, _, offset)) = &self.block else { return Ok(false) };
        go(&mut self.entry, &Block::parse(content, *offset)?)
    }

    /// Keys that are in no order, or beyond the first and last that the table says it has, at the present block.
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
        // Between the last key of the block and its separator: the next block begins above.
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
        // A run of tables is in order because each stays within its own bounds.
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

/// All entries of a table, ascending.
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
