//! Finds the table of Delta Lake or Iceberg in whose folder a Parquet file lies.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns a message about the table that lists the file at `target`, or `None` if no folder above
/// the file looks like a table.
pub fn around(target: &Path) -> Option<String> {
    let target = target.canonicalize().ok()?;
    let (table, format) = target.ancestors().skip(1).find_map(|folder| Some((folder, format_of(folder)?)))?;
    Some(format!(
        "{}: the metadata of this {format} table record the length of each file, so readers may refuse the replaced file; \
         write a new file with --output and register it",
        table.display()
    ))
}

fn format_of(folder: &Path) -> Option<&'static str> {
    if folder.join("_delta_log").is_dir() {
        return Some("Delta");
    }
    let is_metadata = |path: PathBuf| path.to_string_lossy().ends_with(".metadata.json");
    let mut metadata = fs::read_dir(folder.join("metadata")).ok()?;
    metadata.any(|entry| entry.is_ok_and(|entry| is_metadata(entry.path()))).then_some("Iceberg")
}
