//! Copies pipes to temporary files, so that commands that seek can read them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};
use super::format::not_a_file;
use super::interrupt::Temporary;
use super::streams;

/// The pipes that were read, each with its copy.
static HELD: Mutex<Vec<(PathBuf, Temporary<NamedTempFile>)>> = Mutex::new(Vec::new());

/// Returns the path of a regular file with the bytes of the file at `path`. This is `path` itself
/// unless it is a pipe, or `-` for stdin. A pipe is read once, and its copy stays until [`clear`].
pub fn place(path: &Path) -> Outcome<PathBuf> {
    let is_stdin = path.as_os_str() == "-";
    if !is_stdin {
        let found = path.metadata().map_err(|error| Failure::file(path, error))?;
        if found.is_file() {
            return Ok(path.to_path_buf());
        }
        if !is_pipe(&found) {
            return Err(Failure::Message(format!("{}: {}", path.display(), not_a_file(path))));
        }
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, copy)) = held.iter().find(|(name, _)| name == path) {
        return Ok(copy.path().to_path_buf());
    }
    let copy = || {
        let mut input = if is_stdin { streams::reader()? } else { streams::open(path)? };
        let copy = Temporary::make(NamedTempFile::new)?;
        io::copy(&mut input, &mut copy.as_file())?;
        Ok(copy)
    };
    let copy: Temporary<NamedTempFile> = copy().map_err(|error| Failure::file(path, error))?;
    let place = copy.path().to_path_buf();
    held.push((path.to_path_buf(), copy));
    Ok(place)
}

/// Removes the copies. Call it at the end of the command.
pub fn clear() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Returns an error if both a filter and its keys are to come from stdin.
pub fn refuse_both(file: &Path, keys: Option<&Path>) -> Outcome<()> {
    if file.as_os_str() == "-" && keys == Some(file) {
        let why = "-: both the filter and the keys are to come from standard input; give one of them as a file";
        return Err(Failure::Message(why.to_owned()));
    }
    Ok(())
}

#[cfg(unix)]
fn is_pipe(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}
