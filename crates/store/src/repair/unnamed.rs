//! Removes SST files that an open set aside because no manifest names them (`unnamed-NNNNNN.sst`),
//! if the store holds all their entries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::lsm::parts::{FileName, Recovered, parse, set_aside_name};
use crate::sstable::Table;
use crate::storage::Storage;

/// Removes each sound set-aside SST whose entries the store holds too. Returns the paths of the
/// removed SSTs. An SST that cannot be checked or removed stays, and a warning is logged.
pub(super) fn remove_known(storage: &dyn Storage, dir: &Path, store: &Recovered) -> Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = set_aside_name(&name).and_then(parse) else { continue };
        let path = dir.join(&name);
        let result = is_known(storage, store, &path, number)
            .and_then(|is_known| if is_known { storage.remove(&path).map(|()| true) } else { Ok(false) });
        match result {
            Ok(true) => removed.push(path),
            Ok(false) => {}
            // The repair itself is done, and this file is not part of it.
            Err(error) => {
                log::warn!("{}: the set-aside SST could not be checked or removed and stays: {error}", path.display())
            }
        }
    }
    Ok(removed)
}

/// Returns whether the SST is sound, belongs to this store, and has only entries that the store
/// also has.
fn is_known(storage: &dyn Storage, store: &Recovered, path: &Path, number: u64) -> Result<bool> {
    let table = match Table::open(storage, path, store.table_read_options(number)) {
        Ok(table) => Arc::new(table),
        Err(error) if error.is_damage() || error.is_unsupported() => return Ok(false),
        Err(error) => return Err(error),
    };
    if !table.verify()?.is_sound() {
        return Ok(false);
    }
    for entry in table.iter() {
        let (key, value) = entry?;
        if store.get(&key)? != value {
            return Ok(false);
        }
    }
    Ok(true)
}
