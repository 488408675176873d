//! Exports the parts of the store that modules outside `lsm` use: its files, its state, and a store
//! without threads.
//!
//! Everything else that is not public is private to `lsm`.

use std::path::Path;
use std::sync::Arc;

pub(crate) use super::compaction::flush::{origin, table_meta};
pub(crate) use super::files::{
    CURRENT, FileName, LOCK, log_name, manifest_name, number_in, parse, set_aside_name, table_name,
};
pub(crate) use super::manifest::edit::{MAX_NUMBER, StoreState, TableMeta, VersionEdit};
pub(crate) use super::manifest::{Manifest, log_id, read_current};
use super::options::Options;
pub(crate) use super::recovery::ownership::{OTHER_STORE, Ownership, is_of_another_store, reason_to_keep};
pub(crate) use super::recovery::prefixes::choose as choose_extractor;
pub(crate) use super::recovery::replay::check_file_numbers;
pub(crate) use super::recovery::{hold, in_order, its_hasher, named, new_hasher, random_u64};
use super::shared::Shared;
pub(crate) use super::shared::table_id;
pub(crate) use super::wal::log_reader::{LogEnd, read_log};
pub(crate) use super::wal::{HEADER_LEN_BYTES, LogId, LogKind};
use crate::error::Result;
use crate::sstable::TableReadOptions;
use crate::storage::Storage;

/// A store that was opened only to recover its logs. It answers reads and runs no threads.
#[derive(Debug)]
pub(crate) struct Recovered(Arc<Shared>);

impl Recovered {
    /// Opens the store. The caller has the store's lock and passes the results of [`hold`].
    pub(crate) fn open(dir: &Path, options: Options, outside: Arc<dyn Storage>) -> Result<Self> {
        super::recovery::open_locked(dir, options, outside).map(Self)
    }

    /// Returns the newest value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (state, sequence) = self.0.reading.state.moment();
        self.0.get(&state, key, sequence)
    }

    /// Returns the options for reading a file that claims to be SST `number` of this store.
    pub(crate) fn table_read_options(&self, number: u64) -> TableReadOptions {
        TableReadOptions {
            hasher: Some(self.0.identity.hasher.clone()),
            table_id: Some(self.0.identity.table_id(number)),
            prefix_extractor: self.0.identity.extractor.clone(),
            ..TableReadOptions::default()
        }
    }
}
