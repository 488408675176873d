//! Provides locks that protect a filter's file from a second writer, and a check that a path still
//! leads to an open file.
//!
//! A writer locks `PATH.lock` and, on Unix, the file itself. On Unix, either file can be renamed or
//! removed, so one lock alone does not keep a second writer out. No lock call waits, so the order
//! of the locks cannot cause a deadlock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file that stays locked until this handle is dropped. A filter's file is locked only on Unix;
/// see [`try_lock_filter`].
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Locks `file`. Errors name `path`.
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        try_lock(&file, path).map(|()| Self(file))
    }

    /// Locks a filter's file that was opened at `path`; see [`try_lock_filter`].
    pub(super) fn of_filter(file: File, path: &Path) -> Result<Self> {
        try_lock_filter(&file, path)?;
        let file = Self(file);
        // `false` means that the file was moved, removed or replaced after this process opened it
        // and before it locked it. A writer that replaced the file may hold the lock of the new
        // file.
        match is_at(&file.0, path) {
            Ok(true) => Ok(file),
            Ok(false) => Err(Error::Locked.in_file(path)),
            Err(error) => Err(Error::from(error).in_file(path)),
        }
    }

    /// Wraps a file that [`try_lock_filter`] has locked.
    pub(super) fn already(file: File) -> Self {
        Self(file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Unlock explicitly. While a child process starts, it shares all open files for a moment.
        // It would keep the lock after a plain close.
        let _ = self.0.unlock();
    }
}

fn try_lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
        Err(TryLockError::Error(error)) => Err(Error::from(error).in_file(path)),
    }
}

/// Locks a filter's file on Unix, where locks do not stop readers. Elsewhere it does nothing, and
/// `PATH.lock` alone keeps other writers out.
pub(super) fn try_lock_filter(file: &File, path: &Path) -> Result<()> {
    if cfg!(unix) { try_lock(file, path) } else { Ok(()) }
}

/// The lock file beside a filter's file. It stays the same when the filter's file is replaced.
#[derive(Debug)]
pub(super) struct NameLock {
    path: PathBuf,
    file: Locked,
    /// If set, a drop removes the lock file on Unix, because no filter was created or opened.
    /// Elsewhere the lock file stays, because `is_at` cannot tell files apart.
    is_new: bool,
}

impl NameLock {
    /// Takes the lock for `path`, and creates the lock file if there is none. The path must have no
    /// symbolic links, because another path of the same file would have another lock file.
    pub(super) fn take(path: &Path) -> Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let beside = PathBuf::from(beside);
        let in_file = |error: io::Error| Error::from(error).in_file(&beside);
        let (file, is_new) = open_or_create(&beside).map_err(in_file)?;
        let file = Locked::new(file, path)?;
        // `false` means that the lock file was moved, removed or replaced after this process opened
        // it and before it locked it. Another writer may have locked a new lock file.
        if !is_at(file.file(), &beside).map_err(in_file)? {
            return Err(Error::Locked.in_file(path));
        }
        Ok(Self { path: beside, file, is_new })
    }

    /// Makes a drop keep the lock file, because there is a filter beside it.
    pub(super) fn keep(&mut self) {
        self.is_new = false;
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // The lock file is still locked here. Remove it only if `path` still leads to it.
        if self.is_new && cfg!(unix) && is_at(self.file.file(), &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens or creates the file at `path`. Returns the file, and whether it is new. Returns an error
/// if `path` is not a regular file, for example a symbolic link.
fn open_or_create(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !path.symlink_metadata()?.is_file() {
                return Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    "the lock is not a regular file; move it away, and try again",
                ));
            }
            Ok((OpenOptions::new().write(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether `path` leads to `file` without a symbolic link as its last part. On systems
/// other than Unix, it returns `true` if `path` is any regular file.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) => is_same(file, &found),
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn is_same(file: &File, found: &fs::Metadata) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    Ok((ours.dev(), ours.ino()) == (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn is_same(_: &File, found: &fs::Metadata) -> io::Result<bool> {
    Ok(found.is_file())
}
