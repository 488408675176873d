//! Reads and builds RocksDB's ribbon filter, `Standard128Ribbon`. Its layout is that of
//! [`FilterKind::Ribbon`](filterblock::FilterKind), but the rows of keys are computed in another way.
//!
//! Each block of 128 slots has a word of 128 bits for each column. The first blocks can have one
//! column less than the other blocks.

mod build;

use super::kind::{RIBBON, RocksDbFilterKind};
use crate::ForeignFilterInfo;
use filterblock::internals::codec::u32_from;
use filterblock_simd::reduce;
use filterblock_simd::ribbon::{Layout, Row};
use filterblock_simd::{Isa, kernels, prefetch};

pub(super) use build::RibbonSizes;

/// The number of slots in a block, which is also the number of coefficients in a row.
const BLOCK_SLOTS: u64 = 128;
const WORD_LEN_BYTES: usize = 16;
/// The maximum number of columns. A row's fingerprint has one bit per column.
const MAX_COLUMNS: u64 = 32;

/// The factor that spreads the bits of a seed number.
const SEED_MIX: u64 = 0xc782_19a2_3eea_dd03;
/// The factor that mixes the XOR of a key's hash and the seed.
const HASH_MIX: u64 = 0x6193_d459_236a_3a0d;
/// The factor for the mixed hash. The product gives the coefficients and the fingerprint.
const ROW_MIX: u64 = 0xc28f_8282_2b65_0bed;
/// The constant that makes the lower half of the coefficients differ from the upper half.
const LOW_HALF: u64 = 0xc367_844a_6e52_731d;

/// Computes the row of each key under one seed: the start, the coefficients and the fingerprint of
/// the key's equation. There are `starts` possible starts.
#[derive(Debug, Clone, Copy)]
struct Rows {
    seed: u64,
    starts: u64,
}

impl Rows {
    /// Prepares the rows under the seed with this number.
    fn new(seed: u8, starts: u64) -> Self {
        let mixed = u64::from(seed).wrapping_mul(SEED_MIX);
        let mixed = mixed ^ (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
        Self { seed: mixed & u64::from(u32::MAX), starts }
    }

    #[inline]
    fn mixed(self, hash: u64) -> u64 {
        (hash ^ self.seed).wrapping_mul(HASH_MIX)
    }

    #[inline]
    fn start(self, hash: u64) -> u64 {
        reduce(self.mixed(hash), self.starts)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the low half is used")]
    fn of(self, hash: u64) -> Row {
        let mixed = self.mixed(hash).wrapping_mul(ROW_MIX);
        Row {
            start: self.start(hash),
            coefficients: u128::from(mixed) << 64 | u128::from(mixed ^ LOW_HALF) | 1,
            fingerprint: mixed.swap_bytes() as u32,
        }
    }
}

kernels! {
    struct Kernel[];
    |simd|

    /// Returns whether the payload gives the row's fingerprint.
    fn holds(layout: &Layout, payload: &[u8], row: &Row) -> bool {
        layout.holds(simd, payload, row)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ribbon<'a> {
    payload: &'a [u8],
    rows: Rows,
    layout: Layout,
    blocks: u64,
    columns: u64,
    narrow: u64,
    seed: u8,
    kernel: Kernel,
}

impl<'a> Ribbon<'a> {
    /// Returns the filter in `payload`, or `None` for fewer than two blocks.
    ///
    /// The number of columns is the number of words in the payload divided by the number of blocks,
    /// rounded up. Words beyond 32 columns are ignored.
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 columns")]
    pub(super) fn new(payload: &'a [u8], seed: u8, blocks: [u8; 3]) -> Option<Self> {
        let [low, middle, high] = blocks;
        let blocks = u64::from(u32_from(&[low, middle, high, 0]));
        if blocks < 2 {
            return None;
        }
        let words = ((payload.len() / WORD_LEN_BYTES) as u64).min(blocks * MAX_COLUMNS);
        let columns = words.div_ceil(blocks);
        let narrow = columns * blocks - words;
        let layout = Layout { columns: columns as u32, narrow, blocks, seed: 0 };
        let rows = Rows::new(seed, layout.starts());
        Some(Self { payload, rows, layout, blocks, columns, narrow, seed, kernel: Kernel::new(Isa::detect()) })
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let (offset, _) = self.layout.block(self.rows.start(hash) / BLOCK_SLOTS);
        prefetch(self.payload, offset);
        // A query of two blocks with seven columns each reads four or five cache lines. The method
        // prefetches the first and the third line, because many processors also fetch the next
        // line.
        prefetch(self.payload, offset + 2 * 64);
    }

    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let row = self.rows.of(hash);
        // A block without columns answers "maybe" to every key.
        if self.columns < 2 && self.layout.block(row.start / BLOCK_SLOTS).1 == 0 {
            return true;
        }
        self.kernel.holds(&self.layout, self.payload, &row)
    }

    pub(super) fn info(&self, len: usize) -> ForeignFilterInfo {
        let Self { blocks, columns, narrow, .. } = *self;
        let starts = self.layout.starts() as f64;
        let in_narrow = ((narrow * BLOCK_SLOTS) as f64).min(starts) / starts;
        // Each column halves the false-positive rate.
        let rate = |columns: f64| (-columns).exp2();
        let (wide, less) = (rate(columns as f64), rate(columns.saturating_sub(1) as f64));
        ForeignFilterInfo {
            payload_len_bytes: self.payload.len() as u64,
            blocks: Some(blocks),
            columns: Some(columns as f64 - narrow as f64 / blocks as f64),
            seed: Some(self.seed.into()),
            estimated_keys: Some(build::most_keys(blocks * BLOCK_SLOTS) as f64),
            ..ForeignFilterInfo::constant(
                RocksDbFilterKind::Ribbon128.name(),
                len,
                in_narrow * less + (1.0 - in_narrow) * wide,
            )
        }
    }
}

/// Returns the trailer of a ribbon filter.
#[expect(clippy::cast_possible_truncation, reason = "splits a number into bytes")]
fn trailer(seed: u8, blocks: u32) -> [u8; 5] {
    [RIBBON, seed, blocks as u8, (blocks >> 8) as u8, (blocks >> 16) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_key_are_those_of_rocksdb() {
        let hash = crate::xxph3::hash(b"key-00000000");
        for (seed, mixed, start, coefficients, fingerprint) in [
            (0, 0x7707_bcdb_833f_cfd6, 476, 0x3b69_fc9e_316f_9b1e_f80e_78d4_5f3d_e803, 0x9efc_693b),
            (61, 0x9263_7b49_cc73_68ea, 586, 0x3272_7616_eeac_2ea2_f115_f25c_80fe_5dbf, 0x1676_7232),
        ] {
            let rows = Rows::new(seed, 1025);
            let row = rows.of(hash);
            assert_eq!(rows.mixed(hash), mixed);
            assert_eq!((row.start, row.coefficients, row.fingerprint), (start, coefficients, fingerprint), "{seed}");
        }
        let seeds =
            [(0, 0), (1, 0x3de4_d003), (2, 0x7ad8_b106), (61, 0xf2f9_a3bc), (184, 0x3bc2_d72a), (255, 0xa1fd_27f2)];
        for (number, seed) in seeds {
            assert_eq!(Rows::new(number, 1).seed, seed, "{number}");
        }
    }
}
