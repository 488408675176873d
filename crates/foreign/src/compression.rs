//! Decompresses the blocks of other engines, which are compressed by Snappy, LZ4 or Zstd.
//!
//! The Zstd decoder is ruzstd, which is pure Rust. The bindings to Zstd's C library need a C
//! compiler wherever the crate is built. No query decompresses a block.

use std::io::Read;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::error::{Error, Field, Result};

/// The maximum length in bytes to which a compressed block may expand: 256 MiB.
pub const MAX_BLOCK_LEN_BYTES: usize = 256 << 20;

/// An upper limit for the factor by which Snappy expands its input: a copy element of 3 bytes
/// expands to at most 64 bytes.
const MAX_SNAPPY_EXPANSION: usize = 24;

/// An upper limit for the factor by which LZ4 expands its input: one byte of a length adds at most
/// 255 bytes.
const MAX_LZ4_EXPANSION: usize = 255;

/// An upper limit for the factor by which Zstd expands its input: a Zstd block of 4 bytes, which
/// repeats one byte, expands to at most 128 KiB.
const MAX_ZSTD_EXPANSION: usize = 32 << 10;

/// The window size that every Zstd frame may request, even if its uncompressed content is shorter.
const MIN_ZSTD_WINDOW_BYTES: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Raw Snappy, without its frame format.
    Snappy,
    /// One LZ4 block. RocksDB's LZ4HC has the same format.
    Lz4,
    /// One Zstd frame.
    Zstd,
}

impl Codec {
    /// Decompresses `packed`. `len_bytes` is the uncompressed length that the file stores before
    /// the compressed bytes, or `None` if it stores none. LZ4 requires the length, and Snappy
    /// ignores it. `offset` is the block's offset in the file, for errors.
    ///
    /// Refuses a length that exceeds [`MAX_BLOCK_LEN_BYTES`], or to which `packed` cannot expand.
    pub(crate) fn unpack(self, packed: &[u8], len_bytes: Option<u64>, offset: u64) -> Result<Vec<u8>> {
        let corrupt = || Error::Corrupt { field: Field::Compression, offset };
        let (stated, expansion) = match self {
            Self::Snappy => (Some(snap::raw::decompress_len(packed).map_err(|_| corrupt())?), MAX_SNAPPY_EXPANSION),
            Self::Lz4 => (Some(stated_len(len_bytes).ok_or_else(corrupt)?), MAX_LZ4_EXPANSION),
            Self::Zstd => {
                (len_bytes.map(|_| stated_len(len_bytes).ok_or_else(corrupt)).transpose()?, MAX_ZSTD_EXPANSION)
            }
        };
        let limit = packed.len().saturating_mul(expansion).min(MAX_BLOCK_LEN_BYTES);
        if stated.is_some_and(|len| len > limit) {
            return Err(corrupt());
        }
        let unpacked = match self {
            Self::Snappy => snap::raw::Decoder::new().decompress_vec(packed).ok(),
            Self::Lz4 => lz4(packed, stated.unwrap_or_default()),
            Self::Zstd => zstd(packed, stated.unwrap_or(limit)),
        };
        let unpacked = unpacked.ok_or_else(corrupt)?;
        if stated.is_some_and(|len| len != unpacked.len()) { Err(corrupt()) } else { Ok(unpacked) }
    }
}

fn stated_len(len_bytes: Option<u64>) -> Option<usize> {
    usize::try_from(len_bytes?).ok()
}

fn lz4(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut unpacked = vec![0; len];
    let written = lz4_flex::block::decompress_into(packed, &mut unpacked).ok()?;
    unpacked.truncate(written);
    Some(unpacked)
}

/// Decompresses a Zstd frame. Returns `None` for invalid bytes, and for a result of more than
/// `limit` bytes. Also returns `None` for a window that is larger than both `limit` and
/// [`MIN_ZSTD_WINDOW_BYTES`].
fn zstd(packed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(limit.max(MIN_ZSTD_WINDOW_BYTES) as u64);
    let decoder = StreamingDecoder::new_with_decoder(packed, decoder).ok()?;
    let mut unpacked = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() <= limit).then_some(unpacked)
}
