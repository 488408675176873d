//! Creates the files of filters. A new file gets its name when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::buffered::Buffered;
use super::layout::{self, Header, State};
use super::lock::{Locked, is_at, try_lock_filter};
use crate::Bloom;
use crate::error::{Error, Result};
use crate::replace::{Version, dir_of, keep_owner, replace, sync_dir};

/// A complete and durable file under a random name, locked on Unix. Dropping this handle removes
/// the file.
#[derive(Debug)]
pub(super) struct NewFile(NamedTempFile);

impl NewFile {
    /// Creates a file under a random name in the directory of `path`, locks it on Unix, writes the
    /// filter to it and makes it durable. A file that will replace `replaced` gets the owner and
    /// mode of `replaced`, as [`keep_owner`] describes.
    pub(super) fn write(
        path: &Path,
        replaced: Option<&File>,
        header: &Header,
        state: &State,
        bloom: &Bloom,
    ) -> Result<Self> {
        let in_file = |error: io::Error| Error::from(error).in_file(path);
        // A fixed prefix keeps the name short even if the filter's name is long.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".filterblock-").suffix(".tmp");
        let new = builder.make_in(dir_of(path), |name| create(name, replaced.is_some())).map_err(in_file)?;
        let file = new.as_file();
        // Lock the file while no other process knows its name, so that no other process can lock it
        // first.
        try_lock_filter(file, path)?;
        replaced.map_or(Ok(()), |replaced| keep_owner(replaced, file)).map_err(in_file)?;
        let mut out = Buffered::new(file).map_err(|error| error.in_file(path))?;
        layout::write(&mut out, header, state, bloom).and_then(|()| out.flush()).map_err(in_file)?;
        file.sync_all().map_err(in_file)?;
        Ok(Self(new))
    }

    /// Renames the file to `path`, and makes the rename durable on Unix. Returns an error if a file
    /// has this name already. After an error, it tries to remove the new file.
    pub(super) fn publish(self, path: &Path) -> Result<Locked> {
        let in_file = |error: io::Error| Error::from(error).in_file(path);
        let file = self.0.persist_noclobber(path).map(Locked::already).map_err(|refused| in_file(refused.error))?;
        let synced = sync_dir(path);
        if synced.is_err() && is_at(file.file(), path).unwrap_or(false) {
            // The file is still locked, so no other writer uses it.
            let _ = fs::remove_file(path);
        }
        synced.map(|()| file).map_err(in_file)
    }

    /// Replaces the file at `path`, which is open as `old`, and makes this durable on Unix. After an
    /// error, it is unknown which of the two files has the name.
    pub(super) fn publish_over(self, old: &File, path: &Path) -> Result<Locked> {
        let in_file = |error: io::Error| Error::from(error).in_file(path);
        let version = Version::of(old).map_err(in_file)?;
        let (file, name) = self.0.keep().map_err(|refused| in_file(refused.error))?;
        let file = Locked::already(file);
        replace(file.file(), &name, path, &version).map(|()| file).map_err(|error| {
            // After a rename the random name is free.
            let _ = fs::remove_file(&name);
            in_file(error)
        })
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Creates a file at `path`. Returns an error if anything exists there, even a symbolic link. With
/// `is_private`, only the owner can open the file on Unix. A replacement starts private, and later
/// gets the mode of the file that it replaces.
fn create(path: &Path, is_private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let _ = is_private;
    options.open(path)
}

/// Returns an error if `path` exists, even as a dangling symbolic link. I/O errors pass through.
pub(super) fn check_absent(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Error::from(io::Error::from(ErrorKind::AlreadyExists)).in_file(path)),
        Err(error) => Err(Error::from(error).in_file(path)),
    }
}
