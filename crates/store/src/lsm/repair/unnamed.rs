//! Tables that an open set aside because no manifest names them (`unnamed-NNNNNN.sst`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::file_name::{FileName, parse, set_aside_name};
use super::super::shared::Shared;
use crate::error::Result;
use crate::sstable::{Table, TableReadOptions};

/// Removes those of which the store says the same about every key, and gives their names: nothing goes with them. All others
/// stay, for a person to look at.
///
/// # Errors
/// When the directory cannot be listed.
pub(super) fn remove_known(shared: &Shared) -> Result<Vec<PathBuf>> {
    let storage = shared.options.storage.as_ref();
    let mut removed = Vec::new();
    for name in storage.list(&shared.dir)? {
        let Some(FileName::Table(number)) = set_aside_name(&name).and_then(parse) else { continue };
        let path = shared.dir.join(&name);
        let result = is_known(shared, &path, number)
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
