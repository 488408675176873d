//! Where bytes live: every file of a store goes through [`Storage`], so that faults can be put in its place.
//!
//! Files are written once, front to back, and published by a rename; nothing that has a final name is ever changed.
//! Every error names its file. The implementations are [`Disk`] and [`Memory`], and one
//! that fails on demand, for tests.

#[cfg(any(not(unix), test))]
mod absolute;
mod disk;
mod disk_file;
mod engine_lock;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
#[cfg(unix)]
mod held;
mod memory;
#[cfg(unix)]
mod root;
mod system;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

pub use disk::Disk;
pub use memory::Memory;

use crate::error::Result;

/// How data blocks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoMode {
    /// Through the operating system's page cache.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`, Linux only; elsewhere the same as `Buffered`).
    Direct,
}

/// A file system, as far as a store needs one.
pub trait Storage: Debug + Send + Sync {
    /// Opens an existing file for reading at any place.
    ///
    /// # Errors
    /// When the file is missing or unreadable.
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>>;

    /// Creates a new file for writing; an existing one is an error.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// The whole content of a file.
    ///
    /// # Errors
    /// When the file is missing or unreadable.
    fn read(&self, path: &Path) -> Result<Vec<u8>>;

    /// Gives a file another name, replacing whatever had it; durable after [`Storage::sync_dir`].
    ///
    /// # Errors
    /// When the file is missing or the directory is unwritable.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name, by a hard link or, across file systems, by a synced copy; `to` must not exist.
    ///
    /// # Errors
    /// When the file is missing, `to` exists, or there is no space.
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file; whoever has it open or mapped keeps its bytes.
    ///
    /// # Errors
    /// When the file is missing or the directory is unwritable.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Whether a file or directory of that name exists.
    ///
    /// # Errors
    /// When the system gives no answer: a store that only seemed to be missing would be made anew over the old one.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The names in a directory, of files and of directories, sorted; those that are not UTF-8 are given lossily.
    ///
    /// # Errors
    /// When the directory is missing or unreadable.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates a directory and its parents; an existing one is fine.
    ///
    /// # Errors
    /// When something else has the name or a parent is unwritable.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes creations, renames and removals in a directory durable.
    ///
    /// # Errors
    /// When the operating system reports a failure.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the exclusive lock that the file at `path` stands for (created if missing); dropping the guard frees it.
    ///
    /// # Errors
    /// [`crate::Error::Locked`] when another holder, in this process or another, has it, or when the process of another
    /// engine holds a lock of its own kind on the file.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;

    /// Holds on to a directory. The storage that it gives works in that very directory, whatever becomes of the path: paths
    /// are given to it as before, all of them in or below `dir`. On Unix its locks also lock the directory itself, where the
    /// file system can; elsewhere `LOCK` is the only lock. Held by a
    /// storage that holds another directory, its [`Storage::link_or_copy`] links files of that one.
    ///
    /// `None`, which is the default, stands for a storage in which a path never comes to lead elsewhere.
    ///
    /// # Errors
    /// When the directory is missing or unreadable.
    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Storage>>> {
        let _ = dir;
        Ok(None)
    }

    /// Whether `path` still leads to `file`, which was opened by that path. By default, whether it leads to any.
    ///
    /// # Errors
    /// When the system gives no answer.
    fn is_named(&self, path: &Path, file: &dyn ReadAt) -> Result<bool> {
        let _ = file;
        self.exists(path)
    }

    /// How many bytes the files in a directory may still grow by; `None` where nobody knows.
    ///
    /// # Errors
    /// When the operating system gives no answer.
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
}

/// A file open for reading at any place, by any number of threads.
pub trait ReadAt: Debug + Send + Sync {
    /// The length at open; the files of a store do not change while they are read.
    fn len(&self) -> u64;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset` on; interrupted and short reads are continued.
    ///
    /// # Errors
    /// `Corrupt { field: Length, .. }` when the file ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// The operating system's file, where there is one: what a memory map is made of.
    fn as_file(&self) -> Option<&std::fs::File>;
}

/// A file that grows at its end.
pub trait WriteFile: Debug + Send {
    /// Appends all of `bytes`. After an error the file's end is undefined.
    ///
    /// # Errors
    /// When the bytes could not all be written.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes what was written durable. After an error nothing about the unsynced bytes is known: do not retry.
    ///
    /// # Errors
    /// When the operating system reports a failure.
    fn sync(&mut self) -> Result<()>;

    /// Bytes in the file.
    fn len(&self) -> u64;

    /// Whether nothing was written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
