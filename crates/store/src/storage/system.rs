//! What all files of the operating system have in common: errors that name them, locks, copies, the room they have.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::engine_lock;
use crate::error::{Error, Result};

pub(super) fn in_file<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::from(error).in_file(path))
}

/// # Errors
/// `InvalidInput` for what is no plain file: a directory, a pipe, a device.
pub(super) fn check_plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "not a plain file; remove it, or give it another name"))
}

/// Copies a file to another, which `remove` removes again after a failure.
pub(super) fn copy_into(
    source: &mut File,
    target: &mut File,
    to: &Path,
    remove: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    let copied = io::copy(source, target).and_then(|_| target.sync_all());
    if copied.is_err() {
        // Half a copy must not look like a file; that it could not be removed changes nothing about the first error.
        let _ = remove();
    }
    in_file(to, copied)
}

pub(super) struct LockedFile(pub(super) File);

impl LockedFile {
    pub(super) fn of(file: File, path: &Path) -> Result<Self> {
        if in_file(path, engine_lock::is_held(&file))? {
            return Err(Error::Locked.in_file(path));
        }
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
            Err(TryLockError::Error(error)) => Err(Error::from(error).in_file(path)),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a process that another thread is just starting: between fork and exec
        // it shares all open files. Should unlocking fail, closing is what is left.
        let _ = self.0.unlock();
    }
}

/// Without the blocks that only the superuser gets. `None` for a file system that states no size, such as ramfs.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
pub(super) fn free_of(found: &rustix::fs::StatVfs) -> Option<u64> {
    (found.f_blocks != 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}
