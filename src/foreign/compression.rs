//! Compressed blocks of other engines, unpacked: Snappy, LZ4, Zstd.
//!
//! A length that a file claims is believed only as far as the packed bytes could reach it, and no block becomes longer
//! than [`MAX_BLOCK_LEN_BYTES`].
//!
//! Zstd is ruzstd, in Rust alone: the bindings to the C library want a C compiler wherever the crate is built, and only
//! index blocks and whole-file walks unpack anything.

use std::io::Read;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::foreign::error::{Error, Field, Result};

/// No unpacked block may be longer. The engines' own blocks are a few KiB, and an index of a large file some MiB.
pub const MAX_BLOCK_LEN_BYTES: usize = 256 << 20;

/// A Snappy copy of 3 bytes stands for 64 at most, and a copy of 2 for 11.
const MAX_SNAPPY_EXPANSION: usize = 24;

/// One byte of an LZ4 length stands for 255.
const MAX_LZ4_EXPANSION: usize = 255;

/// A Zstd block of 4 bytes repeats one of them up to 128 KiB.
const MAX_ZSTD_EXPANSION: usize = 32 << 10;

/// The least memory that a Zstd frame may ask for beforehand, whatever its length: what the usual levels ask for.
const MIN_ZSTD_WINDOW_BYTES: usize = 128 << 10;

/// How a block's bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Snappy, without its frame format.
    Snappy,
    /// LZ4 blocks; RocksDB's LZ4HC reads the same.
    Lz4,
    /// One Zstd frame.
    Zstd,
}

impl Codec {
    /// Unpacks `packed`; `len_bytes` is the length that the file gives apart from it, which LZ4 cannot do without.
    /// `offset` is the block's, for errors.
    ///
    /// # Errors
    /// `Corrupt` for bytes that do not unpack, or not to that length.
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

/// Grows as the data comes; gives up beyond `limit` bytes.
fn zstd(packed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(limit.max(MIN_ZSTD_WINDOW_BYTES) as u64);
    let decoder = StreamingDecoder::new_with_decoder(packed, decoder).ok()?;
    let mut unpacked = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() <= limit).then_some(unpacked)
}
