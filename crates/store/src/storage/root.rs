//! A directory that is held open, and how its files are looked up, opened, locked and removed in it.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::IoMode;
use super::system::{LockedFile, check_plain, in_file};
use crate::error::{Error, Result};

/// How often a lock file is opened again that somebody removed before it was locked.
const MAX_LOCK_ATTEMPTS: u32 = 100;

/// An open directory and the path that the store knows it by.
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

    /// The name, within the directory, of the file at `path`.
    pub(super) fn name<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        match path.strip_prefix(&self.path) {
            Ok(name) if name.as_os_str().is_empty() => Ok(Path::new(".")),
            Ok(name) => Ok(name),
            Err(_) => Err(io::Error::new(ErrorKind::InvalidInput, "the path lies outside the directory that is held")),
        }
    }

    pub(super) fn open_file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let name = self.name(path)?;
        let open = || openat(&*self.dir, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        Ok(File::from(retry_on_intr(open)?))
    }

    /// Opens a plain file for reading. A pipe would wait for its other end.
    pub(super) fn open_plain(&self, path: &Path) -> io::Result<File> {
        check_plain(self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        // `EXCL` follows no link either.
        self.open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// The file, and whether its reads must be aligned.
    pub(super) fn open_for_reading(&self, path: &Path, io: IoMode) -> io::Result<(File, bool)> {
        #[cfg(target_os = "linux")]
        if io == IoMode::Direct {
            match self.open_file(path, OFlags::RDONLY | OFlags::DIRECT) {
                Ok(file) => return Ok((file, true)),
                // EINVAL: a file system without direct reads; the page cache gives the same bytes.
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

    /// Whether `path` leads to `file`, by device and inode.
    pub(super) fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let named = match statat(&*self.dir, self.name(path)?, AtFlags::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            named => named?,
        };
        let own = fstat(file)?;
        Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino))
    }

    pub(super) fn lock_file(&self, path: &Path) -> Result<LockedFile> {
        // A pipe would wait for its other end without `NONBLOCK`.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let no_file = || {
            let reason = "the lock must be a plain file; remove what has its name, and open the store again";
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
            // Somebody may have removed the file after it was opened: whoever comes next would lock another.
            if in_file(path, self.leads_to(path, &locked.0))? {
                return Ok(locked);
            }
        }
        Err(Error::Locked.in_file(path))
    }

    /// Locks the directory itself: the lock that stays when `LOCK` is removed or replaced. `None` where the file system
    /// locks no directories.
    pub(super) fn lock_dir(&self, path: &Path) -> Result<Option<LockedFile>> {
        // Opened anew, because two locks through one open file are one lock.
        let dir = in_file(path, self.open_file(&self.path, OFlags::RDONLY | OFlags::DIRECTORY))?;
        match dir.try_lock() {
            Ok(()) => Ok(Some(LockedFile(dir))),
            Err(TryLockError::WouldBlock) => Err(Error::Locked.in_file(path)),
            Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
                // Network file systems lock only what is open for writing, which no directory is.
                Some(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
                _ => Err(Error::from(error).in_file(path)),
            },
        }
    }
}
