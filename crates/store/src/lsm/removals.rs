//! Files that nobody needs: removed while the store is open, and again later where that failed.

use std::path::PathBuf;

use super::reports::lock;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::storage::Storage;

/// What may be removed from the directory.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Whether the handle is gone, and with it the right to change the directory: another store may have files of these
    /// names. Snapshots may live on.
    pub(super) is_closed: bool,
    /// What could not be removed.
    left: Vec<PathBuf>,
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

fn removed(result: Result<()>) -> Result<()> {
    let is_gone =
        |error: &Error| matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound);
    result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

impl Shared {
    /// Removes files that nobody needs and that may not be there. Only for whoever keeps the store open: the lock is not
    /// held meanwhile, since a removal may take long and a reader that lets go of a table needs it.
    pub(super) fn discard(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let storage = self.options.storage.as_ref();
        let stays = |path: &PathBuf| {
            let result = removed(storage.remove(path));
            result.inspect_err(|error| log::warn!("a file that nobody needs stays for now: {error}")).is_err()
        };
        let left: Vec<PathBuf> = paths.into_iter().filter(stays).collect();
        if !left.is_empty() {
            lock(&self.files.closed).left.extend(left);
        }
    }

    /// Tries again to remove what could not be removed; as [`Self::discard`].
    pub(super) fn remove_left(&self) {
        let left = std::mem::take(&mut lock(&self.files.closed).left);
        self.discard(left);
    }
}
