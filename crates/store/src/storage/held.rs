//! Implements [`Storage`] for a directory that is held open. The implementation looks files up
//! relative to the open directory, not along the path of the directory.
//!
//! After a rename, a mount or a change of the working directory, a path may lead elsewhere. A
//! descriptor does not.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, linkat, mkdirat, renameat, statat};
use rustix::io::Errno;

use super::disk_file::{DiskFile, DiskWriter};
use super::root::Root;
use super::system::{copy_into, in_file};
use super::{IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct HeldDir {
    root: Root,
    /// The directory from which `link_or_copy` links files. `None` means the directory `root`.
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
            // A link fails between two file systems, on a file system without hard links, and for a
            // file with too many links. Each cause has its own error.
            Err(_) => {
                let mut content = in_file(from, source.open_plain(from))?;
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
        Ok(super::system::free_of(&in_file(dir, rustix::fs::fstatvfs(self.dir()).map_err(io::Error::from))?))
    }

    fn is_named(&self, path: &Path, file: &dyn ReadAt) -> Result<bool> {
        match file.as_file() {
            Some(file) => in_file(path, self.root.leads_to(path, file)),
            None => self.exists(path),
        }
    }
}
