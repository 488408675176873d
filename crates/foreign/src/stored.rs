//! Reads blocks in the form in which LevelDB and RocksDB store them. A handle locates a block, and
//! a trailer of five bytes follows the content.
//!
//! ```text
//! handle  = offset (varint)  length (varint)
//! stored  = content  compression (u8)  checksum (u32)
//! ```
//! The length in a handle is the length of the content. The checksum covers the stored content and
//! the compression byte.

use std::ops::Range;

use crate::error::{Error, Field, Result};
use filterblock::internals::codec::{Cursor, put_varint, u32_from};

use super::block_checksum::BlockChecksum;

/// The length of a block's trailer, which is the compression byte and the checksum.
pub(crate) const TRAILER_LEN_BYTES: u64 = 5;

/// The location of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    /// The offset from the start of the file.
    pub(crate) offset: u64,
    /// The length without the trailer.
    pub(crate) len_bytes: u64,
}

impl BlockHandle {
    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self { offset: cursor.take_varint(Field::Handle)?, len_bytes: cursor.take_varint(Field::Handle)? })
    }

    /// Parses a handle at the start of `bytes`, which begin at offset `base` of the file.
    pub(crate) fn parse(bytes: &[u8], base: u64) -> Result<Self> {
        Self::take(&mut Cursor::new(bytes, base))
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.len_bytes);
    }

    /// Returns the file offset after the block and its trailer, or `None` if the offset exceeds 64
    /// bits.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len_bytes)?.checked_add(TRAILER_LEN_BYTES)
    }
}

/// A block as it is stored, without its checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredBlock<'a> {
    /// The stored content, compressed or not.
    pub(crate) content: &'a [u8],
    pub(crate) compression: u8,
    pub(crate) offset: u64,
}

impl StoredBlock<'_> {
    /// Returns the range of the content in the file, or an error if the block is compressed.
    pub(crate) fn plain_range(&self) -> Result<Range<usize>> {
        if self.compression != 0 {
            return Err(Error::Unsupported { field: Field::Compression, found: u64::from(self.compression) });
        }
        let start = usize::try_from(self.offset).map_err(|_| self.corrupt())?;
        Ok(start..start + self.content.len())
    }

    fn corrupt(&self) -> Error {
        Error::Corrupt { field: Field::Handle, offset: self.offset }
    }
}

/// The uncompressed content of a block.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// The content lies uncompressed in the file.
    InFile(Range<usize>),
    /// The content was compressed in the file.
    Unpacked(Vec<u8>),
}

impl Content {
    pub(crate) fn of<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        match self {
            Self::InFile(range) => file.get(range.clone()).unwrap_or_default(),
            Self::Unpacked(content) => content,
        }
    }
}

/// The result of [`LevelDbTable::verify`](super::leveldb::LevelDbTable::verify) and
/// [`RocksDbTable::verify`](super::rocksdb::RocksDbTable::verify).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The number of verified blocks. The checksum type "none" detects no damage.
    pub blocks: u64,
    /// The number of keys in the data blocks. Each version of a key counts.
    pub keys: u64,
    /// The number of keys in the data blocks for which the table answers "absent". In a sound table
    /// it is 0, with two exceptions. A LevelDB table may have another comparator than the bytewise
    /// one, or its keys may be read in the wrong form.
    pub denied_keys: u64,
}

/// The blocks of a file. All lie before its footer and have the same checksum function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks<'a> {
    /// The file up to its footer.
    bytes: &'a [u8],
    checksum: BlockChecksum,
}

impl<'a> Blocks<'a> {
    /// Returns the blocks before `footer_offset` in `file`.
    pub(crate) fn new(file: &'a [u8], footer_offset: usize, checksum: BlockChecksum) -> Self {
        Self { bytes: file.get(..footer_offset).unwrap_or(file), checksum }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the block at `handle` after verifying its checksum. A checksum error names `field`.
    pub(crate) fn read(&self, handle: BlockHandle, field: Field) -> Result<StoredBlock<'a>> {
        let (block, covered, stored) = self.split(handle)?;
        let computed = self.checksum_of(covered, handle);
        if computed != stored {
            return Err(Error::ChecksumMismatch { field, offset: handle.offset, stored, computed });
        }
        Ok(block)
    }

    /// Returns the block at `handle`, the bytes that its checksum covers, and the stored checksum.
    /// It does not verify the checksum.
    pub(crate) fn split(&self, handle: BlockHandle) -> Result<(StoredBlock<'a>, &'a [u8], u32)> {
        let corrupt = || Error::Corrupt { field: Field::Handle, offset: handle.offset };
        let start = usize::try_from(handle.offset).map_err(|_| corrupt())?;
        let end = handle.end().and_then(|end| usize::try_from(end).ok()).ok_or_else(corrupt)?;
        let stored = self.bytes.get(start..end).ok_or_else(corrupt)?;
        let (covered, checksum) = stored.split_last_chunk::<4>().ok_or_else(corrupt)?;
        let (&compression, content) = covered.split_last().ok_or_else(corrupt)?;
        Ok((StoredBlock { content, compression, offset: handle.offset }, covered, u32_from(checksum)))
    }

    /// Computes the checksum of the bytes `covered` for a block that is stored at `handle`.
    pub(crate) fn checksum_of(&self, covered: &[u8], handle: BlockHandle) -> u32 {
        self.checksum.of(covered, handle.offset)
    }
}
