//! Makes reads cold without root: drops the files of a store from the operating system's page
//! cache.

use std::fs::{self, File};
use std::path::Path;

use super::super::failure::{Failure, Outcome};

/// Writes every file in `dir` to the device and drops its pages from the page cache. Mapped pages
/// cannot be dropped, so the store must be closed.
pub fn drop_files(dir: &Path) -> Outcome<()> {
    for entry in fs::read_dir(dir).map_err(|error| Failure::file(dir, error))? {
        let path = entry.map_err(|error| Failure::file(dir, error))?.path();
        if path.is_file() {
            drop_file(&path).map_err(|error| Failure::file(&path, error))?;
        }
    }
    Ok(())
}

/// Returns an error if `dir` is on a tmpfs, an in-memory file system whose pages cannot be dropped.
#[cfg(target_os = "linux")]
pub fn check_droppable(dir: &Path) -> Outcome<()> {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    let found = rustix::fs::statfs(dir).map_err(|error| Failure::file(dir, error.into()))?;
    if found.f_type == TMPFS_MAGIC {
        let dir = dir.display();
        return Err(Failure::Message(format!(
            "{dir}: --cold does not work on an in-memory file system (tmpfs); choose a directory on a disk with --dir"
        )));
    }
    Ok(())
}

/// Does nothing. Outside Linux, [`drop_files`] returns an error at the first file.
#[cfg(not(target_os = "linux"))]
pub fn check_droppable(_dir: &Path) -> Outcome<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn drop_file(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    // Dirty pages cannot be dropped.
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn drop_file(path: &Path) -> std::io::Result<()> {
    File::open(path)?;
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "--cold works on Linux only; omit it"))
}
