//! Opening a filter block file, with a plain word for what is none.

use std::path::Path;

use super::failure::{Failure, Outcome};
use super::secret::SecretArguments;
use super::text;
use crate::block::layout::{MAGIC, TRAILER_LEN_BYTES};
use crate::block::{Added, FilterBlock, LockedBlock, Mapped, Verify};
use crate::error::Error;

/// What a file turned out to be.
#[derive(Debug)]
pub enum BlockFile {
    /// A sound filter block, which may take a secret to be asked.
    Sound(LockedBlock<Mapped>),
    /// Bytes that are no filter block, or a damaged one, and why.
    Damaged(String),
}

/// Maps the file and checks every page of it.
pub fn check(path: &Path) -> Outcome<BlockFile> {
    // A map of a directory or device fails with words that do not help, and a pipe is waited for.
    let found = path.metadata().map_err(|error| Failure::file(path, error))?;
    if !found.is_file() {
        return Err(Failure::Message(format!("{}: not a regular file", path.display())));
    }
    let mapped = Mapped::open(path)?;
    let bytes = mapped.as_ref();
    if bytes.len() < TRAILER_LEN_BYTES || !bytes.ends_with(&MAGIC) {
        let len = text::count(bytes.len() as u64, "byte");
        let reason = format!("{}: not a filter block (no magic at its end), or cut: {len}", path.display());
        return Ok(BlockFile::Damaged(reason));
    }
    match LockedBlock::open(mapped, Verify::AtOpen).map_err(|error| error.in_file(path)) {
        Ok(filter) => Ok(BlockFile::Sound(filter)),
        Err(error) if error.is_damage() && !is_newer(&error) => Ok(BlockFile::Damaged(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file that must be sound, without asking it for keys.
pub fn open_locked(path: &Path) -> Outcome<LockedBlock<Mapped>> {
    match check(path)? {
        BlockFile::Sound(filter) => Ok(filter),
        BlockFile::Damaged(reason) => Err(Failure::Message(reason)),
    }
}

/// The filter, ready to be asked for keys.
pub fn unlock(path: &Path, filter: LockedBlock<Mapped>, secret: &SecretArguments) -> Outcome<FilterBlock<Mapped>> {
    let key = secret.read()?;
    filter.unlock(key.as_ref()).map_err(|error| secret.explain(error.in_file(path)))
}

/// Refuses questions that the filter cannot answer: asked for a whole key, a filter of prefixes would deny it.
pub fn check_question(path: &Path, filter: &FilterBlock<Mapped>, prefixes: bool) -> Outcome<()> {
    let path = path.display();
    match (prefixes, filter.added()) {
        (false, Added::Prefixes) => Err(Failure::Message(format!(
            "{path}: the filter holds prefixes of keys and knows no whole key; give prefixes, with --prefixes"
        ))),
        (true, Added::WholeKeys) => {
            Err(Failure::Message(format!("{path}: the filter holds whole keys and knows no prefix of them")))
        }
        _ => Ok(()),
    }
}

/// Whether the bytes are of a newer format, as opposed to damaged.
pub fn is_newer(error: &Error) -> bool {
    matches!(error.root(), Error::Unsupported { .. })
}
