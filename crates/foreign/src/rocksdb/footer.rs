//! Reads the footer of RocksDB's tables, which is their last 53 bytes.
//!
//! ```text
//!                  format version up to 5        from 6 on
//!  0  u8           checksum type                 the same
//!  1  40 bytes     metaindex handle              mark (4)  checksum of the footer (u32)
//!                  index handle, zeros           base context (u32)  length of the metaindex (u32)
//!                                                zeros (24)
//! 41  u32          format version                the same
//! 45  u64          magic                         the same
//! ```
//! From version 6 on, the metaindex and its trailer end where the footer begins, and the metaindex
//! names the index.

use crate::block_checksum::{BlockChecksum, ChecksumKind};
use crate::error::{Error, Field, Result};
use crate::stored::{BlockHandle, TRAILER_LEN_BYTES};
use filterblock::internals::codec::{Cursor, put_u32, u64_from};

/// The magic: the last eight bytes of a block-based table.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEN_BYTES: usize = 53;
const HANDLES_LEN_BYTES: usize = 40;
/// The offset of the footer's checksum within the footer.
const CHECKSUM_AT: usize = 5;
const MARK: [u8; 4] = [0x3e, 0, 0x7a, 0];
/// The number of zeros that this reader does not check. RocksDB does not check the first 16 of the
/// 24 zeros either.
const UNCHECKED_LEN_BYTES: usize = 16;

/// The supported format versions. Versions 0 and 1 compress blocks in another format.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=7;
/// The first version with context checksums.
const FIRST_WITH_CONTEXT: u32 = 6;

pub(crate) fn has_magic(file: &[u8]) -> bool {
    file.last_chunk().is_some_and(|magic| u64_from(magic) == MAGIC)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Footer {
    pub(super) version: u32,
    pub(super) checksum: BlockChecksum,
    pub(super) offset: usize,
    pub(super) metaindex: BlockHandle,
    /// The handle of the index, or `None` if the metaindex names the index.
    pub(super) index: Option<BlockHandle>,
}

impl Footer {
    pub(super) fn read(file: &[u8]) -> Result<Self> {
        let too_short = || Error::Corrupt { field: Field::Length, offset: 0 };
        let offset = file.len().checked_sub(LEN_BYTES).ok_or_else(too_short)?;
        let bytes = file.get(offset..).ok_or_else(too_short)?;
        let mut cursor = Cursor::new(bytes, offset as u64);
        let kind = cursor.take_u8(Field::ChecksumKind)?;
        let handles = cursor.clone();
        cursor.take(HANDLES_LEN_BYTES, Field::Footer)?;
        let version = cursor.take_u32(Field::Version)?;
        let at_magic = cursor.clone();
        // Check the magic first: without it the other fields mean nothing.
        if cursor.take_u64(Field::Magic)? != MAGIC {
            return Err(at_magic.corrupt(Field::Magic).into());
        }
        if !VERSIONS.contains(&version) {
            return Err(Error::Unsupported { field: Field::Version, found: u64::from(version) });
        }
        let unknown = || Error::Unsupported { field: Field::ChecksumKind, found: u64::from(kind) };
        let kind = ChecksumKind::from_rocksdb(kind).ok_or_else(unknown)?;
        if version < FIRST_WITH_CONTEXT {
            let mut handles =
                Cursor::new(handles.rest().get(..HANDLES_LEN_BYTES).unwrap_or_default(), handles.offset());
            let metaindex = BlockHandle::take(&mut handles)?;
            let index = Some(BlockHandle::take(&mut handles)?);
            let checksum = BlockChecksum { kind, base_context: 0 };
            return Ok(Self { version, checksum, offset, metaindex, index });
        }
        Self::with_context(bytes, handles, kind, version, offset)
    }

    fn with_context(
        bytes: &[u8],
        mut cursor: Cursor<'_>,
        kind: ChecksumKind,
        version: u32,
        offset: usize,
    ) -> Result<Self> {
        let start = cursor.clone();
        if cursor.take_array::<4, _>(Field::Footer)? != MARK {
            return Err(start.corrupt(Field::Footer).into());
        }
        let stored = cursor.take_u32(Field::Checksum)?;
        let at_base = cursor.clone();
        let base_context = cursor.take_u32(Field::BaseContext)?;
        if base_context == 0 {
            return Err(at_base.corrupt(Field::BaseContext).into());
        }
        let checksum = BlockChecksum { kind, base_context };
        let computed = checksum.of(&without_checksum(bytes), offset as u64);
        if stored != computed {
            return Err(Error::ChecksumMismatch { field: Field::Footer, offset: offset as u64, stored, computed });
        }
        let at_len = cursor.clone();
        let len_bytes = u64::from(cursor.take_u32(Field::Metaindex)?);
        cursor.take(UNCHECKED_LEN_BYTES, Field::Footer)?;
        let at_zeros = cursor.clone();
        if cursor.take_u64(Field::Footer)? != 0 {
            return Err(at_zeros.corrupt(Field::Footer).into());
        }
        let start = (offset as u64).checked_sub(TRAILER_LEN_BYTES).and_then(|end| end.checked_sub(len_bytes));
        let metaindex = BlockHandle { offset: start.ok_or_else(|| at_len.corrupt(Field::Metaindex))?, len_bytes };
        Ok(Self { version, checksum, offset, metaindex, index: None })
    }
}

/// Returns the bytes that the footer's checksum covers: the footer with zeros in place of the
/// checksum.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut covered = bytes.get(..CHECKSUM_AT).unwrap_or_default().to_vec();
    put_u32(&mut covered, 0);
    covered.extend_from_slice(bytes.get(CHECKSUM_AT + 4..).unwrap_or_default());
    covered
}
