//! Writes new files, which appear complete or not at all. Maps or reads files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use filterblock::{AlignedBytes, Mapped, SharedBytes, open_regular_file};
use filterblock_family::replace::{Kept, Place, Version, dir_of};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use tempfile::NamedTempFile;

use crate::errors::{of_block, of_io};

/// A temporary file in the directory of `path`. [`publish`](Self::publish) renames it to `path`. If
/// it is dropped before the rename, it is removed.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    place: Place,
}

impl NewFile {
    /// Locks the file that will be replaced, and creates the new file. If `path` is a symbolic link,
    /// `publish` replaces the target and keeps the link. The new file has the mode, the owner and
    /// the access list of the file that it replaces. If it replaces no file, its mode follows the
    /// umask.
    ///
    /// # Errors
    /// Returns an error if `path` exists and is not a regular file, if it has several names, if
    /// another process has locked it, or if it exists and `overwrites` is `false`.
    pub fn beside(path: &Path, overwrites: bool) -> io::Result<Self> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; choose another path"));
        }
        let place = Place::lock(path)?;
        if place.old().is_some() && !overwrites {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let kept = place.old().map(|(old, _)| Kept::of(old)).transpose()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".filterblock-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = if kept.is_some() { 0o600 } else { 0o666 };
            builder.permissions(std::fs::Permissions::from_mode(mode));
        }
        let file = builder.tempfile_in(dir_of(place.path()))?;
        if let Some(kept) = kept {
            kept.give(file.as_file())?;
        }
        Ok(Self { file, place })
    }

    /// Returns whether the file that will be replaced has this version.
    pub fn replaces(&self, version: &Version) -> bool {
        self.place.old().is_some_and(|(_, old)| old == version)
    }

    /// Returns the file, so that the caller can write its content.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Syncs the file, renames it to `path`, and syncs the directory (on Unix).
    ///
    /// # Errors
    /// Returns `AlreadyExists` if there was no file, and now there is one. Returns another error if
    /// the file that will be replaced has changed.
    pub fn publish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let (file, made) = self.file.keep().map_err(|refused| refused.error)?;
        self.place.publish(&file, &made)
    }
}

/// Writes a file, and replaces an existing file of this name. If a step before the rename fails,
/// the old file stays as it was.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = NewFile::beside(path, true)?;
    let mut file = new.file();
    file.write_all(bytes)?;
    new.publish()
}

/// Raises `ValueError` for a folder, a device or a pipe, and `OSError` for a file that is missing.
fn check(path: &Path) -> PyResult<()> {
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(PyValueError::new_err(format!("{}: not a regular file; give a file", path.display()))),
        Err(error) => Err(of_io(&error, Some(path))),
    }
}

/// Opens a regular file.
pub fn open(path: &Path) -> PyResult<File> {
    check(path)?;
    open_regular_file(path).map_err(|error| of_io(&error, Some(path)))
}

/// Maps a regular file, or reads it into memory.
pub fn read(path: &Path, is_mapped: bool) -> PyResult<SharedBytes> {
    check(path)?;
    let bytes = match is_mapped {
        true => Mapped::open(path).map(SharedBytes::from),
        false => AlignedBytes::read(path).map(SharedBytes::from),
    };
    bytes.map_err(of_block)
}
