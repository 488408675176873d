//! Opens regular files only.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a regular file for reading. Opening a pipe would wait for a writer, perhaps for ever.
///
/// # Errors
/// Returns an error of the kind `InvalidInput` for a directory, a device, a pipe or a socket, and
/// the errors of the operating system.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    check_regular(&path.metadata()?)?;
    let file = File::open(path)?;
    // Another program may have replaced the file since the first check.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Returns an error unless the metadata describe a regular file.
///
/// # Errors
/// Returns an error of the kind `InvalidInput` for any other file.
pub fn check_regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let reason = "not a regular file (a directory, a device or a pipe); give a file";
    Err(io::Error::new(ErrorKind::InvalidInput, reason))
}
