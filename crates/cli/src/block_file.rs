//! Opens a filter block file or a file of another engine, and explains files that are neither. Also
//! unlocks a filter block, and checks that it can answer a query.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::failure::{Failure, Outcome};
use super::foreign::file::table_message;
use super::foreign::{FileArguments, Foreign, ValueType};
use super::secret::SecretArguments;
use super::text;
use filterblock::AlignedBytes;
use filterblock::layout::{MAGIC, TRAILER_LEN_BYTES};
use filterblock::{Added, FilterBlock, LockedBlock, Verify};
use filterblock::{Error, Field};

/// The result of checking a file.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command holds one value")]
pub enum BlockFile {
    /// A sound filter block. Queries need an unlocked block, and unlocking may need a secret.
    Sound(LockedBlock<AlignedBytes>),
    /// A file or bare filter of another engine.
    Foreign(Foreign),
    /// A damaged or unknown file, with the reason.
    Damaged(String),
}

/// A file in which [`check`] found no damage.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command holds one value")]
pub enum FilterFile {
    Native(LockedBlock<AlignedBytes>),
    Foreign(Foreign),
}

/// Determines the type of a file and checks it. A filter block is read and not mapped, because
/// another process could truncate a mapped file and so kill the command.
pub fn check(path: &Path, arguments: &FileArguments) -> Outcome<BlockFile> {
    // Reading a directory fails with an unhelpful message, and reading a device or a pipe may
    // never end.
    let found = path.metadata().map_err(|error| Failure::file(path, error))?;
    if !found.is_file() {
        return Err(Failure::Message(format!(
            "{}: not a regular file (a directory, a device or a pipe); give a file",
            path.display()
        )));
    }
    // The magic is checked before the whole file is read, because a file of another type may be
    // large.
    let read_magic = || {
        let mut magic = [0; MAGIC.len()];
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(found.len().saturating_sub(MAGIC.len() as u64)))?;
        file.read_exact(&mut magic).map(|()| magic)
    };
    let is_block = arguments.format.is_none()
        && found.len() >= TRAILER_LEN_BYTES as u64
        && read_magic().map_err(|error| Failure::file(path, error))? == MAGIC;
    if !is_block {
        return check_foreign(path, arguments, found.len());
    }
    arguments.check(path, None)?;
    let content = AlignedBytes::read(path)?;
    match LockedBlock::open(content, Verify::AtOpen).map_err(|error| error.in_file(path)) {
        Ok(filter) => Ok(BlockFile::Sound(filter)),
        Err(error) if matches!(error.root(), Error::Corrupt { field: Field::Version, .. }) => {
            Ok(BlockFile::Damaged(format!(
                "{error}; the stored version is damaged, not newer: the trailer's checksum matches version 1, or the stored version is 0, which no format has"
            )))
        }
        Err(error) if error.is_damage() => Ok(BlockFile::Damaged(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn check_foreign(path: &Path, arguments: &FileArguments, len_bytes: u64) -> Outcome<BlockFile> {
    match Foreign::open(path, arguments) {
        Ok(Some(file)) => {
            arguments.check(path, Some(&file))?;
            Ok(BlockFile::Foreign(file))
        }
        Ok(None) => {
            let (path, len) = (path.display(), text::count(len_bytes, "byte"));
            Ok(BlockFile::Damaged(format!(
                "{path}: neither a filter block nor a known file of another engine ({len}); it may be damaged or \
                 truncated, a file of a store (see filterblock db), an index (see filterblock index), or a bare \
                 filter, which only inspect, query, verify and export read (with --format)"
            )))
        }
        Err(error) if error.is_damage() => Ok(BlockFile::Damaged(table_message(&error, arguments.key_form))),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file without unlocking it. Returns an error for a damaged or unknown file.
pub fn open(path: &Path, arguments: &FileArguments) -> Outcome<FilterFile> {
    match check(path, arguments)? {
        BlockFile::Sound(filter) => Ok(FilterFile::Native(filter)),
        BlockFile::Foreign(file) => Ok(FilterFile::Foreign(file)),
        BlockFile::Damaged(reason) => Err(Failure::Message(reason)),
    }
}

/// Reads the secret, if one is given, and unlocks the filter for queries.
pub fn unlock(
    path: &Path,
    filter: LockedBlock<AlignedBytes>,
    secret: &SecretArguments,
) -> Outcome<FilterBlock<AlignedBytes>> {
    let key = secret.read()?;
    filter.unlock(key.as_ref()).map_err(|error| secret.explain(error.in_file(path)))
}

/// Returns an error if --type is given. Call it for a filter block.
pub fn refuse_type(path: &Path, value_type: Option<ValueType>) -> Outcome<()> {
    match value_type {
        None => Ok(()),
        Some(_) => Err(Failure::Message(format!(
            "{}: --type is for Parquet values, and this is a filter block; omit --type",
            path.display()
        ))),
    }
}

/// Returns the message about a range filter that cannot be used. The filter beside it is usable.
pub fn unusable_ranges(path: &Path, error: &Error) -> String {
    format!("{}: the range filter cannot be used: {error}", path.display())
}

/// Returns an error if the filter cannot answer range queries.
pub fn check_ranges(path: &Path, filter: &FilterBlock<AlignedBytes>) -> Outcome<()> {
    if let Some(error) = filter.ranges_error() {
        return Err(Failure::Message(unusable_ranges(path, error)));
    }
    if filter.has_ranges() {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::Message(format!(
        "{path}: this filter cannot answer range queries; query keys or prefixes without --ranges, or build a range filter with \
         \"filterblock build --filter grafite:fpr=0.01 -o OUT KEYFILE\""
    )))
}

/// Returns an error if `prefixes` is set and the filter holds no prefixes, or if `prefixes` is not
/// set and the filter holds prefixes only. Such a filter would answer "maybe" to every query.
pub fn check_question(path: &Path, filter: &FilterBlock<AlignedBytes>, prefixes: bool) -> Outcome<()> {
    let path = path.display();
    match (prefixes, filter.metadata().added) {
        (false, Added::Prefixes) => Err(Failure::Message(format!(
            "{path}: this filter holds prefixes of keys only; give prefixes, and add --prefixes"
        ))),
        (true, Added::WholeKeys | Added::Ranges) => Err(Failure::Message(format!(
            "{path}: this filter holds whole keys only; give whole keys, and omit --prefixes"
        ))),
        _ => Ok(()),
    }
}
