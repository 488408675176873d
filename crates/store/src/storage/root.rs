//! Holds a directory open, and finds, creates, opens, locks and removes files in it.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::IoMode;
use super::system::{LockedFile, check_plain, in_file};
use crate::error::{Error, Result};

/// The maximum number of attempts to lock a lock file that another process keeps removing.
const MAX_LOCK_ATTEMPTS: u32 = 100;

/// An open directory, and the path under which the store knows it.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) dir: Arc<File>,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
        let dir = Arc::new(File::from(in_file(path, opened.map_err(io::Error::from))?));
        Ok(Self { path: path.to_path_buf(), dir })
    }

    /// Returns an error if `path` is outside the directory.
    pub(super) fn name<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        match path.strip_prefix(&self.path) {
            Ok(name) if name.as_os_str().is_empty() => Ok(Path::new(".")),
            Ok(name) => Ok(name),
            Err(_) => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the path is outside the open directory; give a path inside it",
            )),
        }
    }

    pub(super) fn open_file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let name = self.name(path)?;
        let open = || openat(&*self.dir, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        Ok(File::from(retry_on_intr(open)?))
    }

    /// Opens a regular file for reading. With `NONBLOCK`, opening a pipe does not wait for a
    /// writer.
    pub(super) fn open_plain(&self, path: &Path) -> io::Result<File> {
        check_plain(self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        // With `EXCL` the call also fails for a symbolic link.
        self.open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens a file for reading. Returns the file and whether its reads must be aligned.
    pub(super) fn open_for_reading(&self, path: &Path, io: IoMode) -> io::Result<(File, bool)> {
        #[cfg(target_os = "linux")]
        if io == IoMode::Direct {
            match self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::DIRECT) {
                Ok(file) => return check_plain(file).map(|file| (file, true)),
                // EINVAL: the file system has no direct reads. A buffered read returns the same
                // bytes.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
        let _ = io;
        self.open_plain(path).map(|file| (file, false))
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(unlinkat(&*self.dir, self.name(path)?, AtFlags::empty())?)
    }

    /// Two files are the same if device and inode are equal.
    pub(super) fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let named = match statat(&*self.dir, self.name(path)?, AtFlags::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            named => named?,
        };
        let own = fstat(file)?;
        Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino))
    }

    pub(super) fn lock_file(&self, path: &Path) -> Result<LockedFile> {
        // Without `NONBLOCK`, opening a pipe would wait for a reader.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let no_file = || {
            let reason = "the lock is not a regular file; move it away, and try again";
            Error::Io(io::Error::new(ErrorKind::InvalidInput, reason)).in_file(path)
        };
        for _ in 0..MAX_LOCK_ATTEMPTS {
            let file = match self.open_file(path, flags) {
                Ok(file) => file,
                Err(error) => {
                    let is_no_file = [Errno::LOOP, Errno::ISDIR, Errno::NXIO].map(Errno::raw_os_error).map(Some);
                    let refused = is_no_file.contains(&error.raw_os_error());
                    return Err(if refused { no_file() } else { Error::from(error).in_file(path) });
                }
            };
            if !in_file(path, file.metadata())?.is_file() {
                return Err(no_file());
            }
            let locked = LockedFile::of(file, path)?;
            // Another process may have removed the file after this open. The next process would
            // then create and lock another file.
            if in_file(path, self.leads_to(path, &locked.0))? {
                return Ok(locked);
            }
        }
        Err(Error::Locked.in_file(path))
    }

    /// Locks the directory itself. Unlike the lock of `LOCK`, this lock keeps its effect when
    /// `LOCK` is removed or replaced. Returns `None` if the file system cannot lock directories.
    pub(super) fn lock_dir(&self, path: &Path) -> Result<Option<LockedFile>> {
        // Open the directory again: a second `flock` on the same open file would succeed.
        let dir = in_file(path, self.open_file(&self.path, OFlags::RDONLY | OFlags::DIRECTORY))?;
        match dir.try_lock() {
            Ok(()) => Ok(Some(LockedFile(dir))),
            Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
            Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
                // NFS locks only files that are open for writing, which a directory never is.
                Some(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
                _ => Err(Error::from(error).in_file(path)),
            },
        }
    }
}
