//! Cold reads without root: a store's own files are dropped from the operating system's page cache.

use std::fs::{self, File};
use std::path::Path;

use super::super::failure::{Failure, Outcome};

/// Writes back and drops every file in `dir`. Pages that are mapped stay, so the store must be closed.
pub fn drop_files(dir: &Path) -> Outcome<()> {
    for entry in fs::read_dir(dir).map_err(|error| Failure::file(dir, error))? {
        let path = entry.map_err(|error| Failure::file(dir, error))?.path();
        if path.is_file() {
            drop_file(&path).map_err(|error| Failure::file(&path, error))?;
        }
    }
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
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "--cold works on Linux only"))
}
