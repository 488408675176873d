//! Finds the Parquet files in a folder. Recognizes tables that record the lengths of their files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The file name extensions of Parquet files in a folder.
pub const EXTENSIONS: &[&str] = &["parquet", "parq", "pq"];
/// The names of files that repeat the footers, or the schema, of the Parquet files in their folder.
/// New filters make the copies of the footers wrong.
const COMPANIONS: [&str; 2] = ["_metadata", "_common_metadata"];

/// Returns the paths of the files with these extensions in a folder at any depth, relative to the
/// folder and in the order of their names. Skips names that begin with a dot or an underscore, and links to
/// folders.
///
/// # Errors
/// Returns an error that names a folder which cannot be read.
pub fn files_in(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(folder, Path::new(""), extensions, &mut files)?;
    Ok(files)
}

fn walk(folder: &Path, below: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error| Error::Io(error).in_file(folder);
    let mut entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_") {
            continue;
        }
        // Links to folders are not followed, because they may form a cycle.
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&path, &below.join(&name), extensions, files)?;
        } else if has_extension(&path, extensions) && path.is_file() {
            files.push(below.join(&name));
        }
    }
    Ok(())
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|found| extensions.iter().any(|known| known.eq_ignore_ascii_case(found)))
}

/// Returns whether a file only repeats the footers or the schema of other files.
#[must_use]
pub fn is_companion(path: &Path) -> bool {
    path.file_name().is_some_and(|name| COMPANIONS.iter().any(|companion| name == *companion))
}

/// Returns the folder of the Delta or Iceberg table in which a file lies, and the name of its
/// format. Their metadata record the length of each file. Returns `None` if no folder above the
/// file looks like a table.
#[must_use]
pub fn table_around(path: &Path) -> Option<(PathBuf, &'static str)> {
    let path = path.canonicalize().ok()?;
    path.ancestors().skip(1).find_map(|folder| Some((folder.to_path_buf(), format_of(folder)?)))
}

fn format_of(folder: &Path) -> Option<&'static str> {
    if folder.join("_delta_log").is_dir() {
        return Some("Delta");
    }
    let is_metadata = |path: PathBuf| path.to_string_lossy().ends_with(".metadata.json");
    let mut metadata = fs::read_dir(folder.join("metadata")).ok()?;
    metadata.any(|entry| entry.is_ok_and(|entry| is_metadata(entry.path()))).then_some("Iceberg")
}
