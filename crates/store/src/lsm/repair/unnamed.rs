//! Tables that an open set aside because no manifest names them (`unnamed-NNNNNN.sst`).

use std::path::Path;
use std::sync::Arc;

use super::super::file_name::{FileName, parse};
use super::super::shared::Shared;
use crate::error::Result;
use crate::sstable::{Table, TableReadOptions};

/// Removes those of which the store says the same about every key: nothing goes with them. All others stay, for a person to
/// look at.
///
/// # Errors
/// I/O errors, and damage of the store's own tables.
pub(super) fn remove_known(shared: &Shared) -> Result<()> {
    let storage = shared.options.storage.as_ref();
    for name in storage.list(&shared.dir)? {
        let Some(FileName::Table(number)) = name.strip_prefix("unnamed-").and_then(parse) else { continue };
        let path = shared.dir.join(&name);
        if is_known(shared, &path, number)? {
            storage.remove(&path)?;
            log::warn!("{}: removed, as the store says the same about all its keys", path.display());
        }
    }
    Ok(())
}

/// Whether the table is sound, of this store, and has no entry that the store does not have.
fn is_known(shared: &Shared, path: &Path, number: u64) -> Result<bool> {
    let options = TableReadOptions {
        hasher: Some(shared.hasher.clone()),
        table_id: Some(shared.table_id(number)),
        ..TableReadOptions::default()
    };
    let table = match Table::open(shared.options.storage.as_ref(), path, options) {
        Ok(table) => Arc::new(table),
        Err(error) if error.is_damage() || error.is_unsupported() => return Ok(false),
        Err(error) => return Err(error),
    };
    if !table.verify()?.is_sound() {
        return Ok(false);
    }
    let (state, sequence) = shared.state.moment();
    for entry in table.iter() {
        let (key, value) = entry?;
        if shared.get(&state, &key, sequence)? != value {
            return Ok(false);
        }
    }
    Ok(true)
}
