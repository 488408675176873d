//! Opens a filter block file or a file of another engine, and explains files that are neither. Also
//! unlocks a filter block, checks that it can answer a query, and copies pipes to temporary files, so
//! that commands that seek can read them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::foreign::file::damage_of;
use crate::foreign::{FileArguments, Foreign, ValueType, own};
use crate::format::{Ends, Kind, not_a_file};
use crate::interrupt::Temporary;
use crate::prelude::*;
use crate::secret::SecretArguments;
use crate::streams;
use filterblock::{Added, AlignedBytes, Error, Field, FilterBlock, ParsedBlock, Verify};

/// A file in which [`check`] found no damage.
#[expect(clippy::large_enum_variant, reason = "a command holds one value")]
pub enum FilterFile {
    /// A sound filter block. Queries need an unlocked block, and unlocking may need a secret.
    Native(ParsedBlock<AlignedBytes>),
    /// A file or bare filter of another engine.
    Foreign(Foreign),
}

/// Determines the type of a file and checks it. The inner error says why the file is damaged or
/// unknown. A filter block is read and not mapped, because another process could truncate a mapped
/// file and so kill the command.
pub fn check(path: &Path, arguments: &FileArguments) -> Outcome<Result<FilterFile, String>> {
    let place = place(path)?;
    let ends = Ends::of(&place).map_err(|error| Failure::file(path, error))?;
    // A bare filter may have any bytes.
    let kind = ends.format().filter(|_| arguments.format.is_none());
    let opened = match kind.map(|format| (format.kind, format)) {
        Some((Kind::Block, _)) => return check_block(path, &place, arguments),
        Some((Kind::Sst, _)) => own::Sst::open(path, place)?.map(Foreign::Sst),
        Some((Kind::FileFilter, _)) => {
            own::open_file_filter(path, &place)?.map(|filter| Foreign::FileFilter(Box::new(filter)))
        }
        Some((Kind::Index | Kind::Stranger, format)) => {
            return refuse(path, format!("this is {}, not a filter; {}", format.name, format.advice));
        }
        Some((Kind::Foreign(_), _)) | None => match Foreign::open(path, &place, arguments) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => return unknown(path, &ends).map(Err),
            Err(failure) => Err(damage_of(&failure, arguments.key_form).ok_or(failure)?),
        },
    };
    if let Ok(file) = &opened {
        arguments.check(path, Some(file), file.kind())?;
    }
    Ok(opened.map(FilterFile::Foreign))
}

fn unknown(path: &Path, ends: &Ends) -> Outcome<String> {
    let name = path.display();
    match ends.len_bytes() {
        0 => Ok(format!("{name}: the file is empty; build it again, or restore it")),
        _ if ends.is_text() => {
            refuse(path, "a text file, not a filter; to build a filter of its lines, use \"filterblock build\"")
        }
        _ if ends.begins(b"PAR1") => Ok(format!(
            "{name}: a Parquet file without its end, so it is truncated; restore it, or let its writer write it again"
        )),
        len => Ok(format!(
            "{name}: neither a filter block nor a known file of another engine ({}); if it is damaged or truncated, \
             restore it; only if an engine wrote it as a bare filter, give --format to inspect, query, verify or \
             export: a bare filter has no checksum, so with a wrong --format it denies present keys",
            count(len, "byte")
        )),
    }
}

fn check_block(path: &Path, place: &Path, arguments: &FileArguments) -> Outcome<Result<FilterFile, String>> {
    arguments.check(path, None, "filter block")?;
    let content = AlignedBytes::read(place).map_err(|error| Failure::about(path, error.root()))?;
    match ParsedBlock::open(content, Verify::AtOpen).map_err(|error| error.in_file(path)) {
        Ok(filter) => Ok(Ok(FilterFile::Native(filter))),
        Err(error) if matches!(error.root(), Error::Corrupt { field: Field::Version, .. }) => Ok(Err(format!(
            "{error}; the stored version is damaged, not newer: the trailer's checksum matches version 1, or the stored \
             version is 0, which no format has"
        ))),
        Err(error) if error.is_damage() => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

pub fn is_index(path: &Path, arguments: &FileArguments) -> Outcome<bool> {
    let ends = Ends::of(&place(path)?).map_err(|error| Failure::file(path, error))?;
    let is_index = arguments.format.is_none() && ends.format().is_some_and(|format| format.kind == Kind::Index);
    if is_index { arguments.check(path, None, "filterblock-index").map(|()| true) } else { Ok(false) }
}

/// Opens a file without unlocking it. Returns an error for a damaged or unknown file.
pub fn open(path: &Path, arguments: &FileArguments) -> Outcome<FilterFile> {
    check(path, arguments)?.map_err(Failure::Message)
}

/// Opens a filter block without unlocking it. Returns an error for any other file.
pub fn open_native(path: &Path) -> Outcome<ParsedBlock<AlignedBytes>> {
    match open(path, &FileArguments::default())? {
        FilterFile::Native(block) => Ok(block),
        FilterFile::Foreign(file) => {
            let advice = "give a filter block (filterblock convert makes one of a LevelDB or RocksDB table)";
            refuse(path, format!("this is a {}, not a filter block; {advice}", file.kind()))
        }
    }
}

/// Reads the secret, if one is given, and unlocks the filter for queries.
pub fn unlock(
    path: &Path,
    filter: ParsedBlock<AlignedBytes>,
    secret: &SecretArguments,
) -> Outcome<FilterBlock<AlignedBytes>> {
    let key = secret.read()?;
    filter.bind_any(key.as_ref()).map_err(|error| secret.explain(error.in_file(path)))
}

pub fn refuse_type(path: &Path, value_type: Option<ValueType>) -> Outcome<()> {
    match value_type {
        None => Ok(()),
        Some(_) => refuse(path, "--type is for Parquet values, and this is a filter block; omit --type"),
    }
}

/// Returns the message about a range filter that cannot be used. The filter beside it is usable.
pub fn unusable_ranges(path: &Path, error: &Error) -> String {
    format!("{}: the range filter cannot be used: {error}", path.display())
}

pub fn check_ranges(path: &Path, filter: &FilterBlock<AlignedBytes>) -> Outcome<()> {
    if let Some(error) = filter.ranges_error() {
        return fail(unusable_ranges(path, error));
    }
    if filter.has_ranges() {
        return Ok(());
    }
    refuse(
        path,
        "this filter cannot answer range queries; query keys or prefixes without --ranges, or build a range filter with \
         \"filterblock build --filter grafite:fpr=0.01 -o OUT KEYFILE\"",
    )
}

/// Returns an error if `prefixes` is set and the filter holds no prefixes, or if `prefixes` is not
/// set and the filter holds prefixes only. Such a filter would answer "maybe" to every query.
pub fn check_question(path: &Path, filter: &FilterBlock<AlignedBytes>, prefixes: bool) -> Outcome<()> {
    match (prefixes, filter.metadata().added) {
        (false, Added::Prefixes) => {
            refuse(path, "this filter holds prefixes of keys only; give prefixes, and add --prefixes")
        }
        (true, Added::WholeKeys | Added::Ranges) => {
            refuse(path, "this filter holds whole keys only; give whole keys, and omit --prefixes")
        }
        _ => Ok(()),
    }
}

/// The pipes that were read, each with its copy.
static HELD: Mutex<Vec<(PathBuf, Temporary<NamedTempFile>)>> = Mutex::new(Vec::new());

/// Returns the path of a regular file with the bytes of the file at `path`. This is `path` itself
/// unless it is a pipe, or `-` for stdin. A pipe is read once, and its copy stays until
/// [`remove_copies`].
pub fn place(path: &Path) -> Outcome<PathBuf> {
    let is_stdin = path.as_os_str() == "-";
    if !is_stdin {
        let found = path.metadata().map_err(|error| Failure::file(path, error))?;
        if found.is_file() {
            return Ok(path.to_path_buf());
        }
        if !is_pipe(&found) {
            return refuse(path, not_a_file(path));
        }
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, copy)) = held.iter().find(|(name, _)| name == path) {
        return Ok(copy.path().to_path_buf());
    }
    let copy = || {
        let mut input = if is_stdin { output::stdin("a file")? } else { streams::open(path)? };
        let copy = Temporary::make(NamedTempFile::new)?;
        io::copy(&mut input, &mut copy.as_file())?;
        Ok(copy)
    };
    let copy: Temporary<NamedTempFile> = copy().map_err(|error| Failure::file(path, error))?;
    let place = copy.path().to_path_buf();
    held.push((path.to_path_buf(), copy));
    Ok(place)
}

/// Removes the copies of pipes. Call it at the end of the command.
pub fn remove_copies() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Returns an error if both a filter and its keys are to come from stdin.
pub fn refuse_both(file: &Path, keys: Option<&Path>) -> Outcome<()> {
    match file.as_os_str() == "-" && keys == Some(file) {
        true => {
            refuse(file, "both the filter and the keys are to come from standard input; give one of them as a file")
        }
        false => Ok(()),
    }
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
