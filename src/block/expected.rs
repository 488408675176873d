//! What a reader knows of a block before it opens it.

use super::layout::Added;
use super::locked::LockedBlock;
use super::reader::{FilterBlock, Verify};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHasher;

/// What a block must be, for [`FilterBlock::open_expecting`] to open it: the filter of this table, which may be asked for
/// whole keys.
///
/// A block that is sound and belongs to another table denies the keys of this one. Only its reader can know: it states the
/// table id that the writer gave to [`FilterBuilder::with_table_id`](super::FilterBuilder::with_table_id).
///
/// ```
/// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, Verify};
///
/// let mut builder = FilterBuilder::new("bloom:10".parse()?, HashSeed(1)).with_table_id(*b"table 0000000012");
/// builder.add(b"apple");
/// let bytes = builder.finish()?;
/// let open = |id| FilterBlock::open_expecting(&bytes, &Expected::of_table(id), Verify::AtOpen);
/// assert!(open(*b"table 0000000012")?.may_contain_key(b"apple"));
/// assert!(open(*b"table 0000000013").is_err());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    table_id: [u8; 16],
    hasher: Option<&'a KeyHasher>,
    prefixes_by: Option<&'a str>,
}

impl<'a> Expected<'a> {
    /// The filter of this table, of whole keys.
    ///
    /// Zeros are the id of no table: every block whose writer gave no id has them, so opening is an error
    /// ([`Error::Invalid`]).
    ///
    /// The block's own hash function and seed are believed, as keys that [`FilterBlock::may_contain_key`] hashes cannot be
    /// hashed otherwise. A reader that hashes keys itself states its hasher: [`with_hasher`](Self::with_hasher).
    #[must_use]
    pub fn of_table(table_id: [u8; 16]) -> Self {
        Self { table_id, hasher: None, prefixes_by: None }
    }

    /// Of keys that this hasher hashed: by the same function, under the same seed and secret. It unlocks a block whose keys were
    /// hashed under a secret.
    #[must_use]
    pub fn with_hasher(self, hasher: &'a KeyHasher) -> Self {
        Self { hasher: Some(hasher), ..self }
    }

    /// Of prefixes that this function took, whether or not of whole keys too.
    #[must_use]
    pub fn with_prefixes(self, extractor: &'a str) -> Self {
        Self { prefixes_by: Some(extractor), ..self }
    }

    /// # Errors
    /// [`Error::Invalid`] where no table is named; [`Error::Unexpected`], naming what is not as expected.
    fn check<D: AsRef<[u8]>>(&self, block: &LockedBlock<D>) -> Result<()> {
        if self.table_id == [0; 16] {
            let reason = "zeros stand for no table, and any block without a table id would pass; give the table's id";
            return Err(Error::invalid("expected table id", hex(self.table_id), reason));
        }
        let added = block.added();
        let unexpected =
            |field, found, expected: &str| Err(Error::Unexpected { field, found, expected: expected.into() });
        if block.table_id() != self.table_id {
            return unexpected(Field::TableId, hex(block.table_id()), &hex(self.table_id));
        }
        match self.prefixes_by {
            None if !added.whole_keys() => unexpected(Field::Flags, format!("{added:?}"), "WholeKeys or Both"),
            Some(_) if added == Added::WholeKeys => unexpected(Field::Flags, format!("{added:?}"), "Prefixes or Both"),
            Some(extractor) if block.extractor() != Some(extractor) => {
                unexpected(Field::Extension, block.extractor().unwrap_or_default().into(), extractor)
            }
            _ => Ok(()),
        }
    }
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block that must be as it is expected: another table's filter, or one of prefixes only, denies keys.
    ///
    /// # Errors
    /// As [`FilterBlock::open_with`]; [`Error::Invalid`] for an expected table id of zeros; [`Error::Unexpected`] naming the table id, the flags (what was added), the extension
    /// (the prefix function), the hash function or the seed of a sound block that is another than expected;
    /// [`Error::Secret`] for keys that were hashed under another secret.
    pub fn open_expecting(data: D, expected: &Expected<'_>, verify: Verify) -> Result<Self> {
        LockedBlock::open(data, verify)?.unlock_expecting(expected)
    }
}

impl<D: AsRef<[u8]>> LockedBlock<D> {
    /// The block, ready to be asked, if it is as expected; also for a partition that was opened alone.
    ///
    /// # Errors
    /// As [`FilterBlock::open_expecting`].
    pub fn unlock_expecting(self, expected: &Expected<'_>) -> Result<FilterBlock<D>> {
        expected.check(&self)?;
        match expected.hasher {
            Some(hasher) => self.unlock_with(hasher),
            None => self.unlock(None),
        }
    }
}
