//! Encodes and decodes the header of an index (its first 64 bytes). Computes the lengths and
//! offsets that follow from the header, and the checksums of rows.

use super::cells::CELL_LEN_BYTES;
use crate::error::{Error, Result, WRONG_CHECKSUM};
use crate::schema::PhysicalType;

/// The first bytes of an index file.
pub const MAGIC: [u8; 8] = *b"\x89FLBINDX";
/// The format version that this crate writes and reads.
pub const VERSION: u16 = 1;
/// The length in bytes of the header.
pub const HEADER_LEN_BYTES: usize = 64;
pub(super) const ROW_CHECKSUM_LEN_BYTES: usize = 4;
/// The maximum number of rows. A filter of this number of blocks has 64 GiB.
pub(super) const MAX_ROWS: u64 = 1 << 31;
/// The number of XXH64 with seed 0, the only hash function of version 1.
const HASH_XXH64: u8 = 1;

/// Returns whether a file that begins with `start` has the magic of an index. Returns false if
/// `start` has fewer than eight bytes.
#[must_use]
pub fn is_index(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

/// The type of the keys of an index. It decides which bytes of a key are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// The bytes of the keys of SST files and key lists.
    Bytes,
    /// The plain encoding of the values of a Parquet column, without the length of a byte array.
    Parquet {
        /// The physical type of the column.
        physical_type: PhysicalType,
        /// The length in bytes of a value of FIXED_LEN_BYTE_ARRAY, or 0 for all other types.
        type_len_bytes: u32,
    },
}

impl KeyType {
    /// The physical types and their tags. Tag 0 is [`KeyType::Bytes`].
    const TAGS: [(u8, PhysicalType); 7] = [
        (1, PhysicalType::Int32),
        (2, PhysicalType::Int64),
        (3, PhysicalType::Int96),
        (4, PhysicalType::Float),
        (5, PhysicalType::Double),
        (6, PhysicalType::ByteArray),
        (7, PhysicalType::FixedLenByteArray),
    ];

    /// Returns the tag of the type, and the length in bytes of a value (0 if the type does not need
    /// it). Returns `None` for BOOLEAN, and for a length above 0 with another type than
    /// FIXED_LEN_BYTE_ARRAY.
    fn encode(self) -> Option<(u8, u32)> {
        match self {
            Self::Bytes => Some((0, 0)),
            Self::Parquet { physical_type, type_len_bytes } => {
                let tag = Self::TAGS.iter().find(|(_, of)| *of == physical_type)?.0;
                let is_fixed = physical_type == PhysicalType::FixedLenByteArray;
                (is_fixed || type_len_bytes == 0).then_some((tag, type_len_bytes))
            }
        }
    }

    fn decode(tag: u8, type_len_bytes: u32) -> Option<Self> {
        let found = match tag {
            0 => Self::Bytes,
            _ => Self::Parquet { physical_type: Self::TAGS.iter().find(|(of, _)| *of == tag)?.1, type_len_bytes },
        };
        (found.encode() == Some((tag, type_len_bytes))).then_some(found)
    }

    pub(super) fn check(self) -> Result<()> {
        match self.encode() {
            Some(_) => Ok(()),
            None => Err(Error::invalid(
                "key type",
                format!("keys of type {self} can have no filter; choose a column of another type"),
            )),
        }
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes => f.write_str("bytes"),
            Self::Parquet { physical_type, type_len_bytes } => {
                f.write_str(physical_type.name())?;
                if *type_len_bytes > 0 { write!(f, "({type_len_bytes})") } else { Ok(()) }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Header {
    pub key_type: KeyType,
    /// The number of rows, at least 1. The number of blocks of a filter is a multiple of the number
    /// of rows.
    pub rows: u32,
    /// The number of cells of 32 bytes in each row.
    pub cells: u32,
    pub files: u32,
    pub table_len_bytes: u64,
    /// The FPR of the latest build. It determines the size of each filter that this build made from
    /// keys.
    pub fpr: f64,
    /// The generation: 1 for a new index, and one more for each update.
    pub generation: u64,
    pub table_checksum: u32,
    /// The checksum of the header. Every row's checksum includes it.
    pub checksum: u32,
}

fn field<const N: usize>(bytes: &[u8; HEADER_LEN_BYTES], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

impl Header {
    pub fn encode(&self) -> Result<[u8; HEADER_LEN_BYTES]> {
        let (tag, type_len_bytes) =
            self.key_type.encode().ok_or_else(|| Error::invalid("key type", "not indexable; choose another column"))?;
        let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[HASH_XXH64, tag]);
        for number in [type_len_bytes, self.rows, self.cells, self.files] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.table_len_bytes, self.fpr.to_bits(), self.generation] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.table_checksum.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.try_into().map_err(|_| Error::TooLarge { what: "the header" })
    }

    /// Checks and decodes the header. No field is used before the checksum is verified, except
    /// magic and version.
    pub fn decode(bytes: &[u8; HEADER_LEN_BYTES]) -> Result<Self> {
        let corrupt = |offset, why| Err(Error::damaged_index("header", offset, why));
        if !is_index(bytes) {
            return corrupt(0, "the first bytes are not those of an index (check which file this is)");
        }
        let checksum = u32::from_le_bytes(field(bytes, 60));
        let sound = |bytes: &[u8; HEADER_LEN_BYTES]| crc32fast::hash(&bytes[..60]) == checksum;
        let version = u16::from_le_bytes(field(bytes, 8));
        if version != VERSION {
            let mut first = *bytes;
            first[8..10].copy_from_slice(&VERSION.to_le_bytes());
            return match version > VERSION && !sound(&first) {
                true => Err(Error::unsupported(
                    format!("the index has format version {version}, and this program reads version {VERSION}"),
                    "search all indexed files, or use a newer program",
                )),
                false => corrupt(8, "the version is damaged"),
            };
        }
        if !sound(bytes) {
            return Err(Error::damaged_index("header", 0, WRONG_CHECKSUM));
        }
        if bytes[10] != HASH_XXH64 {
            return corrupt(10, "unknown hash function");
        }
        let Some(key_type) = KeyType::decode(bytes[11], u32::from_le_bytes(field(bytes, 12))) else {
            return corrupt(11, "unknown key type");
        };
        let header = Self {
            key_type,
            rows: u32::from_le_bytes(field(bytes, 16)),
            cells: u32::from_le_bytes(field(bytes, 20)),
            files: u32::from_le_bytes(field(bytes, 24)),
            table_len_bytes: u64::from_le_bytes(field(bytes, 28)),
            fpr: f64::from_bits(u64::from_le_bytes(field(bytes, 36))),
            generation: u64::from_le_bytes(field(bytes, 44)),
            table_checksum: u32::from_le_bytes(field(bytes, 56)),
            checksum,
        };
        if !(1..=MAX_ROWS).contains(&header.rows.into()) {
            return corrupt(16, "the number of rows is not 1 to 2^31");
        }
        if !(header.fpr > 0.0 && header.fpr < 1.0) {
            return corrupt(36, "the FPR is not between 0 and 1");
        }
        if field::<4>(bytes, 52) != [0; 4] {
            return corrupt(52, "reserved bytes are not zero");
        }
        Ok(header)
    }

    pub fn row_len_bytes(&self) -> u64 {
        u64::from(self.cells) * CELL_LEN_BYTES as u64 + ROW_CHECKSUM_LEN_BYTES as u64
    }

    pub fn rows_offset(&self) -> Option<u64> {
        self.table_len_bytes.checked_add(HEADER_LEN_BYTES as u64)
    }

    pub fn file_len_bytes(&self) -> Option<u64> {
        self.row_len_bytes().checked_mul(self.rows.into())?.checked_add(self.rows_offset()?)
    }

    /// Returns the checksum of a row. Besides the cells, it covers the header's checksum and the
    /// row's number. So it detects a row of another index, and a row at another position.
    pub fn row_checksum(&self, row: u32, cells: &[u8]) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&self.checksum.to_le_bytes());
        checksum.update(&row.to_le_bytes());
        checksum.update(cells);
        checksum.finalize()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation)]

    use super::*;

    fn header() -> Header {
        Header {
            key_type: KeyType::Parquet { physical_type: PhysicalType::FixedLenByteArray, type_len_bytes: 16 },
            rows: 7,
            cells: 3,
            files: 2,
            table_len_bytes: 99,
            fpr: 0.01,
            generation: 1,
            table_checksum: 0x1234_5678,
            checksum: 0,
        }
    }

    #[test]
    fn a_header_round_trips_and_no_flipped_bit_opens() {
        let bytes = header().encode().unwrap();
        let found = Header::decode(&bytes).unwrap();
        assert_eq!(Header { checksum: 0, ..found }, header());
        assert_eq!(found.file_len_bytes(), Some(64 + 99 + 7 * 100));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = Header::decode(&damaged).unwrap_err();
            assert!(error.is_damage(), "bit {bit}: {error}");
        }
    }

    #[test]
    fn a_newer_version_is_not_damage() {
        let mut bytes = header().encode().unwrap();
        bytes[8] = 2;
        let end = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&end.to_le_bytes());
        let error = Header::decode(&bytes).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }) && !error.is_damage(), "{error}");
        assert_eq!(
            error.to_string(),
            "the index has format version 2, and this program reads version 1; search all indexed files, or use a newer \
             program"
        );
    }

    #[test]
    fn fields_out_of_range_are_refused_under_a_valid_checksum() {
        for (offset, value) in [(10, 2), (11, 8), (12, 0xff), (16, 0), (43, 0xff), (52, 1)] {
            let mut bytes = header().encode().unwrap();
            if offset == 16 {
                bytes[16..20].fill(0);
            }
            if offset == 12 {
                bytes[11] = 1;
            }
            bytes[offset] = value;
            let end = crc32fast::hash(&bytes[..60]);
            bytes[60..].copy_from_slice(&end.to_le_bytes());
            assert!(matches!(Header::decode(&bytes), Err(Error::DamagedIndex { .. })), "{offset}");
        }
    }
}
