//! Blocks as LevelDB and RocksDB store them: a handle says where, five bytes behind the content say how.
//!
//! ```text
//! handle  = offset (varint)  length (varint)
//! stored  = content  compression (u8)  checksum (u32)
//! ```
//! The length of a handle is the content's. The checksum is over the content as stored and the compression byte.

use std::ops::Range;

use crate::codec::{Cursor, put_varint, u32_from};
use crate::foreign::error::{Error, Field, Result};

use super::block_checksum::BlockChecksum;

/// What follows a block's content.
pub(crate) const TRAILER_LEN_BYTES: u64 = 5;

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    /// From the start of the file.
    pub(crate) offset: u64,
    /// Without the trailer.
    pub(crate) len_bytes: u64,
}

impl BlockHandle {
    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self { offset: cursor.take_varint(Field::Handle)?, len_bytes: cursor.take_varint(Field::Handle)? })
    }

    /// A handle that is all of `bytes`, or their front.
    pub(crate) fn parse(bytes: &[u8], base: u64) -> Result<Self> {
        Self::take(&mut Cursor::new(bytes, base))
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.len_bytes);
    }

    /// Where the next block may begin; `None` past the end of 64 bits.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len_bytes)?.checked_add(TRAILER_LEN_BYTES)
    }
}

/// A block whose checksum holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredBlock<'a> {
    /// As stored, compressed or not.
    pub(crate) content: &'a [u8],
    pub(crate) compression: u8,
    pub(crate) offset: u64,
}

impl StoredBlock<'_> {
    /// Where the content lies in the file, when a compression byte of 0 says that it is the block itself.
    ///
    /// # Errors
    /// `Unsupported` for a block that no writer compresses.
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

/// A block's content, ready to be read again and again.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// In the file as it is.
    InFile(Range<usize>),
    /// It was compressed.
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

/// What [`verify`](super::rocksdb::RocksDbTable::verify) of a table found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Blocks of all kinds whose checksums hold.
    pub blocks: u64,
    /// Keys in the data blocks, each version counted.
    pub keys: u64,
    /// Keys in the data blocks for which the table answers "no": 0 in a sound one.
    pub denied_keys: u64,
}

/// A file whose blocks all lie before its footer and are summed alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks<'a> {
    /// The file up to its footer.
    bytes: &'a [u8],
    checksum: BlockChecksum,
}

impl<'a> Blocks<'a> {
    /// The blocks before `footer_offset` in `file`.
    pub(crate) fn new(file: &'a [u8], footer_offset: usize, checksum: BlockChecksum) -> Self {
        Self { bytes: file.get(..footer_offset).unwrap_or(file), checksum }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The block that `handle` points to, once its checksum holds; `field` is what an error calls it.
    ///
    /// # Errors
    /// `Corrupt` for a handle that points outside, `ChecksumMismatch`.
    pub(crate) fn read(&self, handle: BlockHandle, field: Field) -> Result<StoredBlock<'a>> {
        let (block, covered, stored) = self.split(handle)?;
        let computed = self.sum(covered, handle);
        if computed != stored {
            return Err(Error::ChecksumMismatch { field, offset: handle.offset, stored, computed });
        }
        Ok(block)
    }

    /// The block that `handle` points to, the bytes that its checksum covers, and the checksum: nothing is compared.
    ///
    /// # Errors
    /// `Corrupt` for a handle that points outside.
    pub(crate) fn split(&self, handle: BlockHandle) -> Result<(StoredBlock<'a>, &'a [u8], u32)> {
        let corrupt = || Error::Corrupt { field: Field::Handle, offset: handle.offset };
        let start = usize::try_from(handle.offset).map_err(|_| corrupt())?;
        let end = handle.end().and_then(|end| usize::try_from(end).ok()).ok_or_else(corrupt)?;
        let stored = self.bytes.get(start..end).ok_or_else(corrupt)?;
        let (covered, sum) = stored.split_last_chunk::<4>().ok_or_else(corrupt)?;
        let (&compression, content) = covered.split_last().ok_or_else(corrupt)?;
        Ok((StoredBlock { content, compression, offset: handle.offset }, covered, u32_from(sum)))
    }

    /// The checksum of a block over `covered`.
    pub(crate) fn sum(&self, covered: &[u8], handle: BlockHandle) -> u32 {
        self.checksum.of(covered, handle.offset)
    }
}
