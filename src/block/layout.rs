//! Defines the layout of a block: the lengths, the fields of the trailer and the page checksums.

use std::borrow::Cow;

use crate::codec::{self, Crc32, Cursor, crc32};
use crate::error::{Error, Field, Result};
use crate::filters::{FilterKind, Header, MAX_RECORD_LEN_BYTES, Params};
use crate::hash::{HashIdentity, HashSeed};
use crate::hash_kind::{FINGERPRINT_LEN_BYTES, Fingerprint, HashKind};
use crate::simd::NoMemory;

pub use crate::extractor::MAX_EXTRACTOR_LEN_BYTES;

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
/// The tag of a partition index. The trailer has it instead of the tag of a filter kind.
pub const PARTITION_INDEX_TAG: u8 = 9;

/// The length in bytes of the tag and the length of a record of the extension.
const RECORD_HEAD_LEN_BYTES: usize = 2;

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
    if (field(trailer, Field::Magic), field(trailer, Field::Version)) != (MAGIC, [VERSION]) {
        return None;
    }
    let [extension_len] = field(trailer, Field::ExtensionLen);
    block_len_bytes(u48_of(trailer, Field::PayloadLen), 0)?.checked_add(extension_len.into())
}

pub(super) fn field<const N: usize>(trailer: &[u8; TRAILER_LEN_BYTES], field: Field) -> [u8; N] {
    let bytes = trailer.get(offset_of(field)..).and_then(<[u8]>::first_chunk);
    // Every field lies within the trailer.
    bytes.copied().unwrap_or([0; N])
}

fn u48_of(trailer: &[u8; TRAILER_LEN_BYTES], name: Field) -> u64 {
    let [a, b, c, d, e, f] = field(trailer, name);
    codec::u64_from(&[a, b, c, d, e, f, 0, 0])
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
    #[doc(hidden)]
    #[must_use]
    pub fn described(self) -> &'static str {
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

/// The tags of the records.
const FINGERPRINT: u8 = 1;
const EXTRACTOR: u8 = 2;
const PARAMS: u8 = 3;
const RANGES: u8 = 4;

/// The length in bytes of the value of a range filter's record. Eight bytes hold the length of the
/// range filter's block, and four hold the block's checksum.
const RANGES_LEN_BYTES: usize = 12;
/// The alignment in bytes of each partition, and of a payload after a range filter.
pub(super) const ALIGN_BYTES: usize = 64;
const MAX_EXTENSION_LEN_BYTES: usize = u8::MAX as usize;
/// The extension has room for the largest record of each tag.
const _: () = assert!(
    4 * RECORD_HEAD_LEN_BYTES
        + FINGERPRINT_LEN_BYTES
        + MAX_EXTRACTOR_LEN_BYTES
        + MAX_RECORD_LEN_BYTES
        + RANGES_LEN_BYTES
        <= MAX_EXTENSION_LEN_BYTES
);

/// The fields of extension and trailer that do not describe the trailer itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trailer<'a> {
    pub(crate) table_id: [u8; 16],
    pub(crate) hash: HashIdentity,
    pub(crate) num_keys: u64,
    pub(crate) payload_len_bytes: u64,
    /// 0 for a whole filter or a partition index, and `i + 1` for partition `i`, counted from 0.
    pub(crate) partition_number: u32,
    /// The header of the filter. It is `None` for a partition index.
    pub(crate) header: Option<Header<'a>>,
    pub(crate) added: Added,
    pub(crate) extractor: Option<Cow<'a, str>>,
    pub(crate) ranges: Option<RangesRecord>,
}

/// The record of a range filter in front of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangesRecord {
    pub(crate) len_bytes: u64,
    /// The checksum in the trailer of the range filter's block.
    pub(crate) checksum: u32,
}

impl RangesRecord {
    /// Returns the offset of the payload after the range filter. Returns `None` if the offset does
    /// not fit in the address space.
    fn payload_start(self) -> Option<usize> {
        usize::try_from(self.len_bytes).ok()?.checked_next_multiple_of(ALIGN_BYTES)
    }

    /// Returns the bytes of the range filter in front of a payload. Returns `None` if `bytes` are
    /// too short, or if the padding between range filter and payload is not zero.
    pub(super) fn block_in(self, bytes: &[u8]) -> Option<&[u8]> {
        let (block, padding) =
            bytes.get(..self.payload_start()?)?.split_at_checked(usize::try_from(self.len_bytes).ok()?)?;
        padding.iter().all(|&byte| byte == 0).then_some(block)
    }
}

impl<'a> Trailer<'a> {
    pub(super) fn into_owned(self) -> Trailer<'static> {
        let Self { table_id, hash, num_keys, payload_len_bytes, partition_number, added, ranges, .. } = self;
        let header = self.header.map(Header::into_owned);
        let extractor = self.extractor.map(|name| name.into_owned().into());
        Trailer { table_id, hash, num_keys, payload_len_bytes, partition_number, header, added, extractor, ranges }
    }

    /// Returns whether a partition with this trailer has the same SST, hasher, parts of keys and
    /// extractor as the partition index with the trailer `index`.
    pub(super) fn is_like(&self, index: &Trailer<'_>) -> bool {
        (self.table_id, self.hash, self.added) == (index.table_id, index.hash, index.added)
            && self.extractor == index.extractor
    }

    /// Returns the length in bytes of a block with this trailer, with a payload of `payload_len` bytes
    /// and a record of parameters of `record_len` bytes. Returns `None` if the length does not fit in
    /// 64 bits.
    pub(super) fn block_len_bytes(&self, payload_len: u64, record_len: usize) -> Option<u64> {
        let records = [
            self.hash.fingerprint.map(|_| FINGERPRINT_LEN_BYTES),
            self.extractor.as_ref().map(|name| name.len()),
            self.ranges.map(|_| RANGES_LEN_BYTES),
        ];
        let extension: usize = records.iter().flatten().map(|len| RECORD_HEAD_LEN_BYTES + len).sum();
        block_len_bytes(payload_len, record_len)?.checked_add(extension as u64)
    }

    /// Appends page checksums, extension and trailer to a block that so far is only its payload.
    /// Returns the trailer's checksum.
    #[expect(clippy::indexing_slicing, reason = "all ranges begin and end within the block so far")]
    pub(crate) fn append_to(&self, block: &mut Vec<u8>) -> Result<u32, NoMemory> {
        let payload_len = block.len();
        let identity = page_identity(&self.table_id, self.partition_number);
        let pages = page_count(payload_len);
        block.try_reserve_exact(pages * PAGE_CHECKSUM_LEN_BYTES + MAX_EXTENSION_LEN_BYTES + TRAILER_LEN_BYTES)?;
        for number in 0..pages {
            let (from, to) = (number * PAGE_LEN_BYTES, payload_len.min((number + 1) * PAGE_LEN_BYTES));
            let checksum = page_checksum(&identity, number, &block[from..to]);
            codec::put_u32(block, checksum);
        }
        let page_checksums = crc32(&block[payload_len..]);
        let extension_start = block.len();
        if let Some(fingerprint) = self.hash.fingerprint {
            put_record(block, FINGERPRINT, &fingerprint.to_bytes());
        }
        put_record(block, EXTRACTOR, self.extractor.as_deref().unwrap_or_default().as_bytes());
        let (kind, params) = match &self.header {
            Some(header) => {
                put_record(block, PARAMS, &header.record);
                (header.kind as u8, header.params)
            }
            None => (PARTITION_INDEX_TAG, [0; 3]),
        };
        if let Some(RangesRecord { len_bytes, checksum }) = self.ranges {
            let mut record = codec::u64_bytes(len_bytes).to_vec();
            codec::put_u32(&mut record, checksum);
            put_record(block, RANGES, &record);
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
        let checksum = Crc32::continuing(page_checksums).with(&block[extension_start..]).finish();
        codec::put_u32(block, checksum);
        block.extend_from_slice(&MAGIC);
        Ok(checksum)
    }
}

/// Appends a record of the extension: a tag, the length of `value` (one byte), and `value`. Writes
/// nothing for an empty value.
fn put_record(block: &mut Vec<u8>, tag: u8, value: &[u8]) {
    if !value.is_empty() {
        #[expect(clippy::cast_possible_truncation, reason = "asserted where the records' longest lengths are set")]
        block.extend_from_slice(&[tag, value.len() as u8]);
        block.extend_from_slice(value);
    }
}

/// A verified trailer, and its place in the bytes of its block.
#[derive(Debug)]
pub(super) struct Located<'a> {
    pub(super) trailer: Trailer<'a>,
    pub(super) checksum: u32,
    /// The offset of the payload. It is 0, unless partitions or a range filter lie in front of the
    /// payload.
    pub(super) payload_start: usize,
    pub(super) payload_len: usize,
    bytes: &'a [u8],
    extension_start: usize,
    page_checksums: u32,
}

impl<'a> Located<'a> {
    /// Reads and verifies extension and trailer of the block that ends where `bytes` end. Checks
    /// that no bytes lie in front of a filter's payload, except those of a recorded range filter.
    /// Does not verify the header or the page checksums. Takes constant time and no heap memory.
    /// Offsets in errors count from the start of `bytes`.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let (before, raw) = bytes.split_last_chunk::<TRAILER_LEN_BYTES>().ok_or(Error::corrupt(Field::Length))?;
        let at = |field| (before.len() + offset_of(field)) as u64;
        let corrupt = |field| Error::Corrupt { field, offset: at(field) };
        if field(raw, Field::Magic) != MAGIC {
            return Err(corrupt(Field::Magic));
        }
        let [version] = field(raw, Field::Version);
        let [extension_len] = field(raw, Field::ExtensionLen);
        let stored = codec::u32_from(&field(raw, Field::Checksum));
        let page_checksums = codec::u32_from(&field(raw, Field::PageChecksums));
        // The trailer is not verified yet, so the length of the extension may be wrong. It only
        // selects which bytes to checksum, always within `bytes`.
        let extension_start = before.len().checked_sub(extension_len.into());
        let end = before.len() + offset_of(Field::Checksum);
        let covered = extension_start.and_then(|from| bytes.get(from..end)).unwrap_or_default();
        // A newer version may store its lengths at other offsets, so its checksum cannot be
        // verified. But if the checksum matches after `VERSION` replaces the stored version, only
        // the version byte is damaged.
        if version != VERSION && checksum_in_this_version(page_checksums, covered) == stored {
            return Err(corrupt(Field::Version));
        }
        if version > VERSION {
            return Err(Error::Unsupported { field: Field::Version, found: version.into() });
        }
        let extension_start = extension_start.ok_or_else(|| corrupt(Field::ExtensionLen))?;
        let computed = Crc32::continuing(page_checksums).with(covered).finish();
        if computed != stored {
            let (field, offset) = (Field::Checksum, at(Field::Checksum));
            return Err(Error::ChecksumMismatch { field, offset, stored, computed });
        }
        if version == 0 {
            return Err(corrupt(Field::Version));
        }
        let payload_len_bytes = u48_of(raw, Field::PayloadLen);
        let place = usize::try_from(payload_len_bytes).ok().and_then(|len| {
            let start = extension_start.checked_sub(page_count(len) * PAGE_CHECKSUM_LEN_BYTES)?.checked_sub(len)?;
            Some((start, len))
        });
        let (payload_start, payload_len) = place.ok_or_else(|| corrupt(Field::PayloadLen))?;
        let extension = covered.get(..extension_len.into()).unwrap_or_default();
        let trailer = interpret(raw, extension, before.len())?;
        let is_after_ranges = || trailer.ranges.and_then(RangesRecord::payload_start) == Some(payload_start);
        if payload_start != 0 && trailer.header.is_some() && !is_after_ranges() {
            return Err(Error::Corrupt { field: Field::Length, offset: payload_start as u64 });
        }
        Ok(Self { trailer, checksum: stored, payload_start, payload_len, bytes, extension_start, page_checksums })
    }

    pub(super) fn check_page_checksums(&self) -> Result<()> {
        let from = self.payload_start + self.payload_len;
        // `read` found room for the payload and its page checksums.
        let computed = crc32(self.bytes.get(from..self.extension_start).unwrap_or_default());
        let stored = self.page_checksums;
        if computed != stored {
            return Err(Error::ChecksumMismatch { field: Field::PageChecksums, offset: from as u64, stored, computed });
        }
        Ok(())
    }

    pub(super) fn corrupt(&self, field: Field) -> Error {
        let start = self.bytes.len() - TRAILER_LEN_BYTES;
        let offset = if field == Field::Extension { self.extension_start } else { start + offset_of(field) };
        Error::Corrupt { field, offset: offset as u64 }
    }

    /// Sets the offset of a `Corrupt` error from the check of the header. That check does not know
    /// where the fields lie.
    pub(super) fn located(&self, error: Error) -> Error {
        match error {
            Error::Corrupt { field, .. } => self.corrupt(field),
            other => other,
        }
    }

    pub(super) fn padded(&self) -> &'a [u8] {
        self.bytes.get(self.payload_start..).unwrap_or_default()
    }

    /// Returns the extension and the trailer.
    pub(super) fn tail(&self) -> &'a [u8] {
        self.bytes.get(self.extension_start..).unwrap_or_default()
    }

    /// Returns the parameters of the filter, or an error for an invalid header. Returns `None` for
    /// a partition index.
    pub(super) fn params(&self) -> Result<Option<Params>> {
        let Trailer { header, num_keys, payload_len_bytes, .. } = &self.trailer;
        let Some(header) = header else { return Ok(None) };
        Params::new(header, *num_keys, *payload_len_bytes).map(Some).map_err(|error| self.located(error))
    }
}

/// Computes the checksum that the trailer would have if its version were [`VERSION`]. `covered`
/// ends with the version.
fn checksum_in_this_version(page_checksums: u32, covered: &[u8]) -> u32 {
    let fields = covered.split_last().map_or(covered, |(_, fields)| fields);
    Crc32::continuing(page_checksums).with(fields).with(&[VERSION]).finish()
}

/// Reads the records of the extension, and checks the fields against each other. `raw` was verified,
/// and begins at offset `start`.
fn interpret<'a>(raw: &[u8; TRAILER_LEN_BYTES], extension: &'a [u8], start: usize) -> Result<Trailer<'a>> {
    let offset = |field| match field {
        Field::Extension => (start - extension.len()) as u64,
        _ => (start + offset_of(field)) as u64,
    };
    let corrupt = |field| Err(Error::Corrupt { field, offset: offset(field) });
    let unsupported = |field, found: u8| Error::Unsupported { field, found: found.into() };
    let ([hash_id], [flags], [tag]) = (field(raw, Field::HashId), field(raw, Field::Flags), field(raw, Field::Kind));
    let hash_kind = HashKind::from_id(hash_id).ok_or_else(|| unsupported(Field::HashId, hash_id))?;
    let added = Added::from_flags(flags).ok_or_else(|| unsupported(Field::Flags, flags))?;
    // The checks below need a known kind.
    let kind = FilterKind::from_tag(tag);
    if kind.is_none() && tag != PARTITION_INDEX_TAG {
        return Err(unsupported(Field::Kind, tag));
    }
    let Extension { fingerprint, extractor, record, ranges } = Extension::read(extension, offset(Field::Extension))?;
    let params = field(raw, Field::Params);
    let partition_number = codec::u32_from(&field(raw, Field::PartitionNumber));
    match kind {
        None if params != [0; 3] => return corrupt(Field::Params),
        None if !record.is_empty() => return corrupt(Field::Extension),
        None if partition_number != 0 => return corrupt(Field::PartitionNumber),
        None | Some(_) => {}
    }
    if extractor.is_some() != added.prefixes() {
        return corrupt(Field::Extension);
    }
    // Only a range filter has the flag for ranges. Its kind is `grafite`, `empty` if it has no
    // keys, or `always-maybe`. The block may also be a partition index.
    let is_of_ranges = kind.is_some_and(|kind| kind.info().is_of_ranges);
    let may_be_one = is_of_ranges || kind.is_none_or(|kind| !kind.takes_budget());
    if if added == Added::Ranges { !may_be_one } else { is_of_ranges } {
        return corrupt(Field::Flags);
    }
    if ranges.is_some() && (kind.is_none() || !added.whole_keys() || partition_number != 0) {
        return corrupt(Field::Extension);
    }
    let seed = HashSeed(codec::u64_from(&field(raw, Field::Seed)));
    let Some(hash) = HashIdentity::new(hash_kind, seed, fingerprint) else { return corrupt(Field::Extension) };
    Ok(Trailer {
        table_id: field(raw, Field::TableId),
        hash,
        num_keys: u48_of(raw, Field::NumKeys),
        payload_len_bytes: u48_of(raw, Field::PayloadLen),
        partition_number,
        header: kind.map(|kind| Header { kind, params, record: record.into() }),
        added,
        extractor: extractor.map(Cow::Borrowed),
        ranges,
    })
}

#[derive(Default)]
struct Extension<'a> {
    fingerprint: Option<Fingerprint>,
    extractor: Option<&'a str>,
    record: &'a [u8],
    ranges: Option<RangesRecord>,
}

impl<'a> Extension<'a> {
    /// Decodes the records. `offset` is the offset of the extension, for errors. An unknown tag is
    /// an error, because no record is safe to ignore.
    fn read(bytes: &'a [u8], offset: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, offset);
        let mut found = Self::default();
        while !cursor.is_empty() {
            let tag = cursor.take_u8(Field::Extension)?;
            let len = cursor.take_u8(Field::Extension)?;
            let value = cursor.take(len.into(), Field::Extension)?;
            let corrupt = || cursor.corrupt(Field::Extension);
            // No writer writes an empty record, or two records with one tag.
            match tag {
                FINGERPRINT if found.fingerprint.is_none() => {
                    let bytes = value.try_into().map_err(|_| corrupt())?;
                    found.fingerprint = Some(Fingerprint::from_bytes(bytes));
                }
                EXTRACTOR if !value.is_empty() && found.extractor.is_none() => {
                    found.extractor = Some(std::str::from_utf8(value).map_err(|_| corrupt())?);
                }
                PARAMS if !value.is_empty() && found.record.is_empty() => found.record = value,
                RANGES if found.ranges.is_none() => found.ranges = Some(read_ranges(value).ok_or_else(corrupt)?),
                FINGERPRINT | EXTRACTOR | PARAMS | RANGES => return Err(corrupt().into()),
                _ => return Err(Error::Unsupported { field: Field::Extension, found: tag.into() }),
            }
        }
        Ok(found)
    }
}

fn read_ranges(value: &[u8]) -> Option<RangesRecord> {
    let value: &[u8; RANGES_LEN_BYTES] = value.try_into().ok()?;
    let len_bytes = codec::u64_from(value.first_chunk()?);
    Some(RangesRecord { len_bytes, checksum: codec::u32_at(value, 8)? })
}
