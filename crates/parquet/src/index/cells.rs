//! Sets and tests the bits of cells, which are blocks of Parquet's split-block Bloom filters.
//! Computes FPRs and numbers of blocks.

use crate::ParquetBloom;

use super::layout::CELL_LEN_BYTES;

/// The bytes of one block: eight lanes of 32 bits.
pub(super) type Cell = [u8; CELL_LEN_BYTES];

/// The multipliers of the lanes (BloomFilter.md of Apache Parquet).
const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// Returns the hash of a key: XXH64 with seed 0. For a Parquet value, `key` is the plain encoding:
/// the bytes of a byte array without the length, or the little-endian bytes of a number.
#[must_use]
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    ParquetBloom::hash(key)
}

/// Returns the number of a key's block in a filter of `blocks` blocks. `blocks` is at most 2^32.
#[inline]
pub(super) fn block_number(hash: u64, blocks: u64) -> u64 {
    ((hash >> 32) * blocks) >> 32
}

/// Returns a cell in which only the eight bits of a key are set.
#[inline]
pub(super) fn mask(hash: u64) -> Cell {
    let mut mask = [0; CELL_LEN_BYTES];
    #[expect(clippy::cast_possible_truncation, reason = "only the low half chooses bits")]
    let low = hash as u32;
    for (lane, salt) in mask.as_chunks_mut::<4>().0.iter_mut().zip(SALT) {
        *lane = (1u32 << (low.wrapping_mul(salt) >> 27)).to_le_bytes();
    }
    mask
}

/// Returns whether `cell` has all bits of `mask`. The fold has no branch, so the compiler can use
/// vector operations.
#[inline(always)]
pub(super) fn has_all(cell: &Cell, mask: &Cell) -> bool {
    cell.iter().zip(mask).fold(0, |missing, (cell, mask)| missing | (!cell & mask)) == 0
}

/// Calls `each` with the number of every cell that has all bits of `mask`.
///
/// The cells are tested 64 at a time, without a branch for each cell.
#[inline]
pub(super) fn for_each_with_all(row: &[Cell], mask: &Cell, mut each: impl FnMut(usize)) {
    for (group, cells) in row.chunks(64).enumerate() {
        let mut found = 0u64;
        for (i, cell) in cells.iter().enumerate() {
            found |= u64::from(has_all(cell, mask)) << i;
        }
        while found != 0 {
            each(group * 64 + found.trailing_zeros() as usize);
            found &= found - 1;
        }
    }
}

/// Adds the bits of `more` to `cell`.
#[inline]
pub(super) fn unite(cell: &mut Cell, more: &Cell) {
    cell.iter_mut().zip(more).for_each(|(byte, more)| *byte |= more);
}

/// Returns the expected FPR of a filter with `keys` distinct keys in `blocks` blocks.
///
/// For two or more blocks, the formula takes the number of keys in a block from a Poisson
/// distribution. This distribution is close to the exact binomial one if there are many blocks.
#[must_use]
pub fn expected_fpr(keys: u64, blocks: u64) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    if blocks <= 1 {
        return covered(keys as f64);
    }
    let mean = keys as f64 / blocks as f64;
    // With a mean of more than 600 keys per block, nearly all bits are set.
    if mean > 600.0 {
        return 1.0;
    }
    let (mut weight, mut fpr, mut sum) = ((-mean).exp(), 0.0, 0.0);
    let last = mean + 12.0 * mean.sqrt() + 40.0;
    let mut in_block = 0.0;
    while in_block <= last {
        fpr += weight * covered(in_block);
        sum += weight;
        in_block += 1.0;
        weight *= mean / in_block;
    }
    (fpr + (1.0 - sum).max(0.0)).min(1.0)
}

/// Returns the FPR of a block with this number of keys.
fn covered(keys: f64) -> f64 {
    (1.0 - (31.0f64 / 32.0).powf(keys)).powi(8)
}

/// Returns the FPR of a filter for random absent keys, computed from the set bits of its blocks.
/// Returns 0 if there are no blocks.
#[must_use]
pub fn measured_fpr(blocks: &[[u8; 32]]) -> f64 {
    let of_block = |block: &Cell| -> f64 {
        let lanes = block.as_chunks::<4>().0;
        lanes.iter().map(|lane| f64::from(u32::from_le_bytes(*lane).count_ones()) / 32.0).product()
    };
    blocks.iter().map(of_block).sum::<f64>() / blocks.len().max(1) as f64
}

/// Returns a number of blocks at and above which `keys` distinct keys have an expected FPR of at
/// most `fpr`. Returns `max` if no smaller number suffices. One block may have a lower FPR than two
/// blocks, so the number is not always the smallest.
pub(super) fn blocks_for(keys: u64, fpr: f64, max: u64) -> u64 {
    let (mut low, mut high) = (1, max);
    while low < high {
        let middle = low + (high - low) / 2;
        if expected_fpr(keys, middle) <= fpr {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation)]

    use super::*;
    use crate::ParquetBloomBuilder;

    #[test]
    fn cells_are_the_blocks_of_parquets_filter() {
        for blocks in [1u64, 7, 8, 100] {
            let mut expected = ParquetBloomBuilder::with_blocks(blocks as usize).unwrap();
            let mut cells = vec![[0; CELL_LEN_BYTES]; blocks as usize];
            for key in 0..500u64 {
                expected.add(&key.to_le_bytes());
                let hash = hash(&key.to_le_bytes());
                unite(&mut cells[block_number(hash, blocks) as usize], &mask(hash));
            }
            let bytes = expected.finish();
            assert_eq!(ParquetBloom::parse(&bytes).unwrap().bits(), cells.as_flattened(), "{blocks}");
        }
    }

    #[test]
    fn sizes_keep_the_rate_and_one_block_less_does_not() {
        for (keys, fpr) in [(10_000, 0.01), (10_000, 1e-4), (37, 0.05), (1_000_000, 0.001)] {
            let blocks = blocks_for(keys, fpr, 1 << 31);
            assert!(expected_fpr(keys, blocks) <= fpr && expected_fpr(keys, blocks - 1) > fpr, "{keys} {fpr}");
        }
        assert_eq!(blocks_for(0, 0.01, 9), 1);
        assert_eq!(blocks_for(u64::MAX, 1e-9, 9), 9);
    }

    #[test]
    fn measured_and_expected_rates_agree() {
        let (keys, blocks) = (20_000, 800);
        let mut cells = vec![[0; CELL_LEN_BYTES]; blocks as usize];
        for key in 0..keys {
            let hash = hash(&u64::to_le_bytes(key));
            unite(&mut cells[block_number(hash, blocks) as usize], &mask(hash));
        }
        let (measured, expected) = (measured_fpr(&cells), expected_fpr(keys, blocks));
        assert!((measured / expected - 1.0).abs() < 0.05, "{measured} {expected}");
        let found = (keys..keys + 200_000).filter(|key| {
            let hash = hash(&key.to_le_bytes());
            has_all(&cells[block_number(hash, blocks) as usize], &mask(hash))
        });
        let found = found.count() as f64 / 200_000.0;
        assert!((found / expected - 1.0).abs() < 0.15, "{found} {expected}");
    }
}
