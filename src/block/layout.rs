//! Reads and writes the bytes after a block's payload: page checksums, extension and trailer.

use super::extension::{
    EXTENSION_EXTRACTOR, EXTENSION_FINGERPRINT, EXTENSION_LAYERS, EXTENSION_RANGES, Extension, MAX_EXTENSION_LEN_BYTES,
    RANGES_LEN_BYTES, RECORD_HEAD_LEN_BYTES, RangesRecord, put_record,
};
use crate::bits::NoMemory;
use crate::checksum::Crc32;
use crate::codec::{self, Cursor};
use crate::error::{Error, Field, Result};
pub use crate::extractor::MAX_EXTRACTOR_LEN_BYTES;
use crate::hash::{HashIdentity, HashSeed};
use crate::hash_kind::{FINGERPRINT_LEN_BYTES, HashKind};
use crate::kinds::{FilterKind, Geometry, InlineGeometry, Shape};

/// The length of a page in bytes. One page checksum covers one page. The last page of a payload may
/// be shorter.
pub const PAGE_LEN_BYTES: usize = 4096;
/// The length of one page checksum in bytes.
pub const PAGE_CHECKSUM_LEN_BYTES: usize = 4;
/// The length of the trailer in bytes.
pub const TRAILER_LEN_BYTES: usize = 60;
/// The last four bytes of every block. The first of them is not ASCII, so a reader notices a
/// transfer that keeps only seven bits of each byte.
pub const MAGIC: [u8; 4] = *b"\x89FLB";
/// The format version that this crate writes. It is also the newest version that this crate reads.
pub const VERSION: u8 = 1;
/// The tag of a partition index. It stands in the trailer in place of the tag of a filter kind.
pub const PARTITION_INDEX_TAG: u8 = 9;

const FLAG_WHOLE_KEYS: u8 = 1;
const FLAG_PREFIXES: u8 = 2;
const FLAG_RANGES: u8 = 4;
/// The name and the length in bytes of each field of the trailer, in the order of the fields.
pub const FIELDS: [(Field, usize); 14] = [
    (Field::TableId, 16),
    (Field::Seed, 8),
    (Field::NumKeys, 6),
    (Field::PayloadLen, 6),
    (Field::PageChecksums, 4),
    (Field::PartitionNumber, 4),
    (Field::Params, 3),
    (Field::ExtensionLen, 1),
    (Field::Kind, 1),
    (Field::HashId, 1),
    (Field::Flags, 1),
    (Field::Version, 1),
    (Field::Checksum, 4),
    (Field::Magic, 4),
];

/// Returns the offset of a field of [`FIELDS`] within the trailer, in bytes. For any other field,
/// returns the length of the trailer.
#[must_use]
pub const fn offset_of(field: Field) -> usize {
    let (mut i, mut offset) = (0, 0);
    while i < FIELDS.len() {
        #[expect(clippy::indexing_slicing, reason = "i is below the length")]
        let (name, len) = FIELDS[i];
        // `==` on an enum is not `const`, so the loop compares the numbers of the variants.
        if name as u8 == field as u8 {
            return offset;
        }
        offset += len;
        i += 1;
    }
    offset
}

/// Returns the checksum in the trailer of `block`, without verifying it. Returns `None` if `block`
/// is shorter than a trailer.
///
/// The checksum identifies the block. A host that records it beside the SST can detect a stale
/// block or a block of another SST: see
/// [`Expected::with_checksum`](crate::Expected::with_checksum).
#[must_use]
pub fn checksum_of(block: &[u8]) -> Option<u32> {
    let trailer = block.last_chunk::<TRAILER_LEN_BYTES>()?;
    codec::u32_at(trailer, offset_of(Field::Checksum))
}

/// Returns the length in bytes that the trailer at the end of `tail` states for its block. The
/// length does not include a range filter in front of the payload. For a filter in partitions, it
/// is the length of the index block. Returns `None` if `tail` does not end with a trailer of this
/// version.
///
/// A host that reads a filter from a file first reads the trailer ([`TRAILER_LEN_BYTES`]). Then it
/// reads the block, which ends where the trailer ends. The stated length is not verified: compare
/// it with the length of the file before you allocate memory.
#[must_use]
pub fn stated_len_bytes(tail: &[u8]) -> Option<u64> {
    let trailer = tail.last_chunk::<TRAILER_LEN_BYTES>()?;
    let raw = RawTrailer::take(&mut Cursor::new(trailer, 0)).ok()?;
    if (raw.magic, raw.version) != (MAGIC, VERSION) {
        return None;
    }
    block_len_bytes(raw.payload_len_bytes, 0)?.checked_add(raw.extension_len.into())
}

const _: () = assert!(offset_of(Field::Magic) + MAGIC.len() == TRAILER_LEN_BYTES);
const _: () = assert!(offset_of(Field::Version) + 1 == offset_of(Field::Checksum));
/// The length in bytes of the longest vector load of a query. A load may begin at any byte of the
/// payload, and must end within the block.
pub(super) const LOAD_LEN_BYTES: usize = 64;
const _: () = assert!(PAGE_CHECKSUM_LEN_BYTES + TRAILER_LEN_BYTES >= LOAD_LEN_BYTES);
/// Page checksums and trailer take at most 0.2 % of a payload of 64 KiB or more. The worst case is
/// a payload of 16 pages and one byte, because the byte needs a 17th page checksum.
const _: () = assert!((17 * PAGE_CHECKSUM_LEN_BYTES + TRAILER_LEN_BYTES) * 500 <= 16 * PAGE_LEN_BYTES + 1);

/// The parts of keys that were added to a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Added {
    /// Whole keys only. The filter answers "maybe" for every prefix.
    #[default]
    WholeKeys,
    /// Prefixes only. The filter does not hold the whole keys of the SST, so it answers "maybe" for
    /// every whole key.
    Prefixes,
    /// Whole keys and prefixes.
    Both,
    /// Whole keys in a range filter. It stores no hashes of keys, so it answers "maybe" for every
    /// hash.
    Ranges,
}

impl Added {
    /// Returns whether the filter can answer for the hashes of whole keys.
    #[must_use]
    pub fn whole_keys(self) -> bool {
        matches!(self, Self::WholeKeys | Self::Both)
    }

    /// Returns whether the filter has prefixes.
    #[must_use]
    pub fn prefixes(self) -> bool {
        matches!(self, Self::Prefixes | Self::Both)
    }

    /// Describes the parts of keys, for error messages.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::WholeKeys => "only whole keys",
            Self::Prefixes => "only prefixes of keys",
            Self::Both => "whole keys with prefixes",
            Self::Ranges => "only keys for queries of ranges",
        }
    }

    fn flags(self) -> u8 {
        match self {
            Self::WholeKeys => FLAG_WHOLE_KEYS,
            Self::Prefixes => FLAG_PREFIXES,
            Self::Both => FLAG_WHOLE_KEYS | FLAG_PREFIXES,
            Self::Ranges => FLAG_RANGES,
        }
    }

    fn from_flags(flags: u8) -> Option<Self> {
        [Self::WholeKeys, Self::Prefixes, Self::Both, Self::Ranges].into_iter().find(|added| added.flags() == flags)
    }
}

/// The content of a block: a filter, or the index of a filter that is split by key range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Filter {
        shape: Shape,
        /// The shape, parsed and checked against the length of the payload.
        geometry: Geometry,
    },
    PartitionIndex,
}

/// The fields of extension and trailer, without the trailer's two checksums, version, magic and the
/// length of the extension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trailer {
    pub(crate) table_id: [u8; 16],
    /// Hash function, seed and fingerprint of the secret.
    pub(crate) hash: HashIdentity,
    pub(crate) num_keys: u64,
    pub(crate) payload_len_bytes: u64,
    /// The partition number in the trailer: 0 for a whole filter or a partition index, and `i + 1`
    /// for partition `i`, counted from 0.
    pub(crate) partition_number: u32,
    pub(crate) content: Content,
    pub(crate) added: Added,
    /// The name of the prefix extractor, if prefixes were added.
    pub(crate) extractor: Option<String>,
    /// The record of the range filter in front of the payload, if there is one.
    pub(crate) ranges: Option<RangesRecord>,
}

/// Returns the length in bytes of a block with a payload of `payload_len_bytes` and a record of
/// parameters whose content has `record_len_bytes`. If `record_len_bytes` is 0, the block has no
/// record of parameters. The result counts no other record, such as that of a secret or an
/// extractor. Returns `None` if the length does not fit in 64 bits.
#[must_use]
pub fn block_len_bytes(payload_len_bytes: u64, record_len_bytes: usize) -> Option<u64> {
    let checksums = payload_len_bytes.div_ceil(PAGE_LEN_BYTES as u64) * PAGE_CHECKSUM_LEN_BYTES as u64;
    let record = if record_len_bytes == 0 { 0 } else { record_len_bytes.checked_add(RECORD_HEAD_LEN_BYTES)? };
    payload_len_bytes.checked_add(checksums)?.checked_add(record as u64)?.checked_add(TRAILER_LEN_BYTES as u64)
}

pub(crate) fn page_count(payload_len: usize) -> usize {
    payload_len.div_ceil(PAGE_LEN_BYTES)
}

/// Returns the checksum state from which each page checksum of a block starts. The state binds the
/// pages to the SST and to the partition number.
pub(crate) fn page_identity(table_id: &[u8; 16], partition_number: u32) -> Crc32 {
    let mut number_bytes = Vec::with_capacity(4);
    codec::put_u32(&mut number_bytes, partition_number);
    Crc32::new().with(table_id).with(&number_bytes)
}

/// Returns the checksum of a page, which also binds the page to its number.
pub(crate) fn page_checksum(identity: &Crc32, number: usize, page: &[u8]) -> u32 {
    identity.clone().with(&codec::u64_bytes(number as u64)).with(page).finish()
}

impl Trailer {
    /// Returns whether a partition with this trailer has the same SST, hasher, parts of keys and
    /// extractor as the partition index with the trailer `index`.
    pub(super) fn is_like(&self, index: &Self) -> bool {
        (self.table_id, self.hash, self.added, &self.extractor)
            == (index.table_id, index.hash, index.added, &index.extractor)
    }

    /// Returns the length in bytes that the extension would have with `ranges` as its range filter
    /// record. The record of parameters is not included.
    pub(super) fn extension_len_bytes(&self, ranges: Option<RangesRecord>) -> usize {
        let records = [
            self.hash.fingerprint.map(|_| FINGERPRINT_LEN_BYTES),
            self.extractor.as_ref().map(String::len),
            ranges.map(|_| RANGES_LEN_BYTES),
        ];
        records.iter().flatten().map(|len| RECORD_HEAD_LEN_BYTES + len).sum()
    }

    /// Appends page checksums, extension and trailer to a block that so far is only its payload.
    pub(crate) fn append_to(&self, block: &mut Vec<u8>) -> Result<(), NoMemory> {
        let payload_len = block.len();
        let identity = page_identity(&self.table_id, self.partition_number);
        let pages = page_count(payload_len);
        block.try_reserve_exact(pages * PAGE_CHECKSUM_LEN_BYTES + MAX_EXTENSION_LEN_BYTES + TRAILER_LEN_BYTES)?;
        for number in 0..pages {
            let (from, to) = (number * PAGE_LEN_BYTES, payload_len.min((number + 1) * PAGE_LEN_BYTES));
            let checksum = page_checksum(&identity, number, block.get(from..to).unwrap_or_default());
            codec::put_u32(block, checksum);
        }
        let page_checksums = crate::checksum::crc32(block.get(payload_len..).unwrap_or_default());
        let (kind, params, layers) = match &self.content {
            Content::Filter { shape, .. } => (shape.kind as u8, shape.params, shape.layers.as_slice()),
            Content::PartitionIndex => (PARTITION_INDEX_TAG, [0; 3], [].as_slice()),
        };
        let extension_start = block.len();
        if let Some(fingerprint) = self.hash.fingerprint {
            put_record(block, EXTENSION_FINGERPRINT, &fingerprint.to_bytes());
        }
        put_record(block, EXTENSION_EXTRACTOR, self.extractor.as_deref().unwrap_or_default().as_bytes());
        put_record(block, EXTENSION_LAYERS, layers);
        if let Some(RangesRecord { len_bytes, checksum }) = self.ranges {
            let mut record = codec::u64_bytes(len_bytes).to_vec();
            codec::put_u32(&mut record, checksum);
            put_record(block, EXTENSION_RANGES, &record);
        }
        #[expect(clippy::cast_possible_truncation, reason = "asserted where the records' longest lengths are set")]
        let extension_len = (block.len() - extension_start) as u8;
        block.extend_from_slice(&self.table_id);
        codec::put_u64(block, self.hash.seed.0);
        // No machine has the memory to build a filter of 2^48 keys or bytes.
        codec::put_u48(block, self.num_keys).ok_or(NoMemory)?;
        codec::put_u48(block, self.payload_len_bytes).ok_or(NoMemory)?;
        codec::put_u32(block, page_checksums);
        codec::put_u32(block, self.partition_number);
        block.extend_from_slice(&params);
        block.extend_from_slice(&[extension_len, kind, self.hash.kind as u8, self.added.flags(), VERSION]);
        // The checksum continues from the page checksums, because the CRC of bytes that end with
        // their own CRC is a constant. Otherwise a host's own CRC-32 of a one-page block would not
        // depend on the payload.
        let checksum = trailer_checksum(page_checksums, block.get(extension_start..).unwrap_or_default());
        codec::put_u32(block, checksum);
        block.extend_from_slice(&MAGIC);
        Ok(())
    }

    /// Reads and verifies everything after the payload of the block that ends where `bytes` end.
    ///
    /// Returns the trailer, and the offset of the payload within `bytes`. The offset is 0, unless
    /// partitions or a range filter lie in front of the payload.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, usize)> {
        let trailer = BorrowedTrailer::read(bytes)?;
        trailer.check_page_checksums(bytes)?;
        let BorrowedTrailer { table_id, hash, num_keys, payload_len_bytes, partition_number, added, ranges, .. } =
            trailer;
        let content = match trailer.kind {
            None => Content::PartitionIndex,
            Some(kind) => {
                let shape = trailer.shape(kind);
                Content::Filter { geometry: trailer.geometry(&shape)?, shape }
            }
        };
        let extractor = trailer.extractor.map(str::to_owned);
        let owned =
            Self { table_id, hash, num_keys, payload_len_bytes, partition_number, content, added, extractor, ranges };
        Ok((owned, trailer.payload_start))
    }
}

/// A verified trailer that borrows the bytes of its block. Reading it takes constant time and no
/// heap memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct BorrowedTrailer<'a> {
    pub(super) table_id: [u8; 16],
    pub(super) hash: HashIdentity,
    pub(super) num_keys: u64,
    pub(super) payload_len_bytes: u64,
    pub(super) partition_number: u32,
    /// The kind of the filter. It is `None` for a partition index.
    pub(super) kind: Option<FilterKind>,
    params: [u8; 3],
    layers: &'a [u8],
    pub(super) added: Added,
    pub(super) extractor: Option<&'a str>,
    pub(super) ranges: Option<RangesRecord>,
    pub(super) checksum: u32,
    /// The checksum of the page checksums.
    page_checksums: u32,
    /// The offset of the payload. It is 0, unless partitions or a range filter lie in front of the
    /// payload.
    pub(super) payload_start: usize,
    extension_start: usize,
    /// The offset of the trailer.
    start: usize,
}

impl<'a> BorrowedTrailer<'a> {
    /// Reads and verifies extension and trailer of the block that ends where `bytes` end. Checks
    /// that no bytes lie in front of a filter's payload, except those of a recorded range filter.
    /// Does not verify the shape or the page checksums. Offsets in errors count from the start of
    /// `bytes`.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let start =
            bytes.len().checked_sub(TRAILER_LEN_BYTES).ok_or(Error::Corrupt { field: Field::Length, offset: 0 })?;
        let at = |field| (start + offset_of(field)) as u64;
        let corrupt = |field| Error::Corrupt { field, offset: at(field) };
        let mut cursor = Cursor::new(bytes.get(start..).unwrap_or_default(), start as u64);
        let raw = RawTrailer::take(&mut cursor)?;
        if raw.magic != MAGIC {
            return Err(corrupt(Field::Magic));
        }
        // The trailer is not verified yet, so the length of the extension may be wrong. It only
        // selects which bytes to checksum, always within `bytes`.
        let extension_start = start.checked_sub(raw.extension_len.into());
        let covered = extension_start.and_then(|from| bytes.get(from..start + offset_of(Field::Checksum)));
        let covered = covered.unwrap_or_default();
        // A newer version may store its lengths at other offsets, so its checksum cannot be
        // verified. But if the checksum matches after `VERSION` replaces the stored version, only
        // the version byte is damaged.
        if raw.version != VERSION && checksum_in_this_version(raw.page_checksums, covered) == raw.checksum {
            return Err(corrupt(Field::Version));
        }
        if raw.version > VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: raw.version.into() });
        }
        let extension_start = extension_start.ok_or_else(|| corrupt(Field::ExtensionLen))?;
        let computed = trailer_checksum(raw.page_checksums, covered);
        if computed != raw.checksum {
            let (field, offset) = (Field::Checksum, at(Field::Checksum));
            return Err(Error::ChecksumMismatch { field, offset, stored: raw.checksum, computed });
        }
        if raw.version == 0 {
            return Err(corrupt(Field::Version));
        }
        let payload_start = usize::try_from(raw.payload_len_bytes).ok().and_then(|payload_len| {
            extension_start.checked_sub(page_count(payload_len) * PAGE_CHECKSUM_LEN_BYTES)?.checked_sub(payload_len)
        });
        let payload_start = payload_start.ok_or_else(|| corrupt(Field::PayloadLen))?;
        let extension = covered.get(..raw.extension_len.into()).unwrap_or_default();
        let trailer = Self { payload_start, extension_start, start, ..raw.interpret(extension, at)? };
        let is_after_ranges = || trailer.ranges.and_then(RangesRecord::payload_start) == Some(payload_start);
        if payload_start != 0 && trailer.kind.is_some() && !is_after_ranges() {
            return Err(Error::Corrupt { field: Field::Length, offset: payload_start as u64 });
        }
        Ok(trailer)
    }

    /// Compares the page checksums of the block with their own checksum. `bytes` must be the bytes
    /// given to [`BorrowedTrailer::read`].
    pub(super) fn check_page_checksums(&self, bytes: &[u8]) -> Result<()> {
        // `read` found room for a payload of this length in front of the checksums.
        let payload_len = usize::try_from(self.payload_len_bytes).unwrap_or_default();
        let from = self.payload_start + payload_len;
        let (stored, computed) =
            (self.page_checksums, crate::checksum::crc32(bytes.get(from..self.extension_start).unwrap_or_default()));
        if computed != stored {
            return Err(Error::ChecksumMismatch { field: Field::PageChecksums, offset: from as u64, stored, computed });
        }
        Ok(())
    }

    /// Returns a `Corrupt` error at a field of the trailer. Its offset counts from the start of the
    /// bytes given to [`BorrowedTrailer::read`].
    pub(super) fn corrupt(&self, field: Field) -> Error {
        let offset = if field == Field::Extension { self.extension_start } else { self.start + offset_of(field) };
        Error::Corrupt { field, offset: offset as u64 }
    }

    /// Sets the offset of a `Corrupt` error from the check of the shape. That check does not know
    /// where the fields lie.
    fn located(&self, error: Error) -> Error {
        match error {
            Error::Corrupt { field, .. } => self.corrupt(field),
            other => other,
        }
    }

    /// Returns the extension and the trailer. `bytes` must be the bytes given to
    /// [`BorrowedTrailer::read`].
    pub(super) fn tail<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.extension_start..).unwrap_or_default()
    }

    /// Returns the shape of the filter. `kind` must be the trailer's kind.
    pub(super) fn shape(&self, kind: FilterKind) -> Shape {
        Shape { kind, params: self.params, layers: self.layers.to_vec() }
    }

    /// Returns the geometry of the trailer's shape, or an error for an invalid shape.
    pub(super) fn geometry(&self, shape: &Shape) -> Result<Geometry> {
        Geometry::new(shape, self.num_keys, self.payload_len_bytes).map_err(|error| self.located(error))
    }

    /// Returns the geometry of the filter, or `None` for a partition index. Does not check the
    /// shape of a bumped ribbon: each query checks it.
    pub(super) fn inline_geometry(&self) -> Result<Option<InlineGeometry<'a>>> {
        let Some(kind) = self.kind else { return Ok(None) };
        let geometry = InlineGeometry::new(kind, self.params, self.layers, self.num_keys, self.payload_len_bytes);
        geometry.map(Some).map_err(|error| self.located(error))
    }
}

/// The fields of a trailer as they are stored, before any check.
struct RawTrailer {
    table_id: [u8; 16],
    seed: u64,
    num_keys: u64,
    payload_len_bytes: u64,
    page_checksums: u32,
    partition_number: u32,
    params: [u8; 3],
    extension_len: u8,
    kind: u8,
    hash_id: u8,
    flags: u8,
    version: u8,
    checksum: u32,
    magic: [u8; 4],
}

impl RawTrailer {
    fn take(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            table_id: cursor.take_array(Field::TableId)?,
            seed: cursor.take_u64(Field::Seed)?,
            num_keys: cursor.take_u48(Field::NumKeys)?,
            payload_len_bytes: cursor.take_u48(Field::PayloadLen)?,
            page_checksums: cursor.take_u32(Field::PageChecksums)?,
            partition_number: cursor.take_u32(Field::PartitionNumber)?,
            params: cursor.take_array(Field::Params)?,
            extension_len: cursor.take_u8(Field::ExtensionLen)?,
            kind: cursor.take_u8(Field::Kind)?,
            hash_id: cursor.take_u8(Field::HashId)?,
            flags: cursor.take_u8(Field::Flags)?,
            version: cursor.take_u8(Field::Version)?,
            checksum: cursor.take_u32(Field::Checksum)?,
            magic: cursor.take_array(Field::Magic)?,
        })
    }

    /// Reads the records of the extension, checks fields against each other, and returns the
    /// trailer. The caller has already verified the checksum of the fields, and must set the
    /// offsets in the result.
    fn interpret(self, extension: &[u8], at: impl Fn(Field) -> u64) -> Result<BorrowedTrailer<'_>> {
        let extension_offset = at(Field::TableId) - extension.len() as u64;
        let offset = |field| if field == Field::Extension { extension_offset } else { at(field) };
        let corrupt = |field| Err(Error::Corrupt { field, offset: offset(field) });
        let unsupported = |field, found: u8| Error::Unsupported { field, found: found.into() };
        let hash_kind = HashKind::from_id(self.hash_id).ok_or_else(|| unsupported(Field::HashId, self.hash_id))?;
        let added = Added::from_flags(self.flags).ok_or_else(|| unsupported(Field::Flags, self.flags))?;
        // The checks below need a known kind.
        let kind = FilterKind::from_tag(self.kind);
        if kind.is_none() && self.kind != PARTITION_INDEX_TAG {
            return Err(unsupported(Field::Kind, self.kind));
        }
        let Extension { fingerprint, extractor, layers, ranges } = Extension::read(extension, extension_offset)?;
        match kind {
            None if self.params != [0; 3] => return corrupt(Field::Params),
            None if !layers.is_empty() => return corrupt(Field::Extension),
            None if self.partition_number != 0 => return corrupt(Field::PartitionNumber),
            None | Some(_) => {}
        }
        if extractor.is_some() != added.prefixes() {
            return corrupt(Field::Extension);
        }
        // Only a range filter has the flag for ranges. Its kind is `grafite`, `empty` if it has no
        // keys, or `always-maybe`. The block may also be a partition index.
        let is_range_filter = added == Added::Ranges;
        let is_of_ranges = kind.is_some_and(|kind| kind.info().is_of_ranges);
        let may_be_one = is_of_ranges || kind.is_none_or(|kind| !kind.takes_budget());
        if if is_range_filter { !may_be_one } else { is_of_ranges } {
            return corrupt(Field::Flags);
        }
        if ranges.is_some() && (kind.is_none() || !added.whole_keys() || self.partition_number != 0) {
            return corrupt(Field::Extension);
        }
        let Some(hash) = HashIdentity::new(hash_kind, HashSeed(self.seed), fingerprint) else {
            return corrupt(Field::Extension);
        };
        let Self { table_id, num_keys, payload_len_bytes, page_checksums, partition_number, params, checksum, .. } =
            self;
        Ok(BorrowedTrailer {
            table_id,
            hash,
            num_keys,
            payload_len_bytes,
            partition_number,
            kind,
            params,
            layers,
            added,
            extractor,
            ranges,
            checksum,
            page_checksums,
            payload_start: 0,
            extension_start: 0,
            start: 0,
        })
    }
}

/// Computes the trailer's checksum. It continues from `page_checksums`, the checksum of the page
/// checksums. `covered` is the extension and the trailer up to the checksum field.
fn trailer_checksum(page_checksums: u32, covered: &[u8]) -> u32 {
    Crc32::continuing(page_checksums).with(covered).finish()
}

/// Computes the checksum that the trailer would have if its version were [`VERSION`]. `covered`
/// ends with the version.
fn checksum_in_this_version(page_checksums: u32, covered: &[u8]) -> u32 {
    let fields = covered.split_last().map_or(covered, |(_, fields)| fields);
    Crc32::continuing(page_checksums).with(fields).with(&[VERSION]).finish()
}
