//! The parts of a store that a module beside it works with: its files, its state, and a store without threads.
//!
//! Everything else of the store is private to `lsm`.

use std::path::Path;
use std::sync::Arc;

pub(crate) use super::file_name::{
    CURRENT, FileName, LOCK, log_name, manifest_name, number_in, parse, set_aside_name, table_name,
};
pub(crate) use super::flush::{origin, table_meta};
pub(crate) use super::log_file::{HEADER_LEN_BYTES, LogId, LogKind};
pub(crate) use super::log_reader::{LogEnd, read_log};
pub(crate) use super::manifest::{Manifest, log_id, read_current};
pub(crate) use super::open::{hold, in_order, its_hasher, named, new_hasher, random_u64};
use super::options::Options;
pub(crate) use super::ownership::{Ownership, reason_to_keep};
use super::shared::Shared;
pub(crate) use super::shared::table_id;
pub(crate) use super::version_edit::{MAX_NUMBER, StoreState, TableMeta, VersionEdit};
use crate::error::Result;
use crate::sstable::TableReadOptions;
use crate::storage::Storage;

/// A store that was opened to bring in its logs: it answers reads, and has no threads.
#[derive(Debug)]
pub(crate) struct Recovered(Arc<Shared>);

impl Recovered {
    /// Opens the store for the caller, who has its lock, with what [`hold`] gave.
    ///
    /// # Errors
    /// As [`super::Db::open`].
    pub(crate) fn open(dir: &Path, options: Options, outside: Arc<dyn Storage>) -> Result<Self> {
        super::open::open_locked(dir, options, outside).map(Self)
    }

    /// # Errors
    /// As [`super::Db::get`].
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (state, sequence) = self.0.reading.state.moment();
        self.0.get(&state, key, sequence)
    }

    /// How a file is read that says to be the store's table `number`.
    pub(crate) fn table_read_options(&self, number: u64) -> TableReadOptions {
        TableReadOptions {
            hasher: Some(self.0.identity.hasher.clone()),
            table_id: Some(self.0.identity.table_id(number)),
            ..TableReadOptions::default()
        }
    }
}
