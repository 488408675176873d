//! Opens a filter block file or a file of another engine, and explains files that are neither. Also
//! unlocks a filter block, and checks that it can answer a query.

use std::path::Path;

use super::failure::{Failure, Outcome};
use super::foreign::file::damage_of;
use super::foreign::{FileArguments, Foreign, ValueType, own};
use super::format::{Ends, Kind};
use super::secret::SecretArguments;
use super::{held, text};
use filterblock::AlignedBytes;
use filterblock::{Added, FilterBlock, ParsedBlock, Verify};
use filterblock::{Error, Field};

/// The result of checking a file.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command holds one value")]
pub enum BlockFile {
    /// A sound filter block. Queries need an unlocked block, and unlocking may need a secret.
    Sound(ParsedBlock<AlignedBytes>),
    /// A file or bare filter of another engine.
    Foreign(Foreign),
    /// A damaged or unknown file, with the reason.
    Damaged(String),
}

/// A file in which [`check`] found no damage.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command holds one value")]
pub enum FilterFile {
    Native(ParsedBlock<AlignedBytes>),
    Foreign(Foreign),
}

impl FilterFile {
    /// Returns the filter block, or an error for a file of another format.
    pub fn native(self, path: &Path) -> Outcome<ParsedBlock<AlignedBytes>> {
        match self {
            Self::Native(block) => Ok(block),
            Self::Foreign(file) => Err(Failure::Message(format!(
                "{}: this is a {}, not a filter block; give a filter block (filterblock convert makes one of a LevelDB or \
                 RocksDB table)",
                path.display(),
                file.kind()
            ))),
        }
    }
}

/// Determines the type of a file and checks it. A filter block is read and not mapped, because
/// another process could truncate a mapped file and so kill the command.
pub fn check(path: &Path, arguments: &FileArguments) -> Outcome<BlockFile> {
    let place = held::place(path)?;
    let ends = Ends::of(&place).map_err(|error| Failure::file(path, error))?;
    // A bare filter may have any bytes.
    let kind = ends.format().filter(|_| arguments.format.is_none());
    let damaged = |error: String| BlockFile::Damaged(error);
    let opened = match kind.map(|format| (format.kind, format)) {
        Some((Kind::Block, _)) => return check_block(path, &place, arguments),
        Some((Kind::Sst, _)) => own::Sst::open(path, place)?.map(Foreign::Sst),
        Some((Kind::FileFilter, _)) => {
            own::open_file_filter(path, &place)?.map(|filter| Foreign::FileFilter(Box::new(filter)))
        }
        Some((Kind::Index | Kind::Stranger, format)) => {
            let (path, name, advice) = (path.display(), format.name, format.advice);
            return Err(Failure::Message(format!("{path}: this is {name}, not a filter; {advice}")));
        }
        Some((Kind::Foreign(_), _)) | None => match Foreign::open(path, &place, arguments) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => return unknown(path, &ends),
            Err(failure) => Err(damage_of(&failure, arguments.key_form).ok_or(failure)?),
        },
    };
    if let Ok(file) = &opened {
        arguments.check(path, Some(file), file.kind())?;
    }
    Ok(opened.map_or_else(damaged, BlockFile::Foreign))
}

/// Explains a file of no known format.
fn unknown(path: &Path, ends: &Ends) -> Outcome<BlockFile> {
    let path = path.display();
    match ends.len_bytes() {
        0 => Ok(BlockFile::Damaged(format!("{path}: the file is empty; build it again, or restore it"))),
        _ if ends.is_text() => Err(Failure::Message(format!(
            "{path}: a text file, not a filter; to build a filter of its lines, use \"filterblock build\""
        ))),
        len => Ok(BlockFile::Damaged(format!(
            "{path}: neither a filter block nor a known file of another engine ({}); it may be damaged or truncated, or \
             a bare filter, which only inspect, query, verify and export read (with --format)",
            text::count(len, "byte")
        ))),
    }
}

fn check_block(path: &Path, place: &Path, arguments: &FileArguments) -> Outcome<BlockFile> {
    arguments.check(path, None, "filter block")?;
    let content =
        AlignedBytes::read(place).map_err(|error| Failure::Message(format!("{}: {}", path.display(), error.root())))?;
    match ParsedBlock::open(content, Verify::AtOpen).map_err(|error| error.in_file(path)) {
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

/// Returns whether the file is an index over many files.
pub fn is_index(path: &Path, arguments: &FileArguments) -> Outcome<bool> {
    let ends = Ends::of(&held::place(path)?).map_err(|error| Failure::file(path, error))?;
    let is_index = arguments.format.is_none() && ends.format().is_some_and(|format| format.kind == Kind::Index);
    if is_index { arguments.check(path, None, "filterblock-index").map(|()| true) } else { Ok(false) }
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
    filter: ParsedBlock<AlignedBytes>,
    secret: &SecretArguments,
) -> Outcome<FilterBlock<AlignedBytes>> {
    let key = secret.read()?;
    filter.bind_any(key.as_ref()).map_err(|error| secret.explain(error.in_file(path)))
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
