//! Compares blocks with the expectations of a host.

use super::layout::Added;
use super::trailer::Trailer;
use crate::error::{Error, Field, Result};
use crate::hash::KeyHasher;

/// A host's expectations of a block. [`FilterBlock::open`](super::FilterBlock::open) checks them.
///
/// A sound block can deny present keys if it belongs to another SST, to an earlier state of the
/// SST, or to another hasher. Only the host knows which block is the right one. Each expectation
/// detects some of these mistakes:
///
/// | Expectation | Detects |
/// |---|---|
/// | [`of_table`](Self::of_table) | a block of another SST, or under another hash function, seed or secret |
/// | [`of_any_table`](Self::of_any_table) | a block under another hash function, seed or secret; for verified bytes only |
/// | [`with_num_entries`](Self::with_num_entries) | a block with a number of keys that the SST cannot have |
/// | [`with_checksum`](Self::with_checksum) | another block, such as a stale block of the same SST |
/// | [`with_prefixes`](Self::with_prefixes) | a block without prefixes, or with the prefixes of another extractor |
///
/// Without [`with_prefixes`](Self::with_prefixes), the block must hold whole keys.
///
/// ```
/// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify, layout, FilterOptions, WholeKeys};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(1)));
/// let mut builder = FilterOptions::new("bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = builder.finish()?.bytes;
/// // The host stores the checksum beside the block's offset and length.
/// let checksum = layout::checksum_of(&bytes).unwrap();
///
/// let open = |expected: Expected| FilterBlock::open(&bytes, &expected, Verify::AtOpen);
/// let expected = Expected::of_table(table_id, &hasher).with_num_entries(1).with_checksum(checksum);
/// assert!(open(expected)?.may_contain(hasher.key(b"apple")));
/// assert!(open(Expected::of_table(*b"table 0000000013", &hasher)).is_err());
/// assert!(open(expected.with_num_entries(0)).is_err());
/// assert!(open(expected.with_checksum(checksum ^ 1)).is_err());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The expected table id, or `None` for any SST. Only `check_verified` accepts `None`.
    table_id: Option<[u8; 16]>,
    hasher: &'a KeyHasher,
    num_entries: Option<u64>,
    checksum: Option<u32>,
    prefixes_by: Option<&'a str>,
    offset: u64,
}

impl<'a> Expected<'a> {
    /// Expects the filter of the SST `table_id`, whose keys were hashed with the function, seed
    /// and secret of `hasher`.
    ///
    /// `table_id` is the id that the writer passed to
    /// [`FilterOptions::table_id`](super::FilterOptions::table_id). A block without a
    /// table id has an id of zeros, so an expected id of zeros names no SST. Opening then returns
    /// [`Error::Invalid`], unless [`with_checksum`](Self::with_checksum) identifies the block.
    #[must_use]
    pub fn of_table(table_id: [u8; 16], hasher: &'a KeyHasher) -> Self {
        Self { table_id: Some(table_id), ..Self::of_any_table(hasher) }
    }

    /// Expects the filter of any SST whose keys were hashed with the function, seed and secret of
    /// `hasher`.
    ///
    /// This expectation is for hosts that receive bytes without the name of the SST file. It does
    /// not detect the filter of another SST. Only
    /// [`VerifiedFilter::open`](super::VerifiedFilter::open) and
    /// [`VerifiedTrailer::read`](super::VerifiedTrailer::read) accept it. Other functions return
    /// [`Error::Invalid`].
    #[must_use]
    pub fn of_any_table(hasher: &'a KeyHasher) -> Self {
        Self { table_id: None, hasher, num_entries: None, checksum: None, prefixes_by: None, offset: 0 }
    }

    /// Expects a block that may belong to an SST with `num_entries` entries.
    ///
    /// A block of whole keys must have at most as many keys as the SST has entries, and at least
    /// one if there is an entry. A block with prefixes may have more keys and prefixes than the SST
    /// has entries, and a block with only prefixes may have none. For an SST without entries, the
    /// block must have neither keys nor prefixes.
    #[must_use]
    pub fn with_num_entries(self, num_entries: u64) -> Self {
        Self { num_entries: Some(num_entries), ..self }
    }

    /// Expects the block with this checksum. The host stores
    /// [`layout::checksum_of`](super::layout::checksum_of) of the bytes that it wrote.
    #[must_use]
    pub fn with_checksum(self, checksum: u32) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// Expects a filter with prefixes that this extractor took. The filter may hold whole keys,
    /// too.
    #[must_use]
    pub fn with_prefixes(self, extractor: &'a str) -> Self {
        Self { prefixes_by: Some(extractor), ..self }
    }

    /// States the offset of the block in the host's file, in bytes. Errors then count offsets from
    /// the start of that file.
    #[must_use]
    pub fn at_offset(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn hasher(&self) -> &'a KeyHasher {
        self.hasher
    }

    /// Returns an error if a block does not meet the expectations. For
    /// [`Expected::of_any_table`], always returns an error.
    pub(super) fn check(&self, found: &Trailer<'_>, checksum: u32) -> Result<()> {
        if self.table_id.is_none() {
            return Err(no_table(
                "none".to_owned(),
                "the expectation names no SST, so the filter of any SST would pass; use Expected::of_table",
            ));
        }
        self.check_verified(found, checksum)
    }

    /// Compares a block with the expectations like [`check`](Self::check), but accepts
    /// [`Expected::of_any_table`]. This method is for bytes that the host has verified.
    pub(super) fn check_verified(&self, found: &Trailer<'_>, checksum: u32) -> Result<()> {
        if self.table_id == Some([0; 16]) && self.checksum.is_none() {
            return Err(no_table(
                hex([0; 16]),
                "an id of zeros names no SST, so any block without a table id would pass; give the SST's id or the \
                 block's checksum",
            ));
        }
        if let Some(table_id) = self.table_id
            && found.table_id != table_id
        {
            return unexpected(Field::TableId, hex(found.table_id), hex(table_id));
        }
        if let Some(expected) = self.checksum
            && checksum != expected
        {
            return unexpected(Field::Checksum, format!("{checksum:#010x}"), format!("{expected:#010x}"));
        }
        let added = || found.added.described().to_owned();
        match self.prefixes_by {
            None if found.added == Added::Prefixes => {
                return unexpected(Field::Flags, added(), "whole keys".to_owned());
            }
            Some(_) if !found.added.prefixes() => {
                return unexpected(Field::Flags, added(), "prefixes of keys".to_owned());
            }
            Some(extractor) if found.extractor.as_deref() != Some(extractor) => {
                let found = found.extractor.as_deref().unwrap_or_default().to_owned();
                return unexpected(Field::Extension, found, extractor.to_owned());
            }
            None | Some(_) => {}
        }
        self.check_num_keys(found.num_keys, found.added)?;
        found.hash.check(self.hasher)
    }

    fn check_num_keys(&self, num_keys: u64, added: Added) -> Result<()> {
        let Some(num_entries) = self.num_entries else { return Ok(()) };
        let (least, most) = match added {
            Added::WholeKeys | Added::Ranges => (num_entries.min(1), num_entries),
            Added::Both => (num_entries.min(1), if num_entries == 0 { 0 } else { u64::MAX }),
            Added::Prefixes => (0, if num_entries == 0 { 0 } else { u64::MAX }),
        };
        if (least..=most).contains(&num_keys) {
            return Ok(());
        }
        let expected = match (least, most) {
            (_, 0) => "0".to_owned(),
            (_, u64::MAX) => format!("at least {least}"),
            _ => format!("at least {least} and at most {most}"),
        };
        unexpected(Field::NumKeys, num_keys.to_string(), expected)
    }
}

fn no_table(given: String, reason: &'static str) -> Error {
    Error::invalid("expected table id", given, reason)
}

fn unexpected(field: Field, found: String, expected: String) -> Result<()> {
    Err(Error::Unexpected { field, found, expected })
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
