//! Provides helpers for files of the operating system: errors that name the file, locks, copies and
//! free space.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

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
        if in_file(path, is_engine_lock_held(&file))? {
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

/// Returns whether another process holds an `fcntl` lock on a file. LevelDB and RocksDB lock their
/// `LOCK` file with `fcntl`, which `flock` ignores. Call this function before `flock`: on NFS it could
/// otherwise report the store's own lock.
///
/// The store takes no such lock itself, for two reasons:
/// * When a process closes any descriptor of a file, the kernel drops all `fcntl` locks of the
///   process on that file. A failed second open of the store would thus release the lock of the
///   first open.
/// * On NFS, `flock` is an `fcntl` lock too, so the store's two locks would exclude each other.
#[cfg(unix)]
fn is_engine_lock_held(file: &File) -> io::Result<bool> {
    use rustix::io::Errno;
    use rustix::process::{Flock, FlockType, fcntl_getlk};
    match fcntl_getlk(file, &Flock::from(FlockType::WriteLock)) {
        Ok(blocking) => Ok(blocking.is_some()),
        // On a file system without `fcntl` locks, no engine can hold one.
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Always returns `false`. On Windows, opening the lock file of a running engine already fails.
#[cfg(not(unix))]
fn is_engine_lock_held(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Returns the free space in bytes, without the blocks reserved for the superuser. Returns `None`
/// for a file system that reports no size, such as ramfs.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
pub(super) fn free_of(found: &rustix::fs::StatVfs) -> Option<u64> {
    (found.f_blocks != 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}
