//! A directory that is held open: its files are looked up in the directory itself, not along its path.
//!
//! A path leads elsewhere after a rename, a mount, or a change of the working directory. A descriptor does not.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, linkat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::disk::{DiskFile, DiskWriter, LockedFile, check_plain, copy_into, free_of, in_file};
use super::{IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Result};

/// How often a lock file is opened again that somebody removed before it was locked.
const MAX_LOCK_ATTEMPTS: u32 = 100;

/// An open directory and the path that the store knows it by.
#[derive(Debug, Clone)]
pub(super) struct Root {
    path: PathBuf,
    dir: Arc<File>,
}

impl Root {
    fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
        let dir = Arc::new(File::from(in_file(path, opened.map_err(io::Error::from))?));
        Ok(Self { path: path.to_path_buf(), dir })
    }

    /// The name, within the directory, of the file at `path`.
    fn name<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        match path.strip_prefix(&self.path) {
            Ok(name) if name.as_os_str().is_empty() => Ok(Path::new(".")),
            Ok(name) => Ok(name),
            Err(_) => Err(io::Error::new(ErrorKind::InvalidInput, "the path lies outside the directory that is held")),
        }
    }

    fn open_file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let name = self.name(path)?;
        let open = || openat(&*self.dir, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        Ok(File::from(retry_on_intr(open)?))
    }

    /// Opens a plain file for reading. A pipe would wait for its other end.
    fn open_plain(&self, path: &Path) -> io::Result<File> {
        check_plain(self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        // `EXCL` follows no link either.
        self.open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// The file, and whether its reads must be aligned.
    fn open_for_reading(&self, path: &Path, io: IoMode) -> io::Result<(File, bool)> {
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

    fn remove(&self, path: &Path) -> io::Result<()> {
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

    fn lock_file(&self, path: &Path) -> Result<LockedFile> {
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
    fn lock_dir(&self, path: &Path) -> Result<Option<LockedFile>> {
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

/// The file system, as far as it lies in one directory.
#[derive(Debug)]
pub(super) struct HeldDir {
    root: Root,
    /// Where links come from, if that is another directory.
    source: Option<Root>,
}

impl HeldDir {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self { root: Root::open(path)?, source: None })
    }

    fn dir(&self) -> &File {
        &self.root.dir
    }
}

impl Storage for HeldDir {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        let (file, direct) = in_file(path, self.root.open_for_reading(path, io))?;
        Ok(Arc::new(DiskFile::of(file, path, direct)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = in_file(path, self.root.create(path))?;
        Ok(Box::new(DiskWriter::of(file, path, Some(self.root.clone()))?))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.root.open_plain(path);
        in_file(path, file.and_then(|mut file| file.read_to_end(&mut bytes)))?;
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let names = self.root.name(from).and_then(|old| Ok((old, self.root.name(to)?)));
        in_file(from, names.and_then(|(old, new)| Ok(renameat(self.dir(), old, self.dir(), new)?)))
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        let source = self.source.as_ref().unwrap_or(&self.root);
        let (old, new) = (in_file(from, source.name(from))?, in_file(to, self.root.name(to))?);
        match linkat(&*source.dir, old, self.dir(), new, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(error @ Errno::NOENT) => Err(Error::from(io::Error::from(error)).in_file(from)),
            Err(error @ Errno::EXIST) => Err(Error::from(io::Error::from(error)).in_file(to)),
            // Another file system, one without links, too many links: each has its own error.
            Err(_) => {
                let mut content = in_file(from, source.open_file(from, OFlags::RDONLY))?;
                let mut copy = in_file(to, self.root.create(to))?;
                copy_into(&mut content, &mut copy, to, || self.root.remove(to))
            }
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        in_file(path, self.root.remove(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let name = in_file(path, self.root.name(path))?;
        match statat(self.dir(), name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Error::from(io::Error::from(error)).in_file(path)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let opened = in_file(dir, self.root.open_file(dir, OFlags::RDONLY | OFlags::DIRECTORY))?;
        let names = Dir::new(OwnedFd::from(opened)).and_then(|entries| {
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<Result<Vec<_>, Errno>>()
        });
        let mut names = in_file(dir, names.map_err(io::Error::from))?;
        names.retain(|name| name != "." && name != "..");
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let name = in_file(dir, self.root.name(dir))?;
        let mut parts: Vec<&Path> = name.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        parts.reverse();
        for part in parts {
            let is_dir = || {
                let found = statat(self.dir(), part, AtFlags::empty());
                found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
            };
            match mkdirat(self.dir(), part, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) if is_dir() => {}
                made => in_file(dir, made.map_err(io::Error::from))?,
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir == self.root.path {
            return in_file(dir, self.root.dir.sync_all());
        }
        let opened = self.root.open_file(dir, OFlags::RDONLY | OFlags::DIRECTORY);
        in_file(dir, opened.and_then(|dir| dir.sync_all()))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let file = self.root.lock_file(path)?;
        let dir = self.root.lock_dir(path)?;
        Ok(Box::new((dir, file)))
    }

    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Storage>>> {
        Ok(Some(Arc::new(Self { root: Root::open(dir)?, source: Some(self.root.clone()) })))
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        Ok(free_of(&in_file(dir, rustix::fs::fstatvfs(self.dir()).map_err(io::Error::from))?))
    }

    fn is_named(&self, path: &Path, file: &dyn ReadAt) -> Result<bool> {
        match file.as_file() {
            Some(file) => in_file(path, self.root.leads_to(path, file)),
            None => self.exists(path),
        }
    }
}
