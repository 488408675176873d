//! Implements the standard ribbon filter with rows of 128 bits (Dillinger and Walzer, "Ribbon
//! filter: practically smaller than Bloom and xor", 2021). One linear system over GF(2) holds all
//! keys.
//!
//! ```text
//! hash ──reduce──▶ start s         in hash order: sorted hashes are banded front to back
//!      ──mix─────▶ 128 coefficients, the first of them 1; a fingerprint with one bit per column
//!
//! the system:  for each key and column, the coefficients select bits of slots s .. s + 127; their XOR is the fingerprint's bit
//! the payload: blocks of 128 slots, one 128-bit word per column; a query reads one or two adjacent blocks
//! ```
//! If the first seed succeeds, a filter of up to 16 thousand keys takes 2.4 % more space than its
//! fingerprints, rounded up to whole blocks. Each further doubling of the keys adds 0.38 percentage
//! points. This kind is a baseline. [`super::bumped_ribbon`] needs fewer spare slots.
//!
//! Budgets may lie between whole columns: the first `narrow` blocks have one column less, so that
//! nearly the whole budget is used. A key is tested in the columns of the block in which it starts,
//! and no block has fewer columns than the one before.

mod banding;
#[cfg(feature = "variants")]
mod retrieval;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "foreign")]
pub(crate) use banding::solve;
#[cfg(feature = "variants")]
pub(crate) use retrieval::Retrieval;

use super::filter::{Budget, Budgets, Built, Filter, Info, Planned, Query, TOO_LARGE, payload_of};
use super::header::{Effort, Header};
use super::math::{lines_of, pair_lines};
use super::{FilterKind, math};
use crate::bits::NoMemory;
use crate::codec::{Cursor, put_varint};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, reduce};
use crate::simd::{Simd, prefetch};

/// The multiplier that mixes the hash: output 35 of the generator that [`super::bloom`] names, made
/// odd.
const RIBBON_MIX: u64 = 0x2d4a_4005_97be_a439;
/// The difference between the salts of successive seeds: output 36 of the same generator, made odd.
const RIBBON_SEED: u64 = 0x7f62_3976_a617_690b;
/// The multipliers for the lower and the upper half of the coefficients and for the fingerprint:
/// outputs 37 to 39, made odd.
const RIBBON_ROWS: [u64; 3] = [0xaab5_86f6_a24f_068b, 0xc18d_bce4_72c3_ad95, 0x194c_3510_e83a_8851];

/// The number of slots of a block, and the number of coefficients of a row.
const BLOCK_SLOTS: usize = 128;
const WIDTH: u64 = BLOCK_SLOTS as u64;
/// The length of a word, which is one column of a block.
const WORD_LEN_BYTES: usize = 16;
/// The number of extra starts before the first valid start, and after the last one. A key with an
/// extra start gets the nearest valid start. Without extra starts, too few equations would use the
/// first and the last slots.
const SMASH: u64 = WIDTH / 4;
/// The maximum number of columns, for an FPR of 2^-32.
pub(crate) const MAX_COLUMNS: u32 = 32;

pub(crate) struct Ribbon;

impl Filter for Ribbon {
    type Params = Arc<Geometry>;

    const INFO: Info = Info {
        name: "ribbon",
        description: "one linear equation of 128 coefficients per key",
        // A fingerprint has 32 bits, so there are at most 32 columns.
        budgets: Budgets::UpTo(MAX_COLUMNS * 1000),
        example_bits: 7.0,
        lowest_rate: "the lowest FPR of ribbon is 2.4e-10, with 32 columns; use bloom (2.8e-11 at the lowest)",
        ..Info::COMMON
    };

    /// Returns `2^-b` for `b` bits per key, of which at most 32 count. The spare slots do not
    /// count, because their share depends on the number of keys.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    /// Plans the filter that results if the first seed succeeds.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let geometry = banding::geometries(budget, num_keys).next().ok_or(TOO_LARGE)?;
        let len_bytes = geometry.words().checked_mul(WORD_LEN_BYTES as u64).ok_or(TOO_LARGE)?;
        // A query reads all columns of two blocks, or rarely of one.
        let columns = geometry.words() as f64 / geometry.blocks as f64;
        let lines = pair_lines(columns, WORD_LEN_BYTES as u64).min(lines_of(len_bytes));
        Ok(Planned {
            len_bytes,
            record_len_bytes: record(&geometry).len(),
            rate: math::with_equal_hashes(geometry.expected_fpr(), num_keys),
            probes: geometry.columns,
            lines_if_absent: lines,
            lines_if_present: lines,
        })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        for geometry in banding::geometries(budget, hashes.len() as u64) {
            if let Some(payload) = banding::build(&geometry, hashes)? {
                #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
                let params = [geometry.columns as u8, geometry.seed, 0];
                let header = Header { kind: FilterKind::Ribbon, params, record: record(&geometry).into() };
                return Ok(Some((header, payload)));
            }
        }
        Ok(None)
    }

    fn fallback_rate(budget: Budget) -> Option<f64> {
        Some(budget.rate.unwrap_or_else(|| (-f64::from(budget.millibits) / 1000.0).exp2()))
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Arc<Geometry>> {
        Geometry::parse(header.params, &header.record, num_keys, len_bytes).map(Arc::new)
    }

    fn expected_fpr(ribbon: &Arc<Geometry>, num_keys: u64, _: u64) -> f64 {
        math::with_equal_hashes(ribbon.expected_fpr(), num_keys)
    }

    fn probes(ribbon: &Arc<Geometry>) -> u32 {
        ribbon.columns
    }

    fn describe(ribbon: &Arc<Geometry>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { columns, narrow, blocks, seed } = **ribbon;
        write!(f, "columns: {columns}, seed {seed}; {blocks} blocks of {WIDTH} slots, {narrow} with one column less")
    }

    #[inline]
    fn is_proven(
        ribbon: &Arc<Geometry>,
        _: &[u8],
        _: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        // The words of the second block follow those of the first, or are the same words.
        let [first, second] = ribbon.blocks_of(ribbon.start(hash));
        is_valid(first.start, second.end - first.start)
    }
}

impl Query for Ribbon {
    type Filter = Self;

    /// Returns whether a key's row gives its fingerprint. Returns `true` if the payload is too
    /// short.
    #[inline(always)]
    fn may_contain(simd: impl Simd, ribbon: &Arc<Geometry>, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        ribbon.may_contain(simd, padded, len, hash)
    }

    #[inline(always)]
    fn prefetch(ribbon: &Arc<Geometry>, padded: &[u8], _: usize, hash: KeyHash) {
        prefetch(padded, ribbon.block(ribbon.start(hash) / WIDTH).0);
    }
}

/// The layout of a ribbon's payload, and the seed of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    columns: u32,
    /// The number of blocks at the front that have `columns - 1` columns. It is less than the
    /// number of blocks.
    narrow: u64,
    blocks: u64,
    seed: u8,
}

/// The equation of a key.
pub(crate) struct Row {
    pub(crate) start: u64,
    pub(crate) coefficients: u128,
    pub(crate) fingerprint: u32,
}

impl Geometry {
    /// Reads the parameters (columns, seed, 0) of a header, and the number of blocks from its
    /// record.
    pub(super) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Self> {
        let corrupt = |field| Error::Corrupt { field, offset: 0 };
        let [columns, seed, reserved] = params;
        let columns = u32::from(columns);
        if !(1..=MAX_COLUMNS).contains(&columns) || reserved != 0 {
            return Err(corrupt(Field::Params));
        }
        let mut record = Cursor::new(record, 0);
        let blocks = record.take_varint(Field::Extension)?;
        // A number of blocks is valid if its slots can be counted in 63 bits. The check of the
        // payload's length limits the number further.
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

    /// Makes a layout without a seed, for rows that the caller makes. Blocks have `columns` words,
    /// and the first `narrow` blocks have one word less.
    #[cfg(feature = "foreign")]
    pub(crate) fn of_layout(columns: u32, narrow: u64, blocks: u64) -> Self {
        Self { columns, narrow, blocks, seed: 0 }
    }

    /// Answers the query of a key: see [`Query::may_contain`].
    #[inline(always)]
    pub(super) fn may_contain(&self, simd: impl Simd, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        self.holds(simd, payload_of(padded, len), &self.row(hash))
    }

    /// Returns the number of slots at which a row may start. A row must end at the last slot at the
    /// latest.
    pub(crate) fn starts(&self) -> u64 {
        (self.blocks - 1) * WIDTH + 1
    }

    fn words(&self) -> u64 {
        self.blocks * u64::from(self.columns) - self.narrow
    }

    /// Returns the expected FPR. Each column halves the FPR, and keys that start in narrow blocks
    /// have one column less.
    fn expected_fpr(&self) -> f64 {
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
        // The low bits of a product depend only on the low bits of the factors, so the high bits
        // are folded in.
        let coefficients = u128::from(high ^ high >> 32) << 64 | u128::from(low ^ low >> 32) | 1;
        let fingerprint = (fingerprint >> 32) as u32 & (u32::MAX >> (32 - self.columns));
        Row { start: self.start(hash), coefficients, fingerprint }
    }

    /// Returns the offset of a block in the payload, and its number of columns.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the offset lies within the payload, whose length is a usize")]
    pub(crate) fn block(&self, number: u64) -> (usize, usize) {
        let is_narrow = number < self.narrow;
        let word = number * u64::from(self.columns) - number.min(self.narrow);
        (word as usize * WORD_LEN_BYTES, self.columns as usize - usize::from(is_narrow))
    }

    /// Returns the byte ranges of the words that a row reads: in the block of its start, and in the
    /// next block. A row that ends with its block has no coefficient for the next block, which may
    /// not exist. Both ranges are then the same.
    #[inline(always)]
    fn blocks_of(&self, start: u64) -> [Range<usize>; 2] {
        let number = start / WIDTH;
        let (offset, columns) = self.block(number);
        let next = if start.is_multiple_of(WIDTH) { offset } else { self.block(number + 1).0 };
        [offset, next].map(|offset| offset..offset + columns * WORD_LEN_BYTES)
    }

    /// Returns whether a row gives its fingerprint. The row must have a valid start, in a block
    /// with at least one column. Returns `true` if the blocks lie beyond the payload.
    #[inline(always)]
    pub(crate) fn holds(&self, simd: impl Simd, payload: &[u8], row: &Row) -> bool {
        let Some((bits, columns)) = self.bits(simd, payload, row) else { return true };
        bits == row.fingerprint & (u32::MAX >> (32 - columns))
    }

    /// Returns the parities of the bits that a row selects, and the number of columns. Bit `j` of
    /// the first number is the parity of column `j`. Returns `None` if the blocks are not complete.
    #[inline(always)]
    fn bits(&self, simd: impl Simd, payload: &[u8], row: &Row) -> Option<(u32, usize)> {
        let [first, second] = self.blocks_of(row.start);
        let (first, second) = (payload.get(first)?, payload.get(second)?);
        let (first, second) = (first.as_chunks().0, second.as_chunks().0);
        let shift = (row.start % WIDTH) as u32;
        // Two shifts, because a shift by 128 is not allowed.
        let picks = [row.coefficients << shift, (row.coefficients >> 1) >> (127 - shift)];
        Some((simd.parities_of_128(first, second, picks), first.len()))
    }
}

/// Returns the record of a filter, which the extension stores.
fn record(geometry: &Geometry) -> Vec<u8> {
    let mut layers = Vec::new();
    put_varint(&mut layers, geometry.blocks);
    layers
}

#[cfg(test)]
mod tests;
