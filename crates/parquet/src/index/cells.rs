//! Tests the bits of cells, which are blocks of Parquet's split-block Bloom filters.

use crate::bloom::ParquetBloom;
use crate::filters::expected_fpr;

/// A cell is one block of a filter.
pub(super) use crate::bloom::{BLOCK_LEN_BYTES as CELL_LEN_BYTES, Block as Cell};

/// Returns the hash of a key: XXH64 with seed 0. For a Parquet value, `key` is the plain encoding:
/// the bytes of a byte array without the length, or the little-endian bytes of a number.
#[must_use]
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    ParquetBloom::hash(key)
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
    use crate::bloom::{ParquetBloomBuilder, block_number, mask, unite};
    use crate::filters::measured_fpr;

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
