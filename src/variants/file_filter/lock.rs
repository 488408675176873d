//! Who may write to a filter's file: two locks, and whether the file still has its name.
//!
//! A writer holds `PATH.lock` and the file itself. Either can be renamed or removed, so neither alone keeps a second
//! writer out. No lock is waited for, so their order cannot end in a deadlock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::variants::error::{Error, Result};

/// A file that nobody else has locked, until it is dropped.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Locks `file`; an error names `path`.
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        try_lock(&file, path).map(|()| Self(file))
    }

    /// Locks a filter's file, which was opened at `path`, where that lets others read it.
    pub(super) fn of_filter(file: File, path: &Path) -> Result<Self> {
        try_lock_filter(&file, path)?;
        let file = Self(file);
        // A writer replaced the file between its opening and its locking, and its lock went over to the new one.
        match is_at(&file.0, path) {
            Ok(true) => Ok(file),
            Ok(false) => Err(Error::Locked.in_file(path)),
            Err(error) => Err(Error::from(error).in_file(path)),
        }
    }

    /// A file whose lock [`try_lock_filter`] took.
    pub(super) fn already(file: File) -> Self {
        Self(file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a process that is just being started, which shares all open files until
        // then.
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

/// Only Unix has locks that readers need not heed. Elsewhere `PATH.lock` alone keeps other writers out.
pub(super) fn try_lock_filter(file: &File, path: &Path) -> Result<()> {
    if cfg!(unix) { try_lock(file, path) } else { Ok(()) }
}

/// The lock beside a filter's file, which stays the same when the file is replaced by another of its name.
#[derive(Debug)]
pub(super) struct NameLock {
    path: PathBuf,
    file: Locked,
    /// To be removed unless a filter comes of it.
    is_new: bool,
}

impl NameLock {
    /// `path` has no links in it: another name would be another lock.
    pub(super) fn take(path: &Path) -> Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let beside = PathBuf::from(beside);
        let in_file = |error: io::Error| Error::from(error).in_file(&beside);
        let (file, is_new) = open_or_create(&beside).map_err(in_file)?;
        let file = Locked::new(file, path)?;
        // Someone removed the file between its opening and its locking: another filter may have locked the next one.
        if !is_at(file.file(), &beside).map_err(in_file)? {
            return Err(Error::Locked.in_file(path));
        }
        Ok(Self { path: beside, file, is_new })
    }

    /// Lets the file stay: there is a filter beside it.
    pub(super) fn keep(&mut self) {
        self.is_new = false;
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // Still locked. Where it is not known whether it has its name, it stays.
        if self.is_new && cfg!(unix) && is_at(self.file.file(), &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the file at `path`, never what a link there points to; and whether it is new.
fn open_or_create(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !path.symlink_metadata()?.is_file() {
                return Err(io::Error::new(error.kind(), "not a regular file; remove it, or choose another name"));
            }
            Ok((OpenOptions::new().write(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// Whether `path` is a name of `file`, and no link. Where files have no numbers, any file will do.
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
