//! The checksums of blocks: CRC-32C, XXH32, XXH64, XXH3 or none, and the place of the block in the file.
//!
//! CRC-32C is the polynomial of Castagnoli, not that of the crate's own files, and is stored masked: turned right by 15
//! bits, and a constant added, so that the sum of bytes that hold sums does not come out even. XXH3 is the released one
//! here, though RocksDB's filters hash keys with a preview of it.
//!
//! From format version 6 on RocksDB adds a number made of the block's offset and of one drawn for each file to every
//! sum, so that a sound block in the wrong place is noticed.

use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use crate::codec::{u32_from, u64_bytes};

const CRC_MASK: u32 = 0xa282_ead8;
const XXH3_LAST_BYTE: u32 = 0x6b90_83d9;

/// How the blocks of a file are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// Not at all.
    None,
    /// CRC-32C, masked. LevelDB has no other.
    Crc32c,
    /// XXH32.
    Xxh32,
    /// The low half of XXH64.
    Xxh64,
    /// The low half of XXH3, and the last byte apart: what RocksDB writes by itself.
    Xxh3,
}

impl ChecksumKind {
    /// By the number in RocksDB's footer.
    pub(crate) fn from_rocksdb(number: u8) -> Option<Self> {
        [Self::None, Self::Crc32c, Self::Xxh32, Self::Xxh64, Self::Xxh3].get(usize::from(number)).copied()
    }
}

/// The checksum kind of a file, with what its blocks' places add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockChecksum {
    pub(crate) kind: ChecksumKind,
    /// 0 where places add nothing.
    pub(crate) base_context: u32,
}

impl BlockChecksum {
    /// LevelDB's.
    pub(crate) const LEVELDB: Self = Self { kind: ChecksumKind::Crc32c, base_context: 0 };

    /// The sum of `bytes`, which end with the compression byte, of the block at `offset`.
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

/// CRC-32C in the form that files hold.
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
    fn sums_of_known_bytes_are_those_published() {
        // RFC 3720, B.4.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c::crc32c(&ascending), 0x46dd_794e);
        assert_eq!(plain(ChecksumKind::Crc32c, &ascending), 0x46dd_794e_u32.rotate_right(15).wrapping_add(0xa282_ead8));
        // xxHash's own sanity checks of empty input.
        assert_eq!(plain(ChecksumKind::Xxh32, b""), 0x02cc_5d05);
        assert_eq!(plain(ChecksumKind::Xxh64, b""), 0x51d8_e999);
        assert_eq!(plain(ChecksumKind::Xxh3, b""), 0);
        assert_eq!(plain(ChecksumKind::None, b"any"), 0);
    }

    #[test]
    fn a_place_adds_to_the_sum_wherever_a_base_was_drawn() {
        let sum = BlockChecksum { kind: ChecksumKind::None, base_context: 0x8000_0001 };
        assert_eq!(sum.of(b"x", 0), 0x8000_0001);
        assert_eq!(sum.of(b"x", 1 << 32 | 2), 0x8000_0001 ^ 3);
        let wrapping = BlockChecksum { kind: ChecksumKind::Crc32c, base_context: u32::MAX };
        assert_eq!(wrapping.of(b"x", 0), masked_crc32c(b"x").wrapping_sub(1));
    }
}
