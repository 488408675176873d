//! Finds the Parquet files that the arguments name: files, folders and patterns. Chooses the output files
//! of `filterblock parquet add`, and refuses outputs that would destroy an input.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::prelude::*;
use filterblock_parquet::folder;

/// An input file, and the path of its output relative to the output folder.
#[derive(Clone, PartialEq, Eq)]
pub struct Input {
    pub path: PathBuf,
    pub below: PathBuf,
}

pub struct Inputs {
    pub files: Vec<Input>,
    /// The arguments that are folders.
    pub folders: Vec<PathBuf>,
    /// Whether the arguments name exactly one file, and no folder or pattern.
    pub is_one_file: bool,
}

/// Finds the files, in the order of the arguments. A folder stands for the Parquet files in it at
/// any depth. In folders, skips names that begin with a dot or an underscore, and links to folders.
/// Returns an error for a folder or a pattern that cannot be read or gives no files.
pub fn find(arguments: &[PathBuf], extensions: &[&str]) -> Outcome<Inputs> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let found = folder::files_in(argument, extensions)?;
            let is_empty = found.is_empty();
            files.extend(found.into_iter().map(|below| Input { path: argument.join(&below), below }));
            if is_empty {
                let names = extensions.iter().map(|end| format!("*.{end}")).collect::<Vec<_>>().join(", ");
                let why = format!(
                    "the folder has no file with one of the names {names}; names that begin with a dot or an underscore do not count"
                );
                return Err(no_files(argument, &why));
            }
        } else if argument.exists() || !is_pattern(argument) {
            files.push(Input { path: argument.clone(), below: name_of(argument)? });
        } else {
            files.extend(matching(argument)?);
        }
    }
    let is_one_file = files.len() == 1 && matches!(arguments, [argument] if argument.is_file());
    let folders = arguments.iter().filter(|argument| argument.is_dir()).cloned().collect();
    Ok(Inputs { files, folders, is_one_file })
}

/// Returns an error for a file that only repeats the footers or the schema of other files.
pub fn refuse_companion(path: &Path) -> Outcome<()> {
    match folder::is_companion(path) {
        true => refuse(
            path,
            "this file has no data, only the footers or the schema of other files; give the files with the data (if you add filters to them, write a _metadata file again afterwards)",
        ),
        false => Ok(()),
    }
}

fn name_of(path: &Path) -> Outcome<PathBuf> {
    path.file_name().map(PathBuf::from).ok_or_else(|| no_files(path, "this path has no file name"))
}

fn no_files(path: &Path, why: &str) -> Failure {
    Failure::about(path, format!("{why}; give files, folders or patterns"))
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

/// Returns the files that match a pattern. [`Input::below`] begins at the pattern's first component
/// with a wildcard.
fn matching(pattern: &Path) -> Outcome<Vec<Input>> {
    let fixed: PathBuf = pattern.components().take_while(|part| !is_pattern(Path::new(part))).collect();
    let text = pattern.to_str().unwrap_or_default();
    let found = glob::glob(text).map_err(|error| no_files(pattern, &format!("the pattern is not valid: {error}")))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| Failure::file(error.path(), io::Error::other(error.error().to_string())))?;
        if path.is_file() {
            let below = path.strip_prefix(&fixed).map_or_else(|_| name_of(&path), |below| Ok(below.to_path_buf()))?;
            files.push(Input { path, below });
        }
    }
    if files.is_empty() { Err(no_files(pattern, "no file matches the pattern")) } else { Ok(files) }
}

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
            return refuse(
                &target,
                "this file is also an input; choose another output; to replace the files themselves, use --in-place",
            );
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
        false => refuse(&input.path, "this file is given twice; give it once"),
    };
    inputs.files.iter().map(target).collect()
}

fn same(target: &Path) -> Failure {
    Failure::about(
        target,
        "two of the given files have this output; give each file once; for different files with the same name, give their common folder, or a pattern such as 'lake/*/a.parquet'",
    )
}

/// Returns an error if the output folder is an input folder or lies in one: the next run would read
/// the outputs of this run.
fn refuse_nested(output: &Path, inputs: &Inputs) -> Outcome<()> {
    let output_place = place(output)?;
    let is_outer = |folder: &&PathBuf| folder.canonicalize().is_ok_and(|folder| output_place.starts_with(folder));
    match inputs.folders.iter().find(is_outer) {
        None => Ok(()),
        Some(folder) => refuse(
            output,
            format!(
                "the output folder is the input folder {} or lies in it; choose a folder beside the input folder; to \
             replace the files themselves, use --in-place",
                folder.display()
            ),
        ),
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
                    return refuse(path, "`..` follows a folder that does not exist; give the path without `..`");
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
    let (table, format) = folder::table_around(target)?;
    Some(format!(
        "{}: the metadata of this {format} table record the length of each file, so readers may refuse the replaced file; \
         write a new file with --output and register it",
        table.display()
    ))
}
