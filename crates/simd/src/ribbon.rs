//! The linear system of a ribbon filter with rows of 128 bits (Dillinger and Walzer, "Ribbon filter:
//! practically smaller than Bloom and xor", 2021): its layout, its rows and its solution. The solution
//! has two steps: banding, and then back-substitution. Banding is Gaussian elimination in the form of
//! insertions into a hash table.
//!
//! A key's row goes to the slot at which it starts. If the slot already has a row, the two rows are
//! added, which clears the first coefficient. The sum then goes to the slot of its first remaining
//! coefficient. A row that vanishes is a sum of other rows. If its fingerprint vanishes too, the
//! row is redundant; otherwise the system has no solution.
//!
//! The payload has blocks of 128 slots, with one 128-bit word for each column.

use std::ops::Range;

use crate::{NoMemory, Simd, parity, reduce, try_zeros};

/// The multiplier that mixes the hash: output 35 of the generator SplitMix64 with the
/// seed 0xf117e7b10c5, made odd.
const RIBBON_MIX: u64 = 0x2d4a_4005_97be_a439;
/// The difference between the salts of successive seeds: output 36 of the same generator, made odd.
const RIBBON_SEED: u64 = 0x7f62_3976_a617_690b;
/// The multipliers for the lower and the upper half of the coefficients and for the fingerprint:
/// outputs 37 to 39, made odd.
const RIBBON_ROWS: [u64; 3] = [0xaab5_86f6_a24f_068b, 0xc18d_bce4_72c3_ad95, 0x194c_3510_e83a_8851];

/// The number of slots of a block, and the number of coefficients of a row.
pub const BLOCK_SLOTS: usize = 128;
/// [`BLOCK_SLOTS`] as a 64-bit number.
pub const WIDTH: u64 = BLOCK_SLOTS as u64;
/// The length of a word, which is one column of a block.
pub const WORD_LEN_BYTES: usize = 16;
/// The number of extra starts before the first valid start, and after the last one. A key with an
/// extra start gets the nearest valid start. Without extra starts, too few equations would use the
/// first and the last slots.
pub const SMASH: u64 = WIDTH / 4;
/// The maximum number of columns, for an FPR of 2^-32.
pub const MAX_COLUMNS: u32 = 32;

/// The layout of a ribbon's payload, and the seed of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The number of columns of a block, from 1 to [`MAX_COLUMNS`].
    pub columns: u32,
    /// The number of blocks at the front that have `columns - 1` columns. It is less than the
    /// number of blocks.
    pub narrow: u64,
    /// The number of blocks, at least 1.
    pub blocks: u64,
    /// The number of the seed of [`Layout::row`].
    pub seed: u8,
}

/// The equation of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The first slot.
    pub start: u64,
    /// The coefficients of the slots from the first one on. The lowest bit is 1.
    pub coefficients: u128,
    /// One bit for each column.
    pub fingerprint: u32,
}

impl Layout {
    /// Returns the number of slots at which a row may start. A row must end at the last slot at the
    /// latest.
    #[must_use]
    pub fn starts(&self) -> u64 {
        (self.blocks - 1) * WIDTH + 1
    }

    /// Returns the number of words of the payload.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.blocks * u64::from(self.columns) - self.narrow
    }

    /// Returns the start of the row that [`row`](Self::row) makes.
    #[must_use]
    #[inline]
    pub fn start(&self, hash: u64) -> u64 {
        let spread = reduce(hash, self.starts() + 2 * SMASH);
        spread.saturating_sub(SMASH).min(self.starts() - 1)
    }

    /// Makes the row of a hash under the layout's seed.
    #[must_use]
    #[inline]
    pub fn row(&self, hash: u64) -> Row {
        let mixed = (hash ^ u64::from(self.seed).wrapping_mul(RIBBON_SEED)).wrapping_mul(RIBBON_MIX);
        let mixed = mixed ^ mixed >> 32;
        let [low, high, fingerprint] = RIBBON_ROWS.map(|multiplier| mixed.wrapping_mul(multiplier));
        // The low bits of a product depend only on the low bits of the factors, so the high bits
        // are folded in.
        let coefficients = u128::from(high ^ high >> 32) << 64 | u128::from(low ^ low >> 32) | 1;
        let fingerprint = (fingerprint >> 32) as u32 & (u32::MAX >> (32 - self.columns));
        Row { start: self.start(hash), coefficients, fingerprint }
    }

    /// Returns the offset of a block in the payload, and its number of columns.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the offset lies within the payload, whose length is a usize")]
    pub fn block(&self, number: u64) -> (usize, usize) {
        let is_narrow = number < self.narrow;
        let word = number * u64::from(self.columns) - number.min(self.narrow);
        (word as usize * WORD_LEN_BYTES, self.columns as usize - usize::from(is_narrow))
    }

    /// Returns the byte ranges of the words that a row reads: in the block of its start, and in the
    /// next block. A row that ends with its block has no coefficient for the next block, which may
    /// not exist. Both ranges are then the same.
    #[must_use]
    #[inline(always)]
    pub fn blocks_of(&self, start: u64) -> [Range<usize>; 2] {
        let number = start / WIDTH;
        let (offset, columns) = self.block(number);
        let next = if start.is_multiple_of(WIDTH) { offset } else { self.block(number + 1).0 };
        [offset, next].map(|offset| offset..offset + columns * WORD_LEN_BYTES)
    }

    /// Returns whether a row gives its fingerprint. The row must have a valid start, in a block
    /// with at least one column. Returns `true` if the blocks lie beyond the payload.
    #[must_use]
    #[inline(always)]
    pub fn holds(&self, simd: impl Simd, payload: &[u8], row: &Row) -> bool {
        let Some((bits, columns)) = self.bits(simd, payload, row) else { return true };
        bits == row.fingerprint & (u32::MAX >> (32 - columns))
    }

    /// Returns the parities of the bits that a row selects, and the number of columns. Bit `j` of
    /// the first number is the parity of column `j`. Returns `None` if the blocks are not complete.
    #[must_use]
    #[inline(always)]
    pub fn bits(&self, simd: impl Simd, payload: &[u8], row: &Row) -> Option<(u32, usize)> {
        let [first, second] = self.blocks_of(row.start);
        let (first, second) = (payload.get(first)?, payload.get(second)?);
        let (first, second) = (first.as_chunks().0, second.as_chunks().0);
        let shift = (row.start % WIDTH) as u32;
        // Two shifts, because a shift by 128 is not allowed.
        let picks = [row.coefficients << shift, (row.coefficients >> 1) >> (127 - shift)];
        Some((simd.parities_of_128(first, second, picks), first.len()))
    }
}

/// The maximum number of tries, each with a new seed. Starts follow the order of the hashes and do
/// not depend on the seed, so every second try also adds slots.
const MAX_SEEDS: u8 = 64;
/// The number of slots that every second try adds, in 1,024ths of the number of keys.
const GROWTH: u64 = 5;

/// Returns the number of spare slots of the first try, in ten-thousandths of the number of keys.
/// With this number, about one try in twenty fails. For this failure rate and rows of 128 bits,
/// the authors of RocksDB's ribbon measured 2.2 to 2.8 % spare slots from 256 to 16,384 keys, and
/// 0.38 percentage points more for each further doubling (RocksDB, util/ribbon_config.cc).
fn spare_slots(num_keys: u64) -> u64 {
    let doublings = u64::from(num_keys.max(1).ilog2()).saturating_sub(13);
    240 + 38 * doublings
}

/// Returns the systems that a build tries for a number of keys, in this order. Each system has one
/// column.
pub fn systems(num_keys: u64) -> impl Iterator<Item = Layout> {
    (0..MAX_SEEDS).filter_map(move |seed| {
        let growth = u128::from(u64::from(seed / 2) * GROWTH) * u128::from(num_keys) / 1024;
        let spare = u128::from(num_keys) * u128::from(spare_slots(num_keys)) / 10_000 + growth;
        let slots = u64::try_from(u128::from(num_keys) + spare).ok()?;
        let blocks = slots.div_ceil(WIDTH).max(1);
        Some(Layout { columns: 1, narrow: 0, blocks, seed })
    })
}

/// Builds the payload that gives each of `equations` its fingerprint, in bytes that `zeros` allocates.
/// Returns `None` if there is no such payload.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory for the equations or the payload.
pub fn solve(
    layout: &Layout,
    equations: impl Iterator<Item = Row>,
    zeros: impl Fn(usize) -> Result<Vec<u8>, NoMemory>,
) -> Result<Option<Vec<u8>>, NoMemory> {
    let slots = usize::try_from(layout.blocks * WIDTH).map_err(|_| NoMemory)?;
    let words = usize::try_from(layout.words()).map_err(|_| NoMemory)?;
    let len_bytes = words.checked_mul(WORD_LEN_BYTES).ok_or(NoMemory)?;
    let mut rows: Vec<u128> = try_zeros(slots)?;
    let mut fingerprints: Vec<u32> = try_zeros(slots)?;
    if !insert(equations, &mut rows, &mut fingerprints) {
        return Ok(None);
    }
    let mut payload = zeros(len_bytes)?;
    substitute(layout, &rows, &fingerprints, &mut payload);
    Ok(Some(payload))
}

/// Brings the system into echelon form. Returns `false` if an equation contradicts others.
#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a row ends before the last slot")]
fn insert(equations: impl Iterator<Item = Row>, rows: &mut [u128], fingerprints: &mut [u32]) -> bool {
    for row in equations {
        let (mut slot, mut coefficients) = (row.start as usize, row.coefficients);
        let mut fingerprint = row.fingerprint;
        loop {
            let (there, theirs) = (&mut rows[slot], &mut fingerprints[slot]);
            if *there == 0 {
                (*there, *theirs) = (coefficients, fingerprint);
                break;
            }
            coefficients ^= *there;
            fingerprint ^= *theirs;
            if coefficients == 0 {
                if fingerprint != 0 {
                    return false;
                }
                break;
            }
            let zeros = coefficients.trailing_zeros();
            slot += zeros as usize;
            coefficients >>= zeros;
        }
    }
    true
}

/// Solves the banded system from its last slot to its first. A slot without a row is free and
/// becomes 0.
#[expect(clippy::indexing_slicing, reason = "the payload has the words of all blocks")]
fn substitute(layout: &Layout, rows: &[u128], fingerprints: &[u32], payload: &mut [u8]) {
    let columns = layout.columns as usize;
    // For each column, the solution of the slots from the current slot on. The current slot is the
    // lowest bit.
    let mut solution = [0u128; MAX_COLUMNS as usize];
    let blocks = rows.chunks(BLOCK_SLOTS).zip(fingerprints.chunks(BLOCK_SLOTS));
    for (number, (rows, fingerprints)) in blocks.enumerate().rev() {
        for (row, fingerprint) in rows.iter().zip(fingerprints).rev() {
            for (column, solution) in solution.iter_mut().take(columns).enumerate() {
                let later = *solution << 1;
                *solution = later | u128::from((parity(later & row) ^ fingerprint >> column) & 1);
            }
        }
        let (offset, columns) = layout.block(number as u64);
        let block = &mut payload[offset..offset + columns * WORD_LEN_BYTES];
        for (word, solution) in block.as_chunks_mut::<WORD_LEN_BYTES>().0.iter_mut().zip(solution) {
            *word = solution.to_le_bytes();
        }
    }
}
