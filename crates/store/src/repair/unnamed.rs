//! Tables that an open set aside because no manifest names them (`unnamed-NNNNNN.sst`).

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::lsm::parts::{FileName, Recovered, parse};
use crate::sstable::Table;
use crate::storage::Storage;

/// Removes those of which the store says the same about every key: nothing goes with them. All others stay, for a person to
/// look at.
///
/// # Errors
/// I/O errors, and damage of the store's own tables.
pub(super) fn remove_known(storage: &dyn Storage, dir: &Path, store: &Recovered) -> Result<()> {
    for name in storage.list(dir)? {
        let Some(FileName::Table(number)) = name.strip_prefix("unnamed-").and_then(parse) else { continue };
        let path = dir.join(&name);
        if is_known(storage, store, &path, number)? {
            storage.remove(&path)?;
            log::warn!("{}: removed, as the store says the same about all its keys", path.display());
        }
    }
    Ok(())
}

/// Whether the table is sound, of this store, and has no entry that the store does not have.
fn is_known(storage: &dyn Storage, store: &Recovered, path: &Path, number: u64) -> Result<bool> {
    let table = match Table::open(storage, path, store.table_read_options(number)) {
        Ok(table) => Arc::new(table),
        Err(error) if error.is_damage() => return Ok(false),
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
