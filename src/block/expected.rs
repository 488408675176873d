//! Opens blocks: what a host expects of a block, and tools that expect nothing.

use super::layout::{Added, BorrowedTrailer, Trailer, checksum_of};
use super::locked::LockedBlock;
use super::part::Verify;
use super::reader::FilterBlock;
use crate::error::{Error, Field, Result};
use crate::hash::{HashIdentity, KeyHasher};

/// What a block must be, for [`FilterBlock::open`](super::FilterBlock::open) to open it.
///
/// A sound block denies keys of the host if it belongs to another table, to an earlier state of the same table, or to
/// another hasher. Only the host knows which block is right. Each statement catches one more mistake:
///
/// | Statement | Catches |
/// |---|---|
/// | [`of_table`](Self::of_table) | a block of another table, or of keys under another hash function, seed or secret |
/// | [`of_any_table`](Self::of_any_table) | a block of keys under another hash function, seed or secret; for verified bytes only |
/// | [`with_num_entries`](Self::with_num_entries) | a block of too many keys, or of none for a table with entries |
/// | [`with_checksum`](Self::with_checksum) | a stale block of the same table: sound, but not the last one |
/// | [`with_prefixes`](Self::with_prefixes) | a block without prefixes, or with the prefixes of another extractor |
/// | [`at_offset`](Self::at_offset) | nothing; errors count offsets from the start of the host's file |
///
/// Without [`with_prefixes`](Self::with_prefixes), the block must hold whole keys.
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
    /// Expects the filter of this table, whose keys were hashed by the same function, under the same seed and secret,
    /// as `hasher` uses.
    ///
    /// `table_id` is the id that the writer gave to
    /// [`FilterBuilder::with_table_id`](super::FilterBuilder::with_table_id). A block whose writer gave no id has an id
    /// of zeros, so zeros name no table: opening is an error ([`Error::Invalid`]), unless
    /// [`with_checksum`](Self::with_checksum) names the block.
    #[must_use]
    pub fn of_table(table_id: [u8; 16], hasher: &'a KeyHasher) -> Self {
        Self { table_id: Some(table_id), ..Self::of_any_table(hasher) }
    }

    /// The filter of the whole keys of a table that the host does not know, hashed by this hasher.
    ///
    /// For hosts that hand over bytes without saying which SST file they belong to. Nothing tells a filter of another table
    /// apart then, so only [`VerifiedFilter::open`](super::VerifiedFilter::open) takes it; elsewhere it is an error
    /// ([`Error::Invalid`]).
    #[must_use]
    pub fn of_any_table(hasher: &'a KeyHasher) -> Self {
        Self { table_id: None, hasher, num_entries: None, checksum: None, prefixes_by: None, offset: 0 }
    }

    /// Expects at most as many keys as the table has entries, and at least one key if the table has an entry.
    ///
    /// Fewer keys than entries are no mistake, because several entries may be versions of one key. A block of prefixes may
    /// have any number of them, because an extractor takes several prefixes of a key, or none; a table without entries has
    /// none.
    #[must_use]
    pub fn with_num_entries(self, num_entries: u64) -> Self {
        Self { num_entries: Some(num_entries), ..self }
    }

    /// Expects the block with this checksum: the host keeps [`layout::checksum_of`](super::layout::checksum_of) of the
    /// bytes that it wrote.
    #[must_use]
    pub fn with_checksum(self, checksum: u32) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// Expects a filter of prefixes that this extractor took, with or without whole keys.
    #[must_use]
    pub fn with_prefixes(self, extractor: &'a str) -> Self {
        Self { prefixes_by: Some(extractor), ..self }
    }

    /// Says that the block begins at this offset of the host's file, in bytes. Errors count their offsets from there.
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
    /// [`Error::Invalid`] if no table is named; [`Error::Unexpected`] with the first field that is not as expected;
    /// [`Error::Secret`] for another secret.
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
        if self.table_id == Some([0; 16]) && self.checksum.is_none() {
            return Err(no_table(
                "zeros stand for no table, and any block without a table id would pass; give the table's id, or the \
                 block's checksum",
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

    /// Keys may share a hash, so there may be fewer hashes than entries. Of one key, an extractor may take several
    /// prefixes or none.
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

fn no_table(reason: &'static str) -> Error {
    Error::invalid("expected table id", hex([0; 16]), reason)
}

fn unexpected(field: Field, found: String, expected: String) -> Result<()> {
    Err(Error::Unexpected { field, found, expected })
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block that must be what the host expects: see [`Expected`].
    ///
    /// # Errors
    /// * [`Error::Corrupt`] and [`Error::ChecksumMismatch`] for damaged, cut, extended or foreign bytes. With
    ///   [`Verify::OnFirstTouch`] a damaged page is no error.
    /// * [`Error::Unsupported`] for a newer version or an unknown kind, hash function, flag or extension.
    /// * [`Error::Unexpected`] for a sound block of another table, another state of the table, other keys or another hasher;
    ///   [`Error::Secret`] for keys that were hashed under another secret.
    /// * [`Error::Invalid`] for an expected table id of zeros without a checksum.
    ///
    /// Offsets count from the start of the host's file, if [`Expected::at_offset`] names the block's offset in it.
    pub fn open(data: D, expected: &Expected<'_>, verify: Verify) -> Result<Self> {
        let block = LockedBlock::open(data, verify).map_err(|error| error.moved_by(expected.offset()))?;
        block.unlock_expecting(expected)
    }

    /// Opens any block and believes what it says about its table and its hasher: for tools that inspect files.
    ///
    /// A store must use [`FilterBlock::open`]: a sound block of another table denies the keys of this one.
    ///
    /// # Errors
    /// As [`FilterBlock::open`]; [`Error::Secret`] for keys that were hashed under a secret: open such a block by
    /// [`LockedBlock::unlock`].
    pub fn open_any(data: D, verify: Verify) -> Result<Self> {
        LockedBlock::open(data, verify)?.unlock(None)
    }
}

impl<D: AsRef<[u8]>> LockedBlock<D> {
    /// The block, ready to be asked, if it is as expected; also a partition that was opened alone.
    ///
    /// # Errors
    /// As [`FilterBlock::open`].
    pub fn unlock_expecting(self, expected: &Expected<'_>) -> Result<FilterBlock<D>> {
        expected.check(&Found::of(&self.0.trailer, self.as_bytes()))?;
        let block = self.unlock_with(expected.hasher)?;
        Ok(FilterBlock { offset: expected.offset, ..block })
    }
}
