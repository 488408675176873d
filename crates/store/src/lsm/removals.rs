//! Removes unneeded files while the store is open, and retries later if that fails.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::storage::Storage;

/// The state of file deletion in the store's directory.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Whether the store's handle is closed. Snapshots may outlive the handle, but they must not
    /// change the directory, because another store may have files with the same names there.
    pub(super) is_closed: bool,
    /// Files that could not be removed.
    pub(super) left: Vec<PathBuf>,
}

impl Removals {
    /// Removes a file if it exists. If the removal fails, the store tries again later. After the
    /// store is closed, this function does nothing.
    pub(super) fn remove(&mut self, storage: &dyn Storage, path: PathBuf) {
        if self.is_closed {
            return;
        }
        if let Err(error) = removed(storage.remove(&path)) {
            log::warn!("an unneeded file could not be removed; the store tries again later: {error}");
            self.left.push(path);
        }
    }
}

/// Returns the result of removing a file, and treats a missing file as removed.
pub(super) fn removed(result: Result<()>) -> Result<()> {
    let is_gone =
        |error: &Error| matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound);
    result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

/// Returns whether a file could not be created because another file has its name. The store must
/// not remove that file.
pub(super) fn is_taken(error: &Error) -> bool {
    matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}
