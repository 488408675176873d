//! Shows how to keep a [`FilterSet`] beside redb, an engine that has no place for a filter.
//!
//! redb is a B-tree, so a get of an absent key reads a path of pages. [`FilteredDb`] keeps a filter
//! of all keys in memory and asks it before each get. Copy this crate, and adapt its redb table to
//! yours.
//!
//! ```
//! use filterblock_redb::FilteredDb;
//!
//! # let dir = tempfile::tempdir().unwrap();
//! let db = FilteredDb::open(dir.path().join("words.redb"))?;
//! let mut writer = db.begin_write()?;
//! writer.insert(b"apple", b"red")?;
//! writer.commit()?;
//!
//! let reader = db.begin_read()?;
//! assert_eq!(reader.get(b"apple")?.as_deref(), Some(&b"red"[..]));
//! assert_eq!(reader.get(b"plum")?, None); // usually reads no page of redb
//! # Ok::<(), filterblock_redb::Error>(())
//! ```
//!
//! # Why no key is lost
//!
//! * The filters have every key that an open snapshot may contain. A key enters the filters before
//!   its transaction commits. A removed key stays in the filters until [`FilteredDb::rebuild`] or
//!   [`FilteredDb::save`] builds a new filter. Both take `&mut self`, so no reader is open.
//! * [`FilteredDb`] owns the database. While it is open, redb's file lock keeps out other
//!   processes.
//! * [`FilteredDb::open`] reads all keys and uses no saved filter, which could be stale.
//! * [`FilteredDb::open_saved`] uses the filter that [`FilteredDb::save`] wrote, but only if the
//!   database has the same generation and number of keys. A generation is 16 random bytes that each
//!   [`Writer::commit`] draws anew. The documentation of [`FilteredDb::open_saved`] states the one
//!   rule that the caller must follow.
//! * A filter that cannot be built answers "maybe". A saved filter that cannot be opened is built
//!   again.

mod filters;
mod transactions;

use std::path::{Path, PathBuf};

use filterblock::FilterSet;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use filters::Filters;
pub use filters::Opened;
pub use transactions::{Reader, Writer};

/// An error of redb, or an I/O error of [`FilteredDb::save`] or [`Writer::commit`]. Queries of
/// filters cause no errors: a filter that cannot be used answers "maybe".
pub type Error = redb::Error;

/// The table of the user's keys and values.
const DATA: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");
/// The table whose only row is the generation of the database.
const GENERATION: TableDefinition<'_, (), [u8; 16]> = TableDefinition::new("filterblock generation");

/// A redb database with filters beside it.
#[derive(Debug)]
pub struct FilteredDb {
    db: Database,
    filter_path: PathBuf,
    filters: Filters,
}

impl FilteredDb {
    /// Opens or creates a database, and builds a filter of all its keys.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let mut this = Self::open_unfiltered(path.as_ref())?;
        this.rebuild()?;
        Ok(this)
    }

    /// Opens or creates a database, with the filter that [`FilteredDb::save`] wrote. If this filter
    /// cannot be used, for example because it is damaged or stale, the function builds a new one
    /// from all keys. [`FilteredDb::opened`] tells which of the two happened.
    ///
    /// **Every write to the database must have gone through [`FilteredDb`].** A program that writes
    /// with redb alone does not change the generation, so the saved filter can deny its keys. If
    /// such a program exists, use [`FilteredDb::open`]. This function detects writes of such a
    /// program only if they change the number of keys.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn open_saved(path: impl AsRef<Path>) -> Result<Self, Error> {
        let mut this = Self::open_unfiltered(path.as_ref())?;
        let snapshot = this.db.begin_read()?;
        let num_keys = snapshot.open_table(DATA)?.len()?;
        let generation = generation_of(&snapshot)?;
        if !this.filters.load(&this.filter_path, generation, num_keys) {
            this.build_from(&snapshot)?;
        }
        Ok(this)
    }

    fn open_unfiltered(path: &Path) -> Result<Self, Error> {
        let mut filter_path = path.as_os_str().to_owned();
        filter_path.push(".filter");
        let db = Database::create(path)?;
        let create = db.begin_write()?;
        create.open_table(DATA)?;
        create.open_table(GENERATION)?;
        create.commit()?;
        Ok(Self { db, filter_path: filter_path.into(), filters: Filters::new() })
    }

    /// Builds one new filter from all keys, without removed keys. It replaces all other filters. If
    /// the build fails, the new filter answers "maybe" to every key.
    ///
    /// # Errors
    /// Returns the errors of redb. The old filters then stay.
    pub fn rebuild(&mut self) -> Result<(), Error> {
        let snapshot = self.db.begin_read()?;
        self.build_from(&snapshot)
    }

    fn build_from(&mut self, snapshot: &redb::ReadTransaction) -> Result<(), Error> {
        let generation = generation_of(snapshot)?;
        let table = snapshot.open_table(DATA)?;
        let mut hashes = Vec::new();
        for row in table.iter()? {
            hashes.push(self.filters.hasher().of(row?.0.value()));
        }
        self.filters.build(generation.unwrap_or_default(), &hashes);
        Ok(())
    }

    /// Writes the filter to a file beside the database, for [`FilteredDb::open_saved`]. If a
    /// transaction was committed since the last build, the function rebuilds the filter first.
    ///
    /// # Errors
    /// Returns the errors of redb and of the file system, and an error if the filter could not be
    /// built. After an error, the old file stays.
    pub fn save(&mut self) -> Result<(), Error> {
        let generation = generation_of(&self.db.begin_read()?)?;
        if !self.filters.are_of(generation.unwrap_or_default()) {
            self.rebuild()?;
        }
        self.filters.save(&self.filter_path).map_err(Error::Io)
    }

    /// Begins a read of the current state.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn begin_read(&self) -> Result<Reader<'_>, Error> {
        Ok(Reader::new(self.db.begin_read()?.open_table(DATA)?, &self.filters))
    }

    /// Begins a write. redb has one writer at a time, so the function waits while there is another.
    ///
    /// # Errors
    /// Returns the errors of redb.
    pub fn begin_write(&self) -> Result<Writer<'_>, Error> {
        Ok(Writer::new(self.db.begin_write()?, &self.filters))
    }

    /// Returns `false` only if no snapshot contains the key. Returns `true` for false positives,
    /// too.
    #[must_use]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.filters.may_contain(key)
    }

    /// Returns how the filter was made when the database was opened.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        self.filters.opened()
    }

    /// Calls `look` with the set of filters, and returns its result. Use this method to read the
    /// counts and the length of the set. Commits wait until `look` returns.
    pub fn with_filter_set<T>(&self, look: impl FnOnce(&FilterSet) -> T) -> T {
        self.filters.with_set(look)
    }
}

/// Returns the generation of a snapshot, or `None` before the first [`Writer::commit`].
fn generation_of(snapshot: &redb::ReadTransaction) -> Result<Option<[u8; 16]>, Error> {
    Ok(snapshot.open_table(GENERATION)?.get(())?.map(|row| row.value()))
}
