//! What a host knows of a block before it opens it.

use super::layout::{Added, BorrowedTrailer, Trailer, checksum_of};
use crate::error::{Error, Field, Result};
use crate::hash::{HashIdentity, KeyHasher};

/// What a block must be, for [`FilterBlock::open`](super::FilterBlock::open) to open it.
///
/// A sound block denies keys of the host if it belongs to another table, to another state of the same table, or to another
/// hasher. Only the host can know, so the host states what it expects. Each thing stated is one more mistake found:
///
/// | Stated by | Finds |
/// |---|---|
/// | [`of_table`](Self::of_table) | a block of another table, or under another hash function, seed or secret |
/// | [`of_any_table`](Self::of_any_table) | a block under another hash function, seed or secret; for verified bytes only |
/// | [`with_num_entries`](Self::with_num_entries) | a block of more keys than the table has, or of none |
/// | [`with_checksum`](Self::with_checksum) | a stale block: sound, of the same table, but not the one that was written last |
/// | [`with_prefixes`](Self::with_prefixes) | a block without prefixes, or with those of another extractor |
/// | [`at_offset`](Self::at_offset) | nothing; errors count offsets from the start of the host's file |
///
/// ```
/// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify, layout};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(1)));
/// let mut builder = FilterBuilder::new("bloom:10".parse()?, &hasher).with_table_id(table_id);
/// builder.add(b"apple");
/// let bytes = builder.finish()?;
/// // The host keeps the checksum where it keeps the block's offset and length.
/// let checksum = layout::checksum_of(&bytes).unwrap();
///
/// let open = |expected: Expected| FilterBlock::open(&bytes, &expected, Verify::AtOpen);
/// let expected = Expected::of_table(table_id, &hasher).with_num_entries(1).with_checksum(checksum);
/// assert!(open(expected)?.may_contain(b"apple"));
/// assert!(open(Expected::of_table(*b"table 0000000013", &hasher)).is_err());
/// assert!(open(expected.with_num_entries(0)).is_err());
/// assert!(open(expected.with_checksum(checksum ^ 1)).is_err());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// `None` for the filter of any table.
    table_id: Option<[u8; 16]>,
    hasher: &'a KeyHasher,
    num_entries: Option<u64>,
    checksum: Option<u32>,
    prefixes_by: Option<&'a str>,
    offset: u64,
}

impl<'a> Expected<'a> {
    /// The filter of the whole keys of this table, hashed by this hasher: by the same function, under the same seed and secret.
    ///
    /// `table_id` is what the writer gave to [`FilterBuilder::with_table_id`](super::FilterBuilder::with_table_id). Zeros are
    /// the id of no table, since every block whose writer gave no id has them: opening is an error
    /// ([`Error::InvalidArgument`]).
    #[must_use]
    pub fn of_table(table_id: [u8; 16], hasher: &'a KeyHasher) -> Self {
        Self { table_id: Some(table_id), ..Self::of_any_table(hasher) }
    }

    /// The filter of the whole keys of a table that the host does not know, hashed by this hasher.
    ///
    /// For hosts that hand over bytes without saying which SST file they belong to. Nothing tells a filter of another table
    /// apart then, so only [`VerifiedFilter::open`](super::VerifiedFilter::open) takes it; elsewhere it is an error
    /// ([`Error::InvalidArgument`]).
    #[must_use]
    pub fn of_any_table(hasher: &'a KeyHasher) -> Self {
        Self { table_id: None, hasher, num_entries: None, checksum: None, prefixes_by: None, offset: 0 }
    }

    /// The table has this number of entries. A filter of whole keys has at most as many distinct keys, and none only if the
    /// table has none. Fewer are no mistake: entries may be versions of one key.
    #[must_use]
    pub fn with_num_entries(self, num_entries: u64) -> Self {
        Self { num_entries: Some(num_entries), ..self }
    }

    /// The block has this checksum: [`layout::checksum_of`](super::layout::checksum_of) of the bytes that were written.
    #[must_use]
    pub fn with_checksum(self, checksum: u32) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// The filter holds prefixes that this extractor took, whether or not it holds whole keys too.
    #[must_use]
    pub fn with_prefixes(self, extractor: &'a str) -> Self {
        Self { prefixes_by: Some(extractor), ..self }
    }

    /// The block begins at this offset of the host's file, in bytes.
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

    /// # Errors
    /// [`Error::InvalidArgument`] if no table is named; [`Error::Unexpected`] with the first field that is not as expected;
    /// [`Error::WrongSecret`] for another secret.
    pub(super) fn check(&self, found: &Found<'_>) -> Result<()> {
        if self.table_id.is_none() {
            return Err(no_table("no table is named, and the filter of any other would pass; name the table"));
        }
        self.check_verified(found)
    }

    /// The same of bytes that the host has verified, whose table the host may not know.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn check_verified(&self, found: &Found<'_>) -> Result<()> {
        if self.table_id == Some([0; 16]) {
            return Err(no_table(
                "zeros stand for no table, and any block without a table id would pass; give the table's id",
            ));
        }
        if let Some(table_id) = self.table_id
            && found.table_id != table_id
        {
            return unexpected(Field::TableId, hex(found.table_id), hex(table_id));
        }
        if let Some(expected) = self.checksum
            && found.checksum != expected
        {
            return unexpected(Field::Checksum, format!("{:#010x}", found.checksum), format!("{expected:#010x}"));
        }
        let added = || format!("{:?}", found.added);
        match self.prefixes_by {
            None if !found.added.whole_keys() => {
                return unexpected(Field::Flags, added(), "WholeKeys or Both".to_owned());
            }
            Some(_) if found.added == Added::WholeKeys => {
                return unexpected(Field::Flags, added(), "Prefixes or Both".to_owned());
            }
            Some(extractor) if found.extractor != Some(extractor) => {
                let found = found.extractor.unwrap_or_default().to_owned();
                return unexpected(Field::Extension, found, extractor.to_owned());
            }
            None | Some(_) => {}
        }
        self.check_num_keys(found.num_keys, found.added)?;
        found.hash.check(self.hasher)
    }

    /// Keys may share a hash, so there may be fewer hashes than entries. Of one key, an extractor may take several prefixes or
    /// none.
    fn check_num_keys(&self, num_keys: u64, added: Added) -> Result<()> {
        let Some(num_entries) = self.num_entries else { return Ok(()) };
        let (least, most) = match added {
            Added::WholeKeys => (num_entries.min(1), num_entries),
            Added::Both => (num_entries.min(1), if num_entries == 0 { 0 } else { u64::MAX }),
            Added::Prefixes => (0, if num_entries == 0 { 0 } else { u64::MAX }),
        };
        if (least..=most).contains(&num_keys) {
            return Ok(());
        }
        unexpected(Field::NumKeys, num_keys.to_string(), format!("at least {least} and at most {most}"))
    }
}

/// What a block says of itself, in so far as a host may expect it.
#[derive(Debug)]
pub(super) struct Found<'a> {
    table_id: [u8; 16],
    checksum: u32,
    added: Added,
    extractor: Option<&'a str>,
    num_keys: u64,
    hash: HashIdentity,
}

impl<'a> Found<'a> {
    /// What `trailer`, which was read from `block`, says.
    pub(super) fn of(trailer: &'a Trailer, block: &[u8]) -> Self {
        Self {
            table_id: trailer.table_id,
            // A block that has a trailer has its checksum.
            checksum: checksum_of(block).unwrap_or_default(),
            added: trailer.added,
            extractor: trailer.extractor.as_deref(),
            num_keys: trailer.num_keys,
            hash: trailer.hash,
        }
    }
}

impl<'a> From<&BorrowedTrailer<'a>> for Found<'a> {
    fn from(trailer: &BorrowedTrailer<'a>) -> Self {
        let BorrowedTrailer { table_id, checksum, added, extractor, num_keys, hash, .. } = *trailer;
        Self { table_id, checksum, added, extractor, num_keys, hash }
    }
}

fn no_table(reason: &str) -> Error {
    Error::InvalidArgument { what: "expected table id", reason: reason.to_owned() }
}

fn unexpected(field: Field, found: String, expected: String) -> Result<()> {
    Err(Error::Unexpected { field, found, expected })
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
