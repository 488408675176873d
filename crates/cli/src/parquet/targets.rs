//! Chooses the output files of `filterblock parquet add`, and refuses outputs that would destroy an
//! input. Finds the table of Delta Lake or Iceberg in whose folder an output lies.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::failure::{Failure, Outcome};
use super::inputs::{Input, Inputs};

/// Returns the output path of each input. `output` is a file, or a folder for all outputs. Returns
/// an error if an output is also an input, or if two outputs have the same path. Also returns an
/// error if the output folder is an input folder or lies in one.
pub fn below(output: &Path, inputs: &Inputs) -> Outcome<Vec<PathBuf>> {
    let is_file = inputs.is_one_file && !is_folder(output);
    if !is_file {
        refuse_nested(output, inputs)?;
    }
    let (paths, ids): (BTreeSet<PathBuf>, BTreeSet<Id>) =
        inputs.files.iter().filter_map(|input| seen(&input.path)).unzip();
    let mut places = BTreeSet::new();
    let target = |input: &Input| {
        let target = if is_file { output.to_path_buf() } else { output.join(&input.below) };
        if seen(&target).is_some_and(|(path, id)| paths.contains(&path) || id.is_some() && ids.contains(&id)) {
            return Err(Failure::Message(format!(
                "{}: this file is also an input; choose another output; to replace the files themselves, use --in-place",
                target.display()
            )));
        }
        match places.insert(place(&target)?) {
            true => Ok(target),
            false => Err(same(&target)),
        }
    };
    inputs.files.iter().map(target).collect()
}

/// Returns the paths of the inputs, which are also the outputs. Returns an error for a file that is
/// given twice, even if a symbolic link names it. Hard links are refused later, by `NewFile`.
pub fn in_place(inputs: &Inputs) -> Outcome<Vec<PathBuf>> {
    let mut places = BTreeSet::new();
    let target = |input: &Input| match places.insert(place(&input.path)?) {
        true => Ok(input.path.clone()),
        false => Err(Failure::Message(format!("{}: this file is given twice; give it once", input.path.display()))),
    };
    inputs.files.iter().map(target).collect()
}

fn same(target: &Path) -> Failure {
    Failure::Message(format!(
        "{}: two of the given files have this output; give each file once; for different files with the same name, give their common folder, or a pattern such as 'lake/*/a.parquet'",
        target.display()
    ))
}

/// Returns an error if the output folder is an input folder or lies in one: the next run would read
/// the outputs of this run.
fn refuse_nested(output: &Path, inputs: &Inputs) -> Outcome<()> {
    let output_place = place(output)?;
    let is_outer = |folder: &&PathBuf| folder.canonicalize().is_ok_and(|folder| output_place.starts_with(folder));
    match inputs.folders.iter().find(is_outer) {
        None => Ok(()),
        Some(folder) => Err(Failure::Message(format!(
            "{}: the output folder is the input folder {} or lies in it; choose a folder beside the input folder; to \
             replace the files themselves, use --in-place",
            output.display(),
            folder.display()
        ))),
    }
}

/// Returns whether the user means a folder, which may be missing.
fn is_folder(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Device and inode, or `None` on systems without them.
type Id = Option<(u64, u64)>;

/// Returns the path without symbolic links, and device and inode. Returns `None` if the path cannot
/// be resolved. Two names of a file (hard links) share the inode.
fn seen(path: &Path) -> Option<(PathBuf, Id)> {
    let canonical = path.canonicalize().ok()?;
    #[cfg(unix)]
    let id = {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&canonical).ok().map(|found| (found.dev(), found.ino()))
    };
    #[cfg(not(unix))]
    let id = None;
    Some((canonical, id))
}

/// Returns the absolute path without symbolic links. The path need not exist. If it leads over a
/// link to a missing file, returns the absolute path with its links.
fn place(path: &Path) -> Outcome<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::file(path, error))?;
    for existing in absolute.ancestors() {
        match existing.canonicalize() {
            Ok(canonical) => {
                let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
                if rest.components().any(|part| part == Component::ParentDir) {
                    let path = path.display();
                    return Err(Failure::Message(format!(
                        "{path}: `..` follows a folder that does not exist; give the path without `..`"
                    )));
                }
                return Ok(canonical.join(rest));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(existing).is_err() => {}
            // `existing` is a link to a missing file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(absolute),
            Err(error) => return Err(Failure::file(path, error)),
        }
    }
    Ok(absolute)
}

/// Returns a message about the table that lists the file at `target`, or `None` if no folder above
/// the file looks like a table.
pub fn table_around(target: &Path) -> Option<String> {
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
