//! Writes new files, which appear complete or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A temporary file in the directory of `path`. [`publish`](Self::publish) renames it to `path`. If
/// it is dropped before the rename, it is removed.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    path: PathBuf,
    overwrites: bool,
}

impl NewFile {
    /// Creates the file. If `path` is a symbolic link, `publish` replaces the target and keeps the
    /// link. The new file has the mode of the file that it replaces. If it replaces no file, its
    /// mode follows the umask.
    ///
    /// # Errors
    /// Returns an error if `path` exists and is not a regular file, or if it exists and
    /// `overwrites` is `false`.
    pub fn beside(path: &Path, overwrites: bool) -> io::Result<Self> {
        let path = if path.is_symlink() { path.canonicalize()? } else { path.to_path_buf() };
        let found = path.metadata().ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; choose another path"));
        }
        if found.is_some() && !overwrites {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists; choose another path"));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".filterblock-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(parent(&path))?;
        if let Some(found) = found {
            file.as_file().set_permissions(found.permissions())?;
        }
        Ok(Self { file, path, overwrites })
    }

    /// Returns the file, so that the caller can write its content.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Syncs the file, renames it to `path`, and syncs the directory (on Unix).
    ///
    /// # Errors
    /// Returns `AlreadyExists` if `path` exists and the file must not overwrite it.
    pub fn publish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let published =
            if self.overwrites { self.file.persist(&self.path) } else { self.file.persist_noclobber(&self.path) };
        published.map_err(|error| error.error)?;
        #[cfg(unix)]
        File::open(parent(&self.path))?.sync_all()?;
        Ok(())
    }
}

/// Writes a file, and replaces an existing file of this name. If a step before the rename fails,
/// the old file stays as it was.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = NewFile::beside(path, true)?;
    new.file().write_all(bytes)?;
    new.publish()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
