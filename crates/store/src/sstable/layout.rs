//! Defines the layout of an SST file: the footer, the block handles, the sealed data blocks, and the
//! constants of format version 1.
//!
//! ```text
//! data block .. data block | zeros | filter block | index block | properties | footer
//! 0                 data_len        multiple of 4,096                  112 bytes, at the end
//! ```
//! A file without a filter has no zeros either.
//!
//! A sealed data block is the stored bytes (the content, compressed or not) and a trailer of five
//! bytes.
//!
//! ```text
//! stored bytes | compression (u8) | CRC-32 (u32)
//! ```
//! The checksum covers the table id, the block's offset in the file (u64), the stored bytes and the
//! compression. A block from another offset, or from a file with another table id, therefore fails
//! its checksum.
//!
//! The stored bytes of a compressed block are the length of its content (u32) and an LZ4 block.
//!
//! docs/STORE_FORMAT.md is the normative text. A test compares [`FOOTER_FIELDS`] with it.

use crate::checksum::{Crc32, crc32};
use crate::codec::{Cursor, put_u32, put_u64, u32_at, u32_from, u64_bytes};
use crate::error::{Error, Field, Result};

/// The identity of an SST file. The checksum of each data block covers it, and the footer and the
/// filter block store it.
pub type TableId = [u8; 16];

/// The last eight bytes of an SST file. The first byte is not ASCII and the last byte is a newline,
/// so that a transfer in text mode changes the magic and is detected.
pub const MAGIC: [u8; 8] = *b"\x89SORTED\n";

/// The format version of new SST files. It is also the newest version that can be read.
pub const VERSION: u32 = 1;

/// The length of the footer in bytes.
pub const FOOTER_LEN_BYTES: usize = 112;

/// The alignment of a filter block in the file, in bytes: the length of a filter page, and of a
/// memory page on most systems.
pub const FILTER_ALIGNMENT_BYTES: u64 = 4096;

/// The largest length of a key or value that a [`TableWriter`](super::TableWriter) accepts, in
/// bytes: 1 GiB.
pub const MAX_ITEM_LEN_BYTES: usize = 1 << 30;

/// The fields of the footer: the name, the offset in the footer and the length, both in bytes. In
/// every version of the format, format version and magic have the same distance from the end of the
/// file.
pub const FOOTER_FIELDS: [(&str, usize, usize); 16] = [
    ("table id", 0, 16),
    ("data length", 16, 8),
    ("filter offset", 24, 8),
    ("filter length", 32, 8),
    ("index offset", 40, 8),
    ("index length", 48, 8),
    ("properties offset", 56, 8),
    ("properties length", 64, 8),
    ("file length", 72, 8),
    ("filter checksum", 80, 4),
    ("index checksum", 84, 4),
    ("properties checksum", 88, 4),
    ("flags", 92, 4),
    ("format version", 96, 4),
    ("footer checksum", 100, 4),
    ("magic", 104, 8),
];

const VERSION_AT: usize = 96;
const CHECKSUM_AT: usize = 100;

/// Returns whether the last bytes of a file are a footer: they end with the magic, or their
/// checksum matches although the magic is damaged.
pub(crate) fn is_footer(bytes: &[u8; FOOTER_LEN_BYTES]) -> bool {
    let (body, tail) = bytes.split_at(CHECKSUM_AT);
    bytes.ends_with(&MAGIC) || u32_at(tail, 0) == Some(crc32(body))
}

/// The compression of the data blocks of an SST file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored uncompressed.
    #[default]
    None = 1,
    /// Blocks are stored as LZ4 blocks if that makes them shorter.
    Lz4 = 2,
}

impl Compression {
    pub(super) fn from_tag(tag: u8, offset: u64) -> Result<Self> {
        match tag {
            0 => Err(Error::Corrupt { field: Field::Compression, offset }),
            1 => Ok(Self::None),
            2 => Ok(Self::Lz4),
            _ => Err(Error::Unsupported { field: Field::Compression, found: u64::from(tag) }),
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        })
    }
}

/// The position of a part of the file: a data block, the filter block, the index block or the
/// properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Handle {
    /// The offset from the start of the file.
    pub(crate) offset: u64,
    /// The length of the part in bytes. For a data block it includes the trailer.
    pub(super) len_bytes: u64,
}

impl Handle {
    /// Returns the offset of the first byte after the part, or `None` if it exceeds 64 bits.
    pub(super) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len_bytes)
    }

    pub(super) fn len_in_memory(self) -> Result<usize> {
        usize::try_from(self.len_bytes).map_err(|_| Error::Corrupt { field: Field::Handle, offset: self.offset })
    }

    /// Returns a zeroed buffer of the part's length. Returns an error if it does not fit in memory,
    /// because a sparse file may be larger than the memory.
    pub(super) fn room(self) -> Result<Vec<u8>> {
        let too_large = || Error::TooLarge { what: "a block" };
        let len = usize::try_from(self.len_bytes).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| too_large())?;
        bytes.resize(len, 0);
        Ok(bytes)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) table_id: TableId,
    pub(super) data_len_bytes: u64,
    /// The position of the filter block. Its length is 0 in a file without a filter.
    pub(super) filter: Handle,
    pub(super) index: Handle,
    pub(super) properties: Handle,
    pub(super) file_len_bytes: u64,
    /// The checksum in the trailer of the filter block; 0 in a file without a filter. An older
    /// filter of the same SST has another checksum.
    pub(super) filter_checksum: u32,
    pub(super) index_checksum: u32,
    pub(super) properties_checksum: u32,
}

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN_BYTES);
        out.extend_from_slice(&self.table_id);
        put_u64(&mut out, self.data_len_bytes);
        for handle in [self.filter, self.index, self.properties] {
            put_u64(&mut out, handle.offset);
            put_u64(&mut out, handle.len_bytes);
        }
        put_u64(&mut out, self.file_len_bytes);
        put_u32(&mut out, self.filter_checksum);
        put_u32(&mut out, self.index_checksum);
        put_u32(&mut out, self.properties_checksum);
        put_u32(&mut out, 0);
        put_u32(&mut out, VERSION);
        let checksum = crc32(&out);
        put_u32(&mut out, checksum);
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Checks magic, version, checksum and flags, and that the parts fill the file.
    pub(super) fn decode(bytes: &[u8; FOOTER_LEN_BYTES], file_len_bytes: u64) -> Result<Self> {
        let base = file_len_bytes.saturating_sub(FOOTER_LEN_BYTES as u64);
        if !bytes.ends_with(&MAGIC) {
            return Err(Error::Corrupt { field: Field::Magic, offset: file_len_bytes - MAGIC.len() as u64 });
        }
        // In every version of the format, format version and magic have the same distance from the
        // end of the file. A newer version may move all other fields.
        let (body, tail) = bytes.split_at(CHECKSUM_AT);
        let version_bytes = body.get(VERSION_AT..).unwrap_or_default();
        let version = Cursor::new(version_bytes, base + VERSION_AT as u64).take_u32(Field::Version)?;
        if version > VERSION {
            // If the checksum matches with version 1 in place of the stored version, then only the
            // version is damaged.
            let body = body.strip_suffix(version_bytes).unwrap_or_default();
            let restored = Crc32::new().with(body).with(&VERSION.to_le_bytes()).finish();
            if tail.starts_with(&restored.to_le_bytes()) {
                return Err(Error::Corrupt { field: Field::Version, offset: base + VERSION_AT as u64 });
            }
            return Err(Error::Unsupported { field: Field::Version, found: u64::from(version) });
        }
        let stored = Cursor::new(tail, base + CHECKSUM_AT as u64).take_u32(Field::Checksum)?;
        let computed = crc32(body);
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::Footer, offset: base, stored, computed });
        }
        if version == 0 {
            return Err(Error::Corrupt { field: Field::Version, offset: base + VERSION_AT as u64 });
        }
        let mut cursor = Cursor::new(body, base);
        let footer = Self::decode_fields(&mut cursor)?;
        footer.check_places(base, file_len_bytes)?;
        Ok(footer)
    }

    /// Decodes the fields. It checks the flags, but no other value.
    pub(super) fn decode_fields(cursor: &mut Cursor<'_>) -> Result<Self> {
        let handle = |cursor: &mut Cursor<'_>| -> Result<Handle> {
            Ok(Handle { offset: cursor.take_u64(Field::Handle)?, len_bytes: cursor.take_u64(Field::Handle)? })
        };
        let footer = Self {
            table_id: cursor.take_array(Field::TableId)?,
            data_len_bytes: cursor.take_u64(Field::Length)?,
            filter: handle(cursor)?,
            index: handle(cursor)?,
            properties: handle(cursor)?,
            file_len_bytes: cursor.take_u64(Field::Length)?,
            filter_checksum: cursor.take_u32(Field::Checksum)?,
            index_checksum: cursor.take_u32(Field::Checksum)?,
            properties_checksum: cursor.take_u32(Field::Checksum)?,
        };
        match cursor.take_u32(Field::Flags)? {
            0 => Ok(footer),
            unknown => Err(Error::Unsupported { field: Field::Flags, found: u64::from(unknown) }),
        }
    }

    /// Only the zeros before a filter may lie between two parts.
    fn check_places(&self, base: u64, file_len_bytes: u64) -> Result<()> {
        let corrupt = |field, name: &str| {
            let at = FOOTER_FIELDS.iter().find(|f| f.0 == name).map_or(0, |f| f.1 as u64);
            Err(Error::Corrupt { field, offset: base + at })
        };
        if self.file_len_bytes != file_len_bytes {
            return corrupt(Field::Length, "file length");
        }
        // After this check, the data ends inside the file, so the rounding cannot overflow.
        if self.data_len_bytes > base {
            return corrupt(Field::Length, "data length");
        }
        let filter_offset = match self.filter.len_bytes {
            0 => self.data_len_bytes,
            _ => self.data_len_bytes.next_multiple_of(FILTER_ALIGNMENT_BYTES),
        };
        if self.filter.offset != filter_offset {
            return corrupt(Field::Handle, "filter offset");
        }
        if self.filter.end() != Some(self.index.offset) {
            return corrupt(Field::Handle, "index offset");
        }
        if self.index.end() != Some(self.properties.offset) {
            return corrupt(Field::Handle, "properties offset");
        }
        if self.properties.end() != Some(base) {
            return corrupt(Field::Handle, "properties length");
        }
        Ok(())
    }
}

/// The length of the trailer of a data block in bytes.
pub const BLOCK_TRAILER_LEN_BYTES: usize = 5;

/// The maximum number of bytes to which LZ4 expands one byte. Before the reader allocates memory,
/// it rejects a stored content length above this multiple of the LZ4 block's length.
const MAX_EXPANSION: usize = 255;

fn checksum(table_id: &TableId, offset: u64, covered: &[u8]) -> u32 {
    block_checksum(table_id, offset).with(covered).finish()
}

/// Returns the checksum of the block at `offset` before its stored bytes are added. The checksum
/// covers the table id and the offset so far.
pub(super) fn block_checksum(table_id: &TableId, offset: u64) -> Crc32 {
    Crc32::new().with(table_id).with(&u64_bytes(offset))
}

/// Appends a block to `out`: the content and the trailer. Compresses the content if `compression`
/// says so and [`put_compressed`] can. `offset` is the offset of the block in the file.
pub(super) fn seal(out: &mut Vec<u8>, content: &[u8], compression: Compression, table_id: &TableId, offset: u64) {
    let start = out.len();
    let stored_as = match compression {
        Compression::Lz4 if put_compressed(out, content) => Compression::Lz4,
        _ => {
            out.extend_from_slice(content);
            Compression::None
        }
    };
    out.push(stored_as as u8);
    let checksum = checksum(table_id, offset, out.get(start..).unwrap_or_default());
    put_u32(out, checksum);
}

/// Appends the length of `content` and its LZ4 block to `out`, and returns `true`. Appends nothing
/// and returns `false` if both together are not shorter than `content`, or if `content` has 4 GiB
/// or more.
fn put_compressed(out: &mut Vec<u8>, content: &[u8]) -> bool {
    let start = out.len();
    let Ok(content_len) = u32::try_from(content.len()) else { return false };
    put_u32(out, content_len);
    let packed_at = out.len();
    out.resize(packed_at + lz4_flex::block::get_maximum_output_size(content.len()), 0);
    let packed_len = lz4_flex::block::compress_into(content, out.get_mut(packed_at..).unwrap_or_default());
    match packed_len {
        Ok(len) if 4 + len < content.len() => {
            out.truncate(packed_at + len);
            true
        }
        _ => {
            out.truncate(start);
            false
        }
    }
}

fn check<'a>(sealed: &'a [u8], table_id: &TableId, offset: u64) -> Result<(Compression, &'a [u8])> {
    let corrupt = || Error::Corrupt { field: Field::DataBlock, offset };
    let (covered, checksum_bytes) = sealed.split_last_chunk::<4>().ok_or_else(corrupt)?;
    let (&tag, stored) = covered.split_last().ok_or_else(corrupt)?;
    let (stored_checksum, computed) = (u32_from(checksum_bytes), checksum(table_id, offset, covered));
    if stored_checksum != computed {
        return Err(Error::ChecksumMismatch { field: Field::DataBlock, offset, stored: stored_checksum, computed });
    }
    Ok((Compression::from_tag(tag, offset)?, stored))
}

fn unpack(stored: &[u8], offset: u64, content: &mut Vec<u8>) -> Result<()> {
    let corrupt = || Error::Corrupt { field: Field::DataBlock, offset };
    let (content_len, packed) = stored.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let content_len = usize::try_from(u32_from(content_len)).map_err(|_| corrupt())?;
    if content_len > packed.len().saturating_mul(MAX_EXPANSION) {
        return Err(corrupt());
    }
    content.clear();
    content.resize(content_len, 0);
    match lz4_flex::block::decompress_into(packed, content) {
        Ok(len) if len == content_len => Ok(()),
        _ => Err(corrupt()),
    }
}

/// `offset` is that of the block in the file. `scratch` receives the content of a compressed block.
pub(super) fn unseal<'a>(
    sealed: &'a [u8],
    table_id: &TableId,
    offset: u64,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let (compression, stored) = check(sealed, table_id, offset)?;
    match compression {
        Compression::None => Ok(stored),
        Compression::Lz4 => unpack(stored, offset, scratch).map(|()| scratch.as_slice()),
    }
}

/// Returns the same content as [`unseal`], in a vector that the caller keeps.
pub(super) fn unseal_owned(mut sealed: Vec<u8>, table_id: &TableId, offset: u64) -> Result<Vec<u8>> {
    let (compression, stored) = check(&sealed, table_id, offset)?;
    match compression {
        Compression::None => {
            sealed.truncate(sealed.len() - BLOCK_TRAILER_LEN_BYTES);
            Ok(sealed)
        }
        Compression::Lz4 => {
            let mut content = Vec::new();
            unpack(stored, offset, &mut content)?;
            Ok(content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            table_id: *b"0123456789abcdef",
            data_len_bytes: 100,
            filter: Handle { offset: 4096, len_bytes: 192 },
            index: Handle { offset: 4288, len_bytes: 30 },
            properties: Handle { offset: 4318, len_bytes: 82 },
            file_len_bytes: 4400 + FOOTER_LEN_BYTES as u64,
            filter_checksum: 1,
            index_checksum: 2,
            properties_checksum: 3,
        }
    }

    fn decode(bytes: &[u8], file_len_bytes: u64) -> Result<Footer> {
        Footer::decode(bytes.first_chunk().unwrap(), file_len_bytes)
    }

    #[test]
    fn footer_round_trips_and_its_fields_fill_it() {
        let bytes = footer().encode();
        assert_eq!(bytes.len(), FOOTER_LEN_BYTES);
        assert_eq!(decode(&bytes, 4512).unwrap(), footer());
        let end = FOOTER_FIELDS.iter().fold(0, |at, &(name, offset, len)| {
            assert_eq!(at, offset, "{name}");
            offset + len
        });
        assert_eq!(end, FOOTER_LEN_BYTES);
    }

    #[test]
    fn handles_with_overlap_or_gap_or_past_the_file_are_refused() {
        let edits: [fn(&mut Footer); 9] = [
            |f| f.data_len_bytes = u64::MAX,
            |f| f.data_len_bytes = 4097,
            |f| f.filter.offset = 8192,
            |f| f.filter.len_bytes = 0,
            |f| f.filter.len_bytes = u64::MAX,
            |f| f.index.offset -= 1,
            |f| f.index.len_bytes = u64::MAX,
            |f| f.properties.len_bytes += 1,
            |f| f.file_len_bytes += 1,
        ];
        for (i, edit) in edits.iter().enumerate() {
            let mut bad = footer();
            edit(&mut bad);
            assert!(matches!(decode(&bad.encode(), 4512), Err(Error::Corrupt { .. })), "edit {i}");
        }
    }

    #[test]
    fn a_newer_version_is_unsupported() {
        let mut bytes = footer().encode();
        bytes[VERSION_AT] = 2;
        assert!(matches!(decode(&bytes, 4512), Err(Error::Corrupt { field: Field::Version, .. })), "damaged version");
        bytes[CHECKSUM_AT] ^= 1;
        let error = decode(&bytes, 4512).unwrap_err();
        assert!(error.is_unsupported() && !error.is_damage(), "{error}");
        assert!(matches!(decode(&bytes, 4512), Err(Error::Unsupported { field: Field::Version, found: 2 })));
    }

    const ID: TableId = *b"0123456789abcdef";

    #[test]
    fn a_block_is_refused_if_moved_or_with_any_bit_flipped() {
        for (content, compression) in [
            (vec![b'a'; 500], Compression::Lz4),
            ((0..=255).collect::<Vec<u8>>(), Compression::Lz4),
            (vec![b'a'; 50], Compression::None),
        ] {
            let mut sealed = Vec::new();
            seal(&mut sealed, &content, compression, &ID, 7);
            assert!(sealed.len() <= content.len() + BLOCK_TRAILER_LEN_BYTES);
            assert_eq!(unseal(&sealed, &ID, 7, &mut Vec::new()).unwrap(), content);
            assert_eq!(unseal_owned(sealed.clone(), &ID, 7).unwrap(), content);
            assert!(unseal_owned(sealed.clone(), &ID, 8).is_err());
            assert!(unseal_owned(sealed.clone(), &[0; 16], 7).is_err());
            for bit in 0..sealed.len() * 8 {
                sealed[bit / 8] ^= 1 << (bit % 8);
                assert!(unseal(&sealed, &ID, 7, &mut Vec::new()).is_err());
                sealed[bit / 8] ^= 1 << (bit % 8);
            }
            for len in 0..sealed.len() {
                assert!(unseal(&sealed[..len], &ID, 7, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn a_false_length_or_tag_under_a_valid_checksum_is_refused() {
        let reseal = |stored: &[u8], tag: u8| {
            let mut sealed = [stored, &[tag]].concat();
            let checksum = checksum(&ID, 0, &sealed);
            put_u32(&mut sealed, checksum);
            sealed
        };
        let huge = reseal(&[0xff, 0xff, 0xff, 0xff, 0x10, b'a'], 2);
        assert!(matches!(unseal_owned(huge, &ID, 0), Err(Error::Corrupt { field: Field::DataBlock, .. })));
        let unknown = reseal(b"abc", 3);
        assert!(matches!(unseal_owned(unknown, &ID, 0), Err(Error::Unsupported { field: Field::Compression, .. })));
    }
}
