//! Reads and writes the extension of a block. It is a list of records; each has a tag, a length and
//! a value.

use crate::codec::{self, Cursor};
use crate::error::{Error, Field, Result};
use crate::extractor::MAX_EXTRACTOR_LEN_BYTES;
use crate::hash_kind::{FINGERPRINT_LEN_BYTES, Fingerprint};
use crate::kinds::MAX_LAYERS_LEN_BYTES;

pub(super) const EXTENSION_FINGERPRINT: u8 = 1;
pub(super) const EXTENSION_EXTRACTOR: u8 = 2;
pub(super) const EXTENSION_LAYERS: u8 = 3;
pub(super) const EXTENSION_RANGES: u8 = 4;
/// The length in bytes of the value of a range filter's record. Eight bytes hold the length of the
/// range filter's block, and four hold the block's checksum.
pub(super) const RANGES_LEN_BYTES: usize = 12;
/// The alignment in bytes of each partition, and of a payload after a range filter.
pub(super) const ALIGN_BYTES: usize = 64;
pub(super) const MAX_EXTENSION_LEN_BYTES: usize = u8::MAX as usize;
pub(super) const RECORD_HEAD_LEN_BYTES: usize = 2;
/// The extension has room for the largest record of each tag.
const _: () = assert!(
    4 * RECORD_HEAD_LEN_BYTES
        + FINGERPRINT_LEN_BYTES
        + MAX_EXTRACTOR_LEN_BYTES
        + MAX_LAYERS_LEN_BYTES
        + RANGES_LEN_BYTES
        <= MAX_EXTENSION_LEN_BYTES
);

/// The record of a range filter in front of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangesRecord {
    /// The length of the range filter's block in bytes.
    pub(crate) len_bytes: u64,
    /// The checksum in the trailer of the range filter's block.
    pub(crate) checksum: u32,
}

impl RangesRecord {
    /// Returns the offset of the payload after the range filter. Returns `None` if the offset does
    /// not fit in the address space.
    pub(super) fn payload_start(self) -> Option<usize> {
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

/// Appends a record of the extension: a tag, the length of `value` (one byte), and `value`. Writes
/// nothing for an empty value.
pub(super) fn put_record(block: &mut Vec<u8>, tag: u8, value: &[u8]) {
    if !value.is_empty() {
        #[expect(clippy::cast_possible_truncation, reason = "asserted where the records' longest lengths are set")]
        block.extend_from_slice(&[tag, value.len() as u8]);
        block.extend_from_slice(value);
    }
}

/// The decoded records of an extension.
#[derive(Default)]
pub(super) struct Extension<'a> {
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) extractor: Option<&'a str>,
    pub(super) layers: &'a [u8],
    pub(super) ranges: Option<RangesRecord>,
}

impl<'a> Extension<'a> {
    /// Decodes the records. `offset` is the offset of the extension, for errors. An unknown tag is
    /// an error, because no record is safe to ignore.
    pub(super) fn read(bytes: &'a [u8], offset: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, offset);
        let mut found = Self::default();
        while !cursor.is_empty() {
            let tag = cursor.take_u8(Field::Extension)?;
            let len = cursor.take_u8(Field::Extension)?;
            let value = cursor.take(len.into(), Field::Extension)?;
            let corrupt = || cursor.corrupt(Field::Extension);
            // No writer writes an empty record, or two records with one tag.
            match tag {
                EXTENSION_FINGERPRINT if found.fingerprint.is_none() => {
                    let bytes = value.try_into().map_err(|_| corrupt())?;
                    found.fingerprint = Some(Fingerprint::from_bytes(bytes));
                }
                EXTENSION_EXTRACTOR if !value.is_empty() && found.extractor.is_none() => {
                    found.extractor = Some(std::str::from_utf8(value).map_err(|_| corrupt())?);
                }
                EXTENSION_LAYERS if !value.is_empty() && found.layers.is_empty() => found.layers = value,
                EXTENSION_RANGES if found.ranges.is_none() => {
                    found.ranges = Some(read_ranges(value).ok_or_else(corrupt)?)
                }
                EXTENSION_FINGERPRINT | EXTENSION_EXTRACTOR | EXTENSION_LAYERS | EXTENSION_RANGES => {
                    return Err(corrupt().into());
                }
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
