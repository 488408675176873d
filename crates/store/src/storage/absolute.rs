//! Implements [`Storage`] for one directory by its absolute path, on systems without calls that
//! open a file relative to a directory.
//!
//! The absolute path stays valid when the working directory changes. A rename of the directory
//! would make the path invalid, but Windows does not rename a directory that contains open files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Result};

/// The two paths of a directory: the path that the caller gave, and the absolute path.
#[derive(Debug, Clone)]
struct Place {
    given: PathBuf,
    absolute: PathBuf,
}

impl Place {
    fn of(dir: &Path) -> Result<Self> {
        let absolute = std::path::absolute(dir).map_err(|error| Error::from(error).in_file(dir))?;
        Ok(Self { given: dir.to_path_buf(), absolute })
    }

    /// Makes a path in this directory absolute. Paths in other directories stay unchanged.
    fn at(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.given) {
            Ok(name) if name.as_os_str().is_empty() => self.absolute.clone(),
            Ok(name) => self.absolute.join(name),
            Err(_) => path.to_path_buf(),
        }
    }
}

/// The file system, with absolute paths for one directory.
#[derive(Debug)]
pub(super) struct AbsoluteDir {
    place: Place,
    /// The directory from which `link_or_copy` links files. `None` means the directory `place`.
    source: Option<Place>,
}

impl AbsoluteDir {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        Ok(Self { place: Place::of(dir)?, source: None })
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.place.at(path)
    }
}

impl Storage for AbsoluteDir {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        Disk.open(&self.at(path), io)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Disk.create(&self.at(path))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        Disk.read(&self.at(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Disk.rename(&self.at(from), &self.at(to))
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        Disk.link_or_copy(&self.source.as_ref().unwrap_or(&self.place).at(from), &self.at(to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        Disk.remove(&self.at(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Disk.exists(&self.at(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        Disk.list(&self.at(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        Disk.create_dir_all(&self.at(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Disk.sync_dir(&self.at(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        Disk.lock(&self.at(path))
    }

    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Storage>>> {
        Ok(Some(Arc::new(Self { place: Place::of(dir)?, source: Some(self.place.clone()) })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_in_the_given_directory_become_absolute() {
        let held = AbsoluteDir::open(Path::new("store")).unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(held.at(Path::new("store/LOCK")), here.join("store/LOCK"));
        assert_eq!(held.at(Path::new("store")), here.join("store"));
        for other in ["/elsewhere/store", "storehouse/LOCK"] {
            assert_eq!(held.at(Path::new(other)), Path::new(other));
        }
    }
}
