//! Guards an index against two commands that replace it at the same time. Otherwise the work of one
//! of them would be lost.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::super::failure::{Failure, Outcome};
use super::super::new_file::NewFile;
use super::super::output::message;

/// A lock on the index that a command replaces. Nothing is locked if the path names no file yet, or
/// if the system cannot lock the file.
pub struct Guard {
    path: PathBuf,
    locked: Option<File>,
}

impl Guard {
    /// Locks an existing index. Returns an error if the file cannot be opened, or if another
    /// command holds the lock or has just replaced or removed the file.
    pub fn of_index(path: &Path) -> Outcome<Self> {
        let file = File::open(path).map_err(|error| Failure::file(path, error))?;
        Self::lock(path, file)
    }

    /// Locks the output of a build, if it exists. Returns an error in the same cases as
    /// [`Self::of_index`], except for a missing file.
    pub fn of_output(path: &Path) -> Outcome<Self> {
        match File::open(path) {
            Ok(file) => Self::lock(path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path: path.into(), locked: None }),
            Err(error) => Err(Failure::file(path, error)),
        }
    }

    fn lock(path: &Path, file: File) -> Outcome<Self> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy(path)),
            Err(TryLockError::Error(error)) => message(format_args!(
                "{}: the file cannot be locked: {error}; the command goes on, so until it ends, start no other command that writes this index",
                path.display()
            )),
        }
        let guard = Self { path: path.into(), locked: Some(file) };
        // Another command may have replaced the file after it was opened and before it was locked.
        guard.check()?;
        Ok(guard)
    }

    /// Returns an error if the path no longer names the file that was opened. If there was no file,
    /// returns an error if there is one now.
    fn check(&self) -> Outcome<()> {
        let is_same = match (&self.locked, self.path.metadata()) {
            (Some(file), Ok(found)) => file.metadata().is_ok_and(|opened| place(&opened) == place(&found)),
            (None, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(busy(&self.path)) }
    }

    /// Writes the new index, and checks just before the rename that no other command has replaced
    /// the old one.
    pub fn publish(self, target: NewFile, bytes: &[u8]) -> Outcome<()> {
        target.publish_with(
            |mut file| file.write_all(bytes).map_err(|error| Failure::file(&self.path, error)),
            |()| self.check(),
        )
    }
}

fn busy(path: &Path) -> Failure {
    Failure::Message(format!(
        "{}: another command updates this index, or has just created, replaced or removed it; wait until that command has ended, and try again",
        path.display()
    ))
}

/// Returns the values by which files are compared. On Unix these are device and inode, which
/// identify a file. On other systems they are length and modification time, which two files may
/// share.
#[cfg(unix)]
fn place(found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

#[cfg(not(unix))]
fn place(found: &Metadata) -> (u64, Option<std::time::SystemTime>) {
    (found.len(), found.modified().ok())
}
