//! The standard ribbon filter with rows of 128 bits (Dillinger and Walzer, "Ribbon filter: practically smaller than
//! Bloom and xor", 2021): one linear system over GF(2) for all keys.
//!
//! ```text
//! hash ──reduce──▶ start s         in the order of the hashes: sorted keys band front to back
//!      ──mix─────▶ 128 coefficients, the first of them 1; a fingerprint of as many bits as there are columns
//!
//! the system:  for each key and column, the coefficients pick bits of slots s .. s + 127 that xor to the fingerprint's bit
//! the payload: blocks of 128 slots, one 128-bit word for each column; a query reads one or two blocks side by side
//! ```
//! Space is 2.4 % more than the fingerprints up to 16 thousand keys, and 0.4 % more for each doubling from there: one
//! system must have spare slots everywhere for what crowds somewhere. It is here to be compared with, and in the shape
//! that RocksDB gave it; [`super::bumped_ribbon`] has no such loss.
//!
//! Budgets between whole columns: the first `narrow` blocks have one column less, so that any size is made use of. A
//! key asks for the columns of the block in which it starts, and no block has fewer than the one before.

mod banding;
#[cfg(feature = "variants")]
mod retrieval;

use std::fmt;
use std::ops::Range;

#[cfg(feature = "foreign")]
pub(crate) use banding::solve;
#[cfg(feature = "variants")]
pub(crate) use retrieval::Retrieval;

use super::Columns;
use super::contract::{Budget, Budgets, Built, Kind, Planned, TOO_LARGE};
use super::guard::{Guard, or_maybe};
use super::kind::FilterKind;
use super::lines::{lines_of, pair_lines};
use super::math;
use super::query::{Query, payload_of};
use super::shape::{Effort, Shape};
use crate::bits::NoMemory;
use crate::codec::{Cursor, put_varint};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, reduce};
use crate::simd::{Simd, prefetch};

/// Mixes the hash; odd, the 35th output of the generator that [`super::bloom`] names.
const RIBBON_MIX: u64 = 0x2d4a_4005_97be_a439;
/// What one seed is apart from the next; odd, the 36th output.
const RIBBON_SEED: u64 = 0x7f62_3976_a617_690b;
/// For the lower and the upper half of the coefficients and for the fingerprint; odd, the 37th to 39th output.
const RIBBON_ROWS: [u64; 3] = [0xaab5_86f6_a24f_068b, 0xc18d_bce4_72c3_ad95, 0x194c_3510_e83a_8851];

/// Slots of a block, and coefficients of a row.
const BLOCK_SLOTS: usize = 128;
const WIDTH: u64 = BLOCK_SLOTS as u64;
/// Bytes of a word: one column of a block.
const WORD_LEN_BYTES: usize = 16;
/// How far starts are spread beyond both ends and then pressed back: the first and last slots would be used too seldom.
const SMASH: u64 = WIDTH / 4;
/// Most columns: a rate of 2^-32.
pub(crate) const MAX_COLUMNS: u32 = 32;

/// See [`FilterKind::Ribbon`].
pub(super) struct Ribbon;

impl Kind for Ribbon {
    type Geometry = Geometry;
    // A row has 32 columns at most.
    const BUDGETS: Budgets = Budgets::UpTo(MAX_COLUMNS * 1000);
    const LOWEST_RATE: &'static str =
        "the lowest rate of a ribbon is 2.4e-10, that of 32 columns; use bloom (2.8e-11 at the lowest)";
    const HAS_COMPACT: bool = false;

    /// A column halves the rate; what else a ribbon takes depends on the number of keys and is small.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    /// The filter if the first seed will do.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let geometry = banding::geometries(budget, num_keys).next().ok_or(TOO_LARGE)?;
        let len_bytes = geometry.words().checked_mul(WORD_LEN_BYTES as u64).ok_or(TOO_LARGE)?;
        // All columns of two blocks, whatever the answer.
        let columns = geometry.words() as f64 / geometry.blocks as f64;
        let lines = pair_lines(columns, WORD_LEN_BYTES as u64).min(lines_of(len_bytes));
        Ok(Planned {
            len_bytes,
            record_len_bytes: record(&geometry).len(),
            rate: math::with_equal_hashes(geometry.expected_rate(), num_keys),
            lines_if_absent: lines,
            lines_if_present: lines,
        })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        for geometry in banding::geometries(budget, hashes.len() as u64) {
            if let Some(payload) = banding::build(&geometry, hashes)? {
                #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
                let params = [geometry.columns as u8, geometry.seed, 0];
                let shape = Shape { kind: FilterKind::Ribbon, params, layers: record(&geometry) };
                return Ok(Some((shape, payload)));
            }
        }
        Ok(None)
    }

    fn fallback_rate(budget: Budget) -> Option<f64> {
        Some(budget.rate.unwrap_or_else(|| (-f64::from(budget.millibits) / 1000.0).exp2()))
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Geometry> {
        Geometry::new(shape, num_keys, len_bytes)
    }
}

impl Query for Ribbon {
    type Asked<'a> = &'a Geometry;

    /// Whether a key's row gives its fingerprint.
    #[inline(always)]
    fn may_contain(simd: impl Simd, ribbon: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        ribbon.holds(simd, payload_of(padded, len), &ribbon.row(hash))
    }

    #[inline(always)]
    fn prefetch(ribbon: &Geometry, padded: &[u8], _: usize, hash: KeyHash) {
        prefetch(padded, ribbon.block(ribbon.start(hash) / WIDTH).0);
    }

    #[inline]
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        ribbon: &Geometry,
        _: &[u8],
        _: usize,
        hash: KeyHash,
        _: Columns,
        guard: &impl Guard,
    ) -> bool {
        or_maybe(ask(), guard, || {
            // The words of the second follow those of the first, or are the same.
            let [first, second] = ribbon.blocks_of(ribbon.start(hash));
            guard.sound(first.start, second.end - first.start)
        })
    }
}

/// Where the rows of a key are, and how many columns they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    columns: u32,
    /// Blocks at the front that have one column less; fewer than all.
    narrow: u64,
    blocks: u64,
    seed: u8,
}

/// A key's equation.
pub(crate) struct Row {
    pub(crate) start: u64,
    pub(crate) coefficients: u128,
    pub(crate) fingerprint: u32,
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { columns, narrow, blocks, seed } = self;
        write!(f, "columns: {columns}, seed {seed}; {blocks} blocks of {WIDTH} slots, {narrow} with one column less")
    }
}

impl Geometry {
    /// Reads the parameters (columns, seed, 0) and the number of blocks from the extension record.
    ///
    /// # Errors
    /// The field that does not hold, at offset 0.
    pub(super) fn new(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Self> {
        Self::parse(shape.params, &shape.layers, num_keys, len_bytes)
    }

    /// The same of the parts of a shape.
    pub(super) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Self> {
        let corrupt = |field| Error::Corrupt { field, offset: 0 };
        let [columns, seed, reserved] = params;
        let columns = u32::from(columns);
        if !(1..=MAX_COLUMNS).contains(&columns) || reserved != 0 {
            return Err(corrupt(Field::Params));
        }
        let mut record = Cursor::new(record, 0);
        let blocks = record.take_varint(Field::Extension)?;
        // Any number whose slots can be counted; the payload's length then bounds it.
        if !record.is_empty() || !(1..=u64::MAX / WIDTH / 2).contains(&blocks) {
            return Err(corrupt(Field::Extension));
        }
        let words = len_bytes / WORD_LEN_BYTES as u64;
        let narrow = blocks.checked_mul(columns.into()).and_then(|all| all.checked_sub(words));
        let narrow = narrow.filter(|&narrow| narrow < blocks && (columns > 1 || narrow == 0));
        let Some(narrow) = narrow.filter(|_| len_bytes.is_multiple_of(WORD_LEN_BYTES as u64)) else {
            return Err(corrupt(Field::PayloadLen));
        };
        if !(1..=blocks * WIDTH).contains(&num_keys) {
            return Err(corrupt(Field::NumKeys));
        }
        Ok(Self { columns, narrow, blocks, seed })
    }

    /// Blocks of `columns` words, of which the first `narrow` have one less: the layout alone, for rows made elsewhere.
    #[cfg(feature = "foreign")]
    pub(crate) fn of_layout(columns: u32, narrow: u64, blocks: u64) -> Self {
        Self { columns, narrow, blocks, seed: 0 }
    }

    /// The most columns that a query asks.
    pub(super) fn columns(&self) -> u32 {
        self.columns
    }

    /// The number of slots at which a row may start: it must end with the last.
    pub(crate) fn starts(&self) -> u64 {
        (self.blocks - 1) * WIDTH + 1
    }

    fn words(&self) -> u64 {
        self.blocks * u64::from(self.columns) - self.narrow
    }

    /// A column halves the rate, and the keys that start in narrow blocks have one less.
    pub(super) fn expected_rate(&self) -> f64 {
        let in_narrow = if self.narrow == 0 { 0.0 } else { (self.narrow * WIDTH + SMASH) as f64 };
        let share = in_narrow / (self.starts() + 2 * SMASH) as f64;
        (1.0 + share) * (-f64::from(self.columns)).exp2()
    }

    #[inline]
    fn start(&self, hash: KeyHash) -> u64 {
        let spread = reduce(hash.raw(), self.starts() + 2 * SMASH);
        spread.saturating_sub(SMASH).min(self.starts() - 1)
    }

    #[inline]
    fn row(&self, hash: KeyHash) -> Row {
        let mixed = (hash.raw() ^ u64::from(self.seed).wrapping_mul(RIBBON_SEED)).wrapping_mul(RIBBON_MIX);
        let mixed = mixed ^ mixed >> 32;
        let [low, high, fingerprint] = RIBBON_ROWS.map(|multiplier| mixed.wrapping_mul(multiplier));
        // The low bits of a product know only the low bits of what was multiplied: the high ones are folded in.
        let coefficients = u128::from(high ^ high >> 32) << 64 | u128::from(low ^ low >> 32) | 1;
        let fingerprint = (fingerprint >> 32) as u32 & (u32::MAX >> (32 - self.columns));
        Row { start: self.start(hash), coefficients, fingerprint }
    }

    /// Where a block begins in the payload, and its columns.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an offset within the payload, whose length is a usize")]
    pub(crate) fn block(&self, number: u64) -> (usize, usize) {
        let is_narrow = number < self.narrow;
        let word = number * u64::from(self.columns) - number.min(self.narrow);
        (word as usize * WORD_LEN_BYTES, self.columns as usize - usize::from(is_narrow))
    }

    /// Where the words lie that a row of this start picks from, in the block of the start and in the next one. A row that ends
    /// with its block has no coefficient left for the next, which may not be there: then both are the same.
    #[inline(always)]
    fn blocks_of(&self, start: u64) -> [Range<usize>; 2] {
        let number = start / WIDTH;
        let (offset, columns) = self.block(number);
        let next = if start.is_multiple_of(WIDTH) { offset } else { self.block(number + 1).0 };
        [offset, next].map(|offset| offset..offset + columns * WORD_LEN_BYTES)
    }

    /// Whether a row, which starts at one of the starts, in a block that has columns, gives its fingerprint. Blocks beyond the
    /// payload count as giving it.
    #[inline(always)]
    pub(crate) fn holds(&self, simd: impl Simd, payload: &[u8], row: &Row) -> bool {
        let Some((bits, columns)) = self.bits(simd, payload, row) else { return true };
        bits == row.fingerprint & (u32::MAX >> (32 - columns))
    }

    /// For each column the parity of what a row picks, as bits from the lowest on, and the number of columns; `None` where the
    /// blocks are not all there.
    #[inline(always)]
    fn bits(&self, simd: impl Simd, payload: &[u8], row: &Row) -> Option<(u32, usize)> {
        let [first, second] = self.blocks_of(row.start);
        let (first, second) = (payload.get(first)?, payload.get(second)?);
        let (first, second) = (first.as_chunks().0, second.as_chunks().0);
        let shift = (row.start % WIDTH) as u32;
        // Two shifts: one by 128 is none.
        let picks = [row.coefficients << shift, (row.coefficients >> 1) >> (127 - shift)];
        Some((simd.parities_of_128(first, second, picks), first.len()))
    }
}

/// What the trailer's extension has of a filter.
fn record(geometry: &Geometry) -> Vec<u8> {
    let mut layers = Vec::new();
    put_varint(&mut layers, geometry.blocks);
    layers
}

#[cfg(test)]
mod tests;
