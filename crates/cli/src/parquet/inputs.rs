//! Finds the Parquet files that the arguments name. An argument is a file, a folder or a pattern.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::super::failure::{Failure, Outcome};

/// The file name extensions of Parquet files in a folder.
const EXTENSIONS: [&str; 3] = ["parquet", "parq", "pq"];
/// The names of files that repeat the footers, or the schema, of the Parquet files in their folder.
/// New filters make the copies of the footers wrong.
const COMPANIONS: [&str; 2] = ["_metadata", "_common_metadata"];

/// An input file, and the path of its output relative to the output folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub path: PathBuf,
    pub below: PathBuf,
}

/// The files of a command line.
#[derive(Debug)]
pub struct Inputs {
    pub files: Vec<Input>,
    /// The arguments that are folders.
    pub folders: Vec<PathBuf>,
    /// Whether the arguments name exactly one file, and no folder or pattern.
    pub is_one_file: bool,
}

/// Returns an error if no file is given. The option --column takes all names after it, so it may
/// have taken the files.
pub fn require(files: &[PathBuf], columns: &[String]) -> Outcome<()> {
    match (files, columns) {
        ([], []) => Err(Failure::Message("no file is given; give files, folders or patterns".into())),
        ([], _) => Err(Failure::Message("no file is given; give the files before --column".into())),
        _ => Ok(()),
    }
}

/// Finds the files, in the order of the arguments. A folder stands for the Parquet files in it at
/// any depth. In folders, skips names that begin with a dot or an underscore, and links to folders.
/// Returns an error for a folder or a pattern that cannot be read or gives no files.
pub fn find(arguments: &[PathBuf]) -> Outcome<Inputs> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let before = files.len();
            walk(argument, Path::new(""), &mut files)?;
            if files.len() == before {
                let why = "the folder has no files *.parquet, *.parq or *.pq; names that begin with a dot or an underscore do not count";
                return Err(no_files(argument, why));
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

/// Returns an error for a file with a name in [`COMPANIONS`].
pub fn refuse_companion(path: &Path) -> Outcome<()> {
    match path.file_name().is_some_and(|name| COMPANIONS.iter().any(|companion| name == *companion)) {
        true => Err(Failure::Message(format!(
            "{}: this file has no data, only the footers or the schema of other files; give the files with the data (if you add filters to them, write a _metadata file again afterwards)",
            path.display()
        ))),
        false => Ok(()),
    }
}

fn name_of(path: &Path) -> Outcome<PathBuf> {
    path.file_name().map(PathBuf::from).ok_or_else(|| no_files(path, "this path has no file name"))
}

fn no_files(path: &Path, why: &str) -> Failure {
    Failure::Message(format!("{}: {why}; give files, folders or patterns", path.display()))
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

fn walk(folder: &Path, below: &Path, files: &mut Vec<Input>) -> Outcome<()> {
    let failed = |error| Failure::file(folder, error);
    let mut entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_") {
            continue;
        }
        // Links to folders are not followed, because they may form a cycle.
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&path, &below.join(&name), files)?;
        } else if has_extension(&path) && path.is_file() {
            files.push(Input { below: below.join(&name), path });
        }
    }
    Ok(())
}

fn has_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|found| EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(found)))
}
