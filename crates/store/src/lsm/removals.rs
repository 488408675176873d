//! Files that nobody needs: removed while the store is open, and again later where that failed.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::storage::Storage;

/// What may be removed from the directory.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Whether the handle is gone, and with it the right to change the directory: another store may have files of these
    /// names. Snapshots may live on.
    pub(super) is_closed: bool,
    /// What could not be removed.
    pub(super) left: Vec<PathBuf>,
}

impl Removals {
    /// Removes a file, which may not be there. One that stays is removed later, or when the store is opened next.
    pub(super) fn remove(&mut self, storage: &dyn Storage, path: PathBuf) {
        if self.is_closed {
            return;
        }
        if let Err(error) = removed(storage.remove(&path)) {
            log::warn!("a file that nobody needs stays for now: {error}");
            self.left.push(path);
        }
    }
}

pub(super) fn removed(result: Result<()>) -> Result<()> {
    let is_gone =
        |error: &Error| matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound);
    result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

/// Whether a file could not be made as another has its name: that one is not the store's to remove.
pub(super) fn is_taken(error: &Error) -> bool {
    matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}
