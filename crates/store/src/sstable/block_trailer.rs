//! Seals and unseals data blocks. A sealed block is the stored bytes (the content, compressed or
//! not) and a trailer of five bytes.
//!
//! ```text
//! stored bytes | compression (u8) | CRC-32 (u32)
//! ```
//! The checksum covers the table id, the block's offset in the file (u64), the stored bytes and the
//! compression. A block from another offset, or from a file with another table id, therefore fails
//! its checksum.
//!
//! The stored bytes of a compressed block are the length of its content (u32) and an LZ4 block.

use super::layout::{Compression, TableId};
use crate::checksum::Crc32;
use crate::codec::{put_u32, u32_from, u64_bytes};
use crate::error::{Error, Field, Result};

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

/// Verifies the checksum of a block, and returns the compression and the stored bytes.
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

/// Verifies the block `sealed`, which was read from `offset`, and returns its content. `scratch`
/// receives the content if the block is compressed.
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
