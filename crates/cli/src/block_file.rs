//! Opening a filter block file or a file of another engine, with a plain word for what is neither.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::failure::{Failure, Outcome};
use super::foreign::{FileArguments, Foreign};
use super::secret::SecretArguments;
use super::text;
use filterblock::AlignedBytes;
use filterblock::layout::{MAGIC, TRAILER_LEN_BYTES};
use filterblock::{Added, FilterBlock, LockedBlock, Verify};
use filterblock::{Error, Field};

/// What a file turned out to be.
#[derive(Debug)]
pub enum BlockFile {
    /// A sound filter block, which may take a secret to be asked.
    Sound(LockedBlock<AlignedBytes>),
    /// A file or filter of another engine, of which everything was checked that an answer rests on.
    Foreign(Foreign),
    /// Bytes that are neither, or damaged, and why.
    Damaged(String),
}

/// A file that holds, ready to be unlocked or asked.
#[derive(Debug)]
pub enum FilterFile {
    Native(LockedBlock<AlignedBytes>),
    Foreign(Foreign),
}

/// Finds out what a file is. Reads a filter block, rather than mapping it: whoever cuts it meanwhile must not end the
/// command.
pub fn check(path: &Path, arguments: &FileArguments) -> Outcome<BlockFile> {
    // A directory or device fails with words that do not help, and a pipe is waited for.
    let found = path.metadata().map_err(|error| Failure::file(path, error))?;
    if !found.is_file() {
        return Err(Failure::Message(format!("{}: not a regular file", path.display())));
    }
    // Before all of it is read: it may be a large file of another kind.
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
        // The trailer's checksum tells: it holds when the version is put back.
        Err(error) if matches!(error.root(), Error::Corrupt { field: Field::Version, .. }) => {
            Ok(BlockFile::Damaged(format!("{error}; no newer version of filterblock wrote this block")))
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
                "{path}: not a filter block nor a file of another engine that is known (no magic at its end), or cut: \
                 {len}"
            )))
        }
        Err(error) if error.is_damage() => Ok(BlockFile::Damaged(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file that must be sound, without asking it for keys.
pub fn open(path: &Path, arguments: &FileArguments) -> Outcome<FilterFile> {
    match check(path, arguments)? {
        BlockFile::Sound(filter) => Ok(FilterFile::Native(filter)),
        BlockFile::Foreign(file) => Ok(FilterFile::Foreign(file)),
        BlockFile::Damaged(reason) => Err(Failure::Message(reason)),
    }
}

/// The filter, ready to be asked for keys.
pub fn unlock(
    path: &Path,
    filter: LockedBlock<AlignedBytes>,
    secret: &SecretArguments,
) -> Outcome<FilterBlock<AlignedBytes>> {
    let key = secret.read()?;
    filter.unlock(key.as_ref()).map_err(|error| secret.explain(error.in_file(path)))
}

/// Refuses questions that the filter cannot answer: asked for a whole key, a filter of prefixes would deny it.
pub fn check_question(path: &Path, filter: &FilterBlock<AlignedBytes>, prefixes: bool) -> Outcome<()> {
    let path = path.display();
    match (prefixes, filter.metadata().added) {
        (false, Added::Prefixes) => Err(Failure::Message(format!(
            "{path}: the filter holds prefixes of keys and knows no whole key; give prefixes, with --prefixes"
        ))),
        (true, Added::WholeKeys) => {
            Err(Failure::Message(format!("{path}: the filter holds whole keys and knows no prefix of them")))
        }
        _ => Ok(()),
    }
}
