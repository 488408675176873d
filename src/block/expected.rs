//! Compares blocks with the expectations of a host, and encodes what the host stores to expect it: the
//! handle of a block.

use super::builder::Built;
use super::layout::{Added, Trailer};
use crate::codec::{Cursor, crc32, put_u32, put_u64};
use crate::error::{Error, Field, Result};
use crate::hash::{HashIdentity, HashSeed, KeyHasher};
use crate::hash_kind::HashKind;

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

    /// Returns a copy that borrows nothing.
    pub(super) fn to_own(self) -> OwnExpected {
        let Self { table_id, hasher, num_entries, checksum, prefixes_by, offset } = self;
        let prefixes_by = prefixes_by.map(str::to_owned);
        OwnExpected { table_id, hasher: hasher.clone(), num_entries, checksum, prefixes_by, offset }
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
            return Err(Error::unexpected(Field::TableId, hex(found.table_id), hex(table_id)));
        }
        if let Some(expected) = self.checksum
            && checksum != expected
        {
            let (found, expected) = (format_args!("{checksum:#010x}"), format_args!("{expected:#010x}"));
            return Err(Error::unexpected(Field::Checksum, found, expected));
        }
        match self.prefixes_by {
            None if found.added == Added::Prefixes => {
                return Err(Error::unexpected(Field::Flags, found.added.described(), "whole keys"));
            }
            Some(_) if !found.added.prefixes() => {
                return Err(Error::unexpected(Field::Flags, found.added.described(), "prefixes of keys"));
            }
            Some(extractor) if found.extractor.as_deref() != Some(extractor) => {
                let found = found.extractor.as_deref().unwrap_or_default();
                return Err(Error::unexpected(Field::Extension, found, extractor));
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
        Err(Error::unexpected(Field::NumKeys, num_keys, expected))
    }
}

/// The fields of an [`Expected`].
#[derive(Debug)]
pub(super) struct OwnExpected {
    table_id: Option<[u8; 16]>,
    hasher: KeyHasher,
    num_entries: Option<u64>,
    checksum: Option<u32>,
    prefixes_by: Option<String>,
    offset: u64,
}

impl OwnExpected {
    pub(super) fn borrowed(&self) -> Expected<'_> {
        let &Self { table_id, ref hasher, num_entries, checksum, ref prefixes_by, offset } = self;
        Expected { table_id, hasher, num_entries, checksum, prefixes_by: prefixes_by.as_deref(), offset }
    }
}

fn no_table(given: String, reason: &'static str) -> Error {
    Error::invalid("expected table id", given, reason)
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the footer of an SST must hold about its filter block: where the block lies, and what no block
/// can know about itself. A block of another SST, a stale block, or a block of other keys does not
/// open under a handle.
///
/// [`encode`](Self::encode) gives a fixed number of bytes with a version and a checksum of their own.
/// docs/FORMAT.md defines them.
///
/// ```
/// use filterblock::{FilterBlock, FilterHandle, FilterOptions, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let built = builder.finish()?;
///
/// // The writer appends the block at offset 4096 of the SST, and the handle to the footer.
/// let footer = FilterHandle::of(&built, 4096, 1).encode();
///
/// let handle = FilterHandle::decode(&footer)?;
/// assert_eq!((handle.offset, handle.len_bytes), (4096, built.bytes.len() as u64));
/// let filter = FilterBlock::open(built.bytes, &handle.expected(table_id, &hasher), Verify::AtOpen)?;
/// assert!(filter.may_contain(hasher.key(b"apple")));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterHandle {
    /// The table id: see [`FilterOptions::table_id`](super::FilterOptions::table_id).
    pub table_id: [u8; 16],
    /// The offset of the block in the host's file, in bytes.
    pub offset: u64,
    /// The length of the block in bytes.
    pub len_bytes: u64,
    /// The number of entries of the SST, tombstones included.
    pub num_entries: u64,
    /// The checksum of the block: see [`Built::checksum`].
    pub checksum: u32,
    /// The hash function of the keys.
    pub hash: HashKind,
    /// The seed of the hash function.
    pub seed: HashSeed,
}

const VERSION: u8 = 1;

impl FilterHandle {
    /// The length of the encoded handle.
    pub const LEN_BYTES: usize = 58;

    /// Returns the handle of a block that the host writes at `offset` of its file. The SST has
    /// `num_entries` entries, tombstones included.
    #[must_use]
    pub fn of(built: &Built, offset: u64, num_entries: u64) -> Self {
        let &Built { table_id, hash: HashIdentity { kind: hash, seed, .. }, checksum, .. } = built;
        Self { table_id, offset, len_bytes: built.bytes.len() as u64, num_entries, checksum, hash, seed }
    }

    /// Returns the expectations under which the block opens. `table_id` is the id of the SST that the
    /// host opens. The host knows it from its manifest or from the name of the file. If a handle and its
    /// block lie in the wrong SST, the handle's own id detects nothing, and neither does an id of zeros.
    /// `hasher` is the host's hasher.
    #[must_use]
    pub fn expected<'a>(&self, table_id: [u8; 16], hasher: &'a KeyHasher) -> Expected<'a> {
        let expected = Expected::of_table(table_id, hasher).with_num_entries(self.num_entries);
        expected.with_checksum(self.checksum).at_offset(self.offset)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN_BYTES] {
        let mut bytes = Vec::with_capacity(Self::LEN_BYTES);
        bytes.push(VERSION);
        bytes.push(self.hash as u8);
        bytes.extend_from_slice(&self.table_id);
        for number in [self.seed.0, self.offset, self.len_bytes, self.num_entries] {
            put_u64(&mut bytes, number);
        }
        put_u32(&mut bytes, self.checksum);
        let checksum = crc32(&bytes);
        put_u32(&mut bytes, checksum);
        let mut encoded = [0; Self::LEN_BYTES];
        encoded.copy_from_slice(&bytes);
        encoded
    }

    /// Reads the bytes that [`encode`](Self::encode) returned. Offsets in errors count from the start
    /// of `bytes`.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a newer version or an unknown hash function, and
    /// [`Error::ChecksumMismatch`] or [`Error::Corrupt`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let version = cursor.take_u8(Field::Version)?;
        // A newer version may have another length and another checksum.
        if version > VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        if bytes.len() != Self::LEN_BYTES {
            return Err(Error::corrupt(Field::Length));
        }
        let hash = cursor.take_u8(Field::HashId)?;
        let table_id = cursor.take_array(Field::TableId)?;
        let seed = HashSeed(cursor.take_u64(Field::Seed)?);
        let offset = cursor.take_u64(Field::Handle)?;
        let len_bytes = cursor.take_u64(Field::PayloadLen)?;
        let num_entries = cursor.take_u64(Field::NumKeys)?;
        let checksum = cursor.take_u32(Field::Checksum)?;
        let end = cursor.offset();
        let stored = cursor.take_u32(Field::Handle)?;
        let computed = crc32(bytes.get(..Self::LEN_BYTES - 4).unwrap_or_default());
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::Handle, offset: end, stored, computed });
        }
        if version == 0 {
            return Err(Error::corrupt(Field::Version));
        }
        let unknown = Error::Unsupported { field: Field::HashId, found: hash.into() };
        let hash = HashKind::from_id(hash).ok_or(unknown)?;
        Ok(Self { table_id, offset, len_bytes, num_entries, checksum, hash, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: FilterHandle = FilterHandle {
        table_id: *b"table 0000000012",
        offset: 0x0102_0304_0506_0708,
        len_bytes: 12_345,
        num_entries: u64::MAX,
        checksum: 0xdead_beef,
        hash: HashKind::SipHash13,
        seed: HashSeed(42),
    };

    #[test]
    fn handles_survive_a_round_trip_and_no_change() {
        let bytes = HANDLE.encode();
        assert_eq!(FilterHandle::decode(&bytes).unwrap(), HANDLE);
        for i in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes;
                changed[i] ^= 1 << bit;
                assert!(FilterHandle::decode(&changed).is_err(), "bit {bit} of byte {i}");
            }
            assert!(FilterHandle::decode(&bytes[..i]).is_err());
        }
        assert!(FilterHandle::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        assert!(FilterHandle::decode(&[0; FilterHandle::LEN_BYTES]).is_err());
    }

    #[test]
    fn newer_versions_and_hash_functions_are_unsupported() {
        for (at, value, field) in [(0, 2, Field::Version), (1, 9, Field::HashId)] {
            let mut bytes = HANDLE.encode();
            bytes[at] = value;
            let end = bytes.len() - 4;
            let checksum = crc32(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum.to_le_bytes());
            let error = FilterHandle::decode(&bytes).unwrap_err();
            assert!(matches!(error, Error::Unsupported { field: found, .. } if found == field), "{error}");
        }
    }
}
