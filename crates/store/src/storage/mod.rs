//! Defines the storage layer. A store accesses files through [`Storage`] and its handles, so that
//! tests can inject faults. Only memory maps of filters bypass this layer.
//!
//! Files are written front to back. An SST file gets its final name by a rename and never changes
//! after that; WALs and manifests grow under their final names. Every error names its file. The
//! implementations are [`Disk`], [`Memory`] and, for tests, a file system that fails on demand.

#[cfg(any(not(unix), test))]
mod absolute;
mod disk;
mod disk_file;
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

/// Whether reads of SST files use the operating system's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoMode {
    /// Reads use the page cache.
    #[default]
    Buffered,
    /// Reads bypass the page cache (`O_DIRECT`). This needs Linux; other systems, and file systems
    /// without direct reads, use `Buffered`.
    Direct,
}

/// The file system operations that a store needs.
pub trait Storage: Debug + Send + Sync {
    /// Opens an existing file for reads at any offset.
    ///
    /// # Errors
    /// Returns an error if the file is missing or unreadable.
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>>;

    /// Creates a new file for writing.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be created.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Reads the whole content of a file.
    ///
    /// # Errors
    /// Returns an error if the file is missing or unreadable.
    fn read(&self, path: &Path) -> Result<Vec<u8>>;

    /// Renames a file and replaces an existing file of the new name. The rename is durable after
    /// [`Storage::sync_dir`].
    ///
    /// # Errors
    /// Returns an error if the operating system reports one, for example because the file is
    /// missing.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name with a hard link. If the link cannot be made, makes a synced copy
    /// under that name.
    ///
    /// # Errors
    /// Returns an error if the file is missing or `to` exists, or if the copy fails.
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Open handles keep its bytes, and on Unix memory maps do, too.
    ///
    /// # Errors
    /// Returns an error if the operating system reports one, for example because the file is
    /// missing.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Returns whether a file or directory exists at `path`.
    ///
    /// # Errors
    /// Returns an error, not `false`, if the system cannot tell. After `false`, a caller may create
    /// a new store.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Returns the sorted names of the files and directories in a directory. Invalid UTF-8 is
    /// replaced by U+FFFD.
    ///
    /// # Errors
    /// Returns an error if the directory is missing or unreadable.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates a directory and its parents. An existing directory is not an error.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be created, for example because a file has its name.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes all new, renamed and removed names in a directory durable.
    ///
    /// # Errors
    /// Returns an error if the operating system reports a failure.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the exclusive lock of the file at `path`, and creates the file if it is missing.
    /// Dropping the guard releases the lock.
    ///
    /// # Errors
    /// Returns [`crate::Error::Locked`] if another handle in any process holds the lock, or if
    /// another engine holds its own kind of lock on the file. Returns another error if the file
    /// cannot be opened or locked.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;

    /// Opens a directory and returns a storage for it. That storage works in the opened directory
    /// even if the path leads elsewhere later. The caller still passes full paths, which must lie
    /// in or below `dir`.
    ///
    /// On Unix, [`Storage::lock`] of a storage that comes from [`Disk`] also locks `dir` itself, if
    /// the file system can lock directories.
    ///
    /// A storage that holds a directory A can in turn hold a directory B. [`Storage::link_or_copy`]
    /// of the result links files from A to B, so its first path must lie in or below A.
    ///
    /// Returns `None` if a path of this storage never leads elsewhere. The default implementation
    /// returns `None`.
    ///
    /// # Errors
    /// Returns an error if the directory is missing or unreadable.
    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Storage>>> {
        let _ = dir;
        Ok(None)
    }

    /// Returns whether `path` still leads to `file`, which was opened at that path. The default
    /// implementation checks only that `path` exists.
    ///
    /// # Errors
    /// Returns an error if the system cannot tell.
    fn is_named(&self, path: &Path, file: &dyn ReadAt) -> Result<bool> {
        let _ = file;
        self.exists(path)
    }

    /// Returns the free space on the file system of a directory in bytes, or `None` if it is
    /// unknown. The default implementation returns `None`.
    ///
    /// # Errors
    /// Returns an error if the operating system reports one.
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
}

/// A file that any number of threads can read at any offset at the same time.
pub trait ReadAt: Debug + Send + Sync {
    /// Returns the length in bytes that the file had when it was opened. Later appends do not
    /// change it.
    fn len(&self) -> u64;

    /// Returns whether the file had no bytes when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes of the file from `offset` on. The implementation continues
    /// interrupted and short reads.
    ///
    /// # Errors
    /// Returns [`crate::Error::Corrupt`] with `Field::Length` if the file ends before the buffer is
    /// full, and I/O errors.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Announces a read of `len_bytes` bytes at `offset`. A storage may begin to load the bytes, so
    /// that the loads of several announced reads overlap. The default implementation does nothing.
    fn will_read(&self, offset: u64, len_bytes: u64) {
        let _ = (offset, len_bytes);
    }

    /// Returns the file of the operating system, which a memory map needs. Returns `None` if the
    /// storage does not use files of the operating system.
    fn as_file(&self) -> Option<&std::fs::File>;
}

/// A file that is open for appending.
pub trait WriteFile: Debug + Send {
    /// Appends all of `bytes`. After an error, any part of `bytes` may be in the file.
    ///
    /// # Errors
    /// Returns an error if not all bytes were written.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes all written bytes durable. After an error the state of unsynced bytes is unknown, and
    /// a retry is not safe.
    ///
    /// # Errors
    /// Returns an error if the operating system reports a failure.
    fn sync(&mut self) -> Result<()>;

    /// Returns the length of the file in bytes, synced or not. After a failed write the result may
    /// be wrong.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
