//! Writes new files, which appear complete or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use filterblock_family::replace::{Place, dir_of};
use tempfile::NamedTempFile;

/// A temporary file in the directory of `path`. [`publish`](Self::publish) renames it to `path`. If
/// it is dropped before the rename, it is removed.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    place: Place,
}

impl NewFile {
    /// Locks the file that will be replaced, and creates the new file. If `path` is a symbolic link,
    /// `publish` replaces the target and keeps the link. The new file has the mode of the file that
    /// it replaces. If it replaces no file, its mode follows the umask.
    ///
    /// # Errors
    /// Returns an error if `path` exists and is not a regular file, if another process has locked
    /// it, or if it exists and `overwrites` is `false`.
    pub fn beside(path: &Path, overwrites: bool) -> io::Result<Self> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; choose another path"));
        }
        let place = Place::lock(path)?;
        if place.old().is_some() && !overwrites {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists; choose another path"));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".filterblock-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(dir_of(place.path()))?;
        if let Some((old, _)) = place.old() {
            file.as_file().set_permissions(old.metadata()?.permissions())?;
        }
        Ok(Self { file, place })
    }

    /// Returns the file, so that the caller can write its content.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
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
    let mut new = NewFile::beside(path, true)?;
    new.file().write_all(bytes)?;
    new.publish()
}
