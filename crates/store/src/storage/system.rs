//! Provides helpers for files of the operating system: errors that name the file, locks, copies and
//! free space.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::engine_lock;
use crate::error::{Error, Result};

pub(super) fn in_file<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::from(error).in_file(path))
}

/// Returns `file` if it is a regular file, and otherwise an error of kind `InvalidInput`.
pub(super) fn check_plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let reason = "not a regular file; check the path, or move the directory, device or pipe away";
    Err(io::Error::new(ErrorKind::InvalidInput, reason))
}

/// Copies `source` to `target`, a new file at `to`, and syncs `target`. If either step fails, calls
/// `remove`, which must remove `target`.
pub(super) fn copy_into(
    source: &mut File,
    target: &mut File,
    to: &Path,
    remove: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    let copied = io::copy(source, target).and_then(|_| target.sync_all());
    if copied.is_err() {
        // A partial copy must not remain. If the removal fails too, the caller gets the error of
        // the copy.
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
        // Closing alone is not enough: if another thread starts a process, that process shares all
        // open files between fork and exec, and would keep the lock. If the unlock fails, the close
        // still releases the lock when no other process shares the file.
        let _ = self.0.unlock();
    }
}

/// Returns the free space in bytes, without the blocks reserved for the superuser. Returns `None`
/// for a file system that reports no size, such as ramfs.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
pub(super) fn free_of(found: &rustix::fs::StatVfs) -> Option<u64> {
    (found.f_blocks != 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}
