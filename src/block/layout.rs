//! Defines the layout of a block: the lengths, the fields of the trailer and the page checksums.

use crate::codec;
use crate::codec::Crc32;
use crate::error::Field;
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
pub(super) const RECORD_HEAD_LEN_BYTES: usize = 2;

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

/// Returns the bytes of a field of [`FIELDS`], which has `N` bytes.
pub(super) fn field<const N: usize>(trailer: &[u8; TRAILER_LEN_BYTES], field: Field) -> [u8; N] {
    let bytes = trailer.get(offset_of(field)..).and_then(<[u8]>::first_chunk);
    // Every field lies within the trailer.
    bytes.copied().unwrap_or([0; N])
}

/// Returns a field of six bytes as an integer.
pub(super) fn u48_of(trailer: &[u8; TRAILER_LEN_BYTES], name: Field) -> u64 {
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

    pub(super) fn flags(self) -> u8 {
        match self {
            Self::WholeKeys => FLAG_WHOLE_KEYS,
            Self::Prefixes => FLAG_PREFIXES,
            Self::Both => FLAG_WHOLE_KEYS | FLAG_PREFIXES,
            Self::Ranges => FLAG_RANGES,
        }
    }

    pub(super) fn from_flags(flags: u8) -> Option<Self> {
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
