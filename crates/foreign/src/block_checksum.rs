//! Computes the checksums of LevelDB's and RocksDB's blocks: CRC-32C, XXH32, XXH64, XXH3 or none.
//!
//! The stored CRC-32C is masked: rotated right by 15 bits, plus a constant. XXH3 is the released
//! XXH3 here, while RocksDB's newer filters hash keys with a preview of XXH3.
//!
//! From format version 6 on, RocksDB adds a number to every checksum, to detect a sound block at
//! the wrong offset. The number depends on the block's offset and on a random number of the file.

use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use filterblock::internals::codec::{u32_from, u64_bytes};

const CRC_MASK: u32 = 0xa282_ead8;
const XXH3_LAST_BYTE: u32 = 0x6b90_83d9;

/// The checksum function of the blocks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// No checksum.
    None,
    /// CRC-32C, masked. LevelDB has no other checksum.
    Crc32c,
    /// XXH32.
    Xxh32,
    /// The low half of XXH64.
    Xxh64,
    /// The low half of XXH3, with the last byte mixed in separately. This is RocksDB's default.
    Xxh3,
}

impl ChecksumKind {
    /// Returns the checksum function with this number in RocksDB's footer. Returns `Option::None`
    /// if the number is unknown.
    pub(crate) fn from_rocksdb(number: u8) -> Option<Self> {
        [Self::None, Self::Crc32c, Self::Xxh32, Self::Xxh64, Self::Xxh3].get(usize::from(number)).copied()
    }
}

/// The checksum function of a file, with the number that makes checksums depend on offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockChecksum {
    pub(crate) kind: ChecksumKind,
    /// The file's random number, or 0 if checksums do not depend on offsets.
    pub(crate) base_context: u32,
}

impl BlockChecksum {
    pub(crate) const LEVELDB: Self = Self { kind: ChecksumKind::Crc32c, base_context: 0 };

    /// Returns the checksum of the block or footer at `offset`. The `bytes` of a block are the
    /// stored content and the compression byte.
    pub(crate) fn of(self, bytes: &[u8], offset: u64) -> u32 {
        self.plain(bytes).wrapping_add(self.context(offset))
    }

    fn plain(self, bytes: &[u8]) -> u32 {
        match self.kind {
            ChecksumKind::None => 0,
            ChecksumKind::Crc32c => masked_crc32c(bytes),
            ChecksumKind::Xxh32 => xxh32(bytes, 0),
            ChecksumKind::Xxh64 => low_half(xxh64(bytes, 0)),
            ChecksumKind::Xxh3 => bytes
                .split_last()
                .map_or(0, |(&last, front)| low_half(xxh3_64(front)) ^ u32::from(last).wrapping_mul(XXH3_LAST_BYTE)),
        }
    }

    fn context(self, offset: u64) -> u32 {
        if self.base_context == 0 {
            return 0;
        }
        self.base_context ^ low_half(offset).wrapping_add(low_half(offset >> 32))
    }
}

pub(crate) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(CRC_MASK)
}

fn low_half(number: u64) -> u32 {
    let [a, b, c, d, ..] = u64_bytes(number);
    u32_from(&[a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(kind: ChecksumKind, bytes: &[u8]) -> u32 {
        BlockChecksum { kind, base_context: 0 }.of(bytes, 77)
    }

    #[test]
    fn checksums_of_known_bytes_are_the_published_ones() {
        // RFC 3720, section B.4.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c::crc32c(&ascending), 0x46dd_794e);
        assert_eq!(plain(ChecksumKind::Crc32c, &ascending), 0x46dd_794e_u32.rotate_right(15).wrapping_add(0xa282_ead8));
        // The sanity checks of xxHash for empty input.
        assert_eq!(plain(ChecksumKind::Xxh32, b""), 0x02cc_5d05);
        assert_eq!(plain(ChecksumKind::Xxh64, b""), 0x51d8_e999);
        // RocksDB defines the checksum 0 for empty input with XXH3, and for any input without a
        // checksum function.
        assert_eq!(plain(ChecksumKind::Xxh3, b""), 0);
        assert_eq!(plain(ChecksumKind::None, b"any"), 0);
    }

    #[test]
    fn context_checksums_depend_on_the_block_offset() {
        let checksum = BlockChecksum { kind: ChecksumKind::None, base_context: 0x8000_0001 };
        assert_eq!(checksum.of(b"x", 0), 0x8000_0001);
        assert_eq!(checksum.of(b"x", 1 << 32 | 2), 0x8000_0001 ^ 3);
        let wrapping = BlockChecksum { kind: ChecksumKind::Crc32c, base_context: u32::MAX };
        assert_eq!(wrapping.of(b"x", 0), masked_crc32c(b"x").wrapping_sub(1));
    }
}
