//! Tables that an open set aside because no manifest names them (`unnamed-NNNNNN.sst`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::lsm::parts::{FileName, Recovered, parse, set_aside_name};
use crate::sstable::Table;
use crate::storage::Storage;

/// Removes those of which the store says the same about every key, and gives their names: nothing goes with them. All others
/// stay, for a person to look at.
///
/// # Errors
/// When the directory cannot be listed.
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
            // The repair is done; this file is none of it.
            Err(error) => log::warn!("{}: left as it is: {error}", path.display()),
        }
    }
    Ok(removed)
}

/// Whether the table is sound, of this store, and has no entry that the store does not have.
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
