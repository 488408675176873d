//! Reads and writes a database with filters.

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

    /// Returns redb's table, for scans. Scans do not use the filters.
    #[must_use]
    pub fn table(&self) -> &ReadOnlyTable<&'static [u8], &'static [u8]> {
        &self.table
    }
}

/// A transaction that writes. If it is dropped without [`commit`](Self::commit), nothing is
/// written.
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

    /// Commits the transaction with a new random generation.
    ///
    /// # Errors
    /// Returns the errors of redb, and an I/O error if the operating system has no random bytes.
    pub fn commit(self) -> Result<(), Error> {
        let mut generation = [0; 16];
        getrandom::fill(&mut generation).map_err(|error| Error::Io(std::io::Error::other(error)))?;
        self.transaction.open_table(GENERATION)?.insert((), generation)?;
        // The filters must have the keys before readers can see the keys, so this call comes before
        // the commit.
        self.filters.add(self.added);
        self.transaction.commit()?;
        Ok(())
    }
}
