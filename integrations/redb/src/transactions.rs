//! Reads and writes of a database with filters.

use filterblock::KeyHash;
use redb::{ReadOnlyTable, WriteTransaction};

use crate::filters::Filters;
use crate::{DATA, Error, GENERATION};

/// A snapshot of the database.
#[derive(Debug)]
pub struct Reader<'db> {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    filters: &'db Filters,
}

impl<'db> Reader<'db> {
    pub(crate) fn new(table: ReadOnlyTable<&'static [u8], &'static [u8]>, filters: &'db Filters) -> Self {
        Self { table, filters }
    }

    /// Returns the value of a key. If the filters deny the key, the function reads no page.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if !self.filters.may_contain(key) {
            return Ok(None);
        }
        Ok(self.table.get(key)?.map(|value| value.value().to_vec()))
    }

    /// Returns redb's table, for scans. Scans ask no filter.
    #[must_use]
    pub fn table(&self) -> &ReadOnlyTable<&'static [u8], &'static [u8]> {
        &self.table
    }
}

/// A transaction that writes. If it is dropped, nothing is written.
pub struct Writer<'db> {
    transaction: WriteTransaction,
    filters: &'db Filters,
    added: Vec<KeyHash>,
}

impl<'db> Writer<'db> {
    pub(crate) fn new(transaction: WriteTransaction, filters: &'db Filters) -> Self {
        Self { transaction, filters, added: Vec::new() }
    }

    /// Writes a key and its value.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.added.push(self.filters.hasher().of(key));
        self.transaction.open_table(DATA)?.insert(key, value)?;
        Ok(())
    }

    /// Removes a key. Returns whether the key was present.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.transaction.open_table(DATA)?.remove(key)?.is_some())
    }

    /// Commits the transaction under a new generation.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn commit(self) -> Result<(), Error> {
        let mut generation = [0; 16];
        getrandom::fill(&mut generation).map_err(|error| Error::Io(std::io::Error::other(error)))?;
        self.transaction.open_table(GENERATION)?.insert((), generation)?;
        // Before the commit: as soon as readers can see the keys, the filters must hold them.
        self.filters.add(self.added);
        self.transaction.commit()?;
        Ok(())
    }
}
