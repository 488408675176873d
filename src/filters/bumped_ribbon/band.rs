//! Implements banding: Gaussian elimination on the fly. Each key's equation takes the row of a
//! slot, or is redundant, or the key is bumped.
//!
//! The equation of a key goes to the row of its start. If that row is taken, the row is subtracted
//! and the equation moves on to its next coefficient. Each such step waits for the step before it.
//! Therefore several equations move at once.
//!
//! The slots of a layer are cut into shards, so that threads can band several shards at once. The
//! *tail* of a shard is its last [`TAIL_BUCKETS`] buckets, and the *head* is the rest. The heads of
//! shards do not touch each other's rows: an equation of a head that would move beyond its shard is
//! bumped with its class. A tail may use rows of the next shard, and is banded after the head of
//! the next shard. Therefore the rows do not depend on the number of threads.
//!
//! Back-substitution then computes the slots from the rows, which are in echelon form, the last slot
//! first.

use super::hashes::{coefficients, column_group, fingerprint};
use super::layer::{Blocks, Columns, Starts};
use super::{BLOCK_SLOTS, BUCKET_STARTS, GROUP_COLUMNS, THRESHOLDS};
use crate::codec::put_u64;
use crate::hash::KeyHash;
use crate::simd::{Isa, NoMemory, Simd, kernels, try_collect, try_push};

/// The maximum number of slots of a shard, unless a layer is not cut into shards (see `Density`).
/// The rows of a shard should stay in the second-level cache.
pub(super) const SHARD_SLOTS: usize = 65_536;
/// The number of equations that move at once.
const IN_FLIGHT: usize = 4;
/// The number of steps between two checks of the moving equations.
const STEPS: usize = 8;
/// The number of buckets in the tail of a shard.
const TAIL_BUCKETS: usize = 4;
/// The maximum number of slots by which equations of the tail may move into the next shard. The
/// next shard's own tail begins after these slots.
pub(super) const WINDOW: usize = 1_024;
// If a layer has several shards, each has at least half of `SHARD_SLOTS` slots, rounded down to
// whole buckets.
const _: () = assert!(SHARD_SLOTS / 2 >= WINDOW + (TAIL_BUCKETS + 1) * BUCKET_STARTS);

/// The result of inserting an equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    /// The equation takes this row, which is free.
    Placed(usize),
    /// The equation follows from other equations.
    Redundant,
    /// The equation contradicts other equations, or would move too far.
    Contradiction,
}

/// The row of a slot: the coefficients of the slot and the next 63 slots, and the XOR that the
/// selected slots must have. The coefficients are 0 while the row is free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Row {
    pub(super) coefficients: u64,
    pub(super) sum: u32,
}

/// One row for each slot.
#[derive(Debug, Default)]
pub(super) struct Rows(pub(super) Vec<Row>);

impl Rows {
    pub(super) fn reset(&mut self, slots: usize) -> Result<(), NoMemory> {
        self.0.clear();
        if self.0.capacity() < slots {
            // The old rows are freed first, and the new capacity is exact, to save memory.
            self.0 = Vec::new();
            self.0.try_reserve_exact(slots)?;
        }
        self.0.resize(slots, Row::default());
        Ok(())
    }

    /// Inserts equations below row `limit`, [`IN_FLIGHT`] of them at a time. Redundant equations
    /// take no row. Calls `placed` with each row that was taken. Returns `false` at the first
    /// [`Sink::Contradiction`]. The rows that were taken stay taken.
    ///
    /// The order of insertion differs from the order of `equations`. The order does not change
    /// whether there is a contradiction. If there is none, it does not change which rows are taken
    /// and what the solution is.
    #[inline(always)]
    pub(super) fn insert_all(
        &mut self,
        mut equations: impl Iterator<Item = Moving>,
        limit: usize,
        mut placed: impl FnMut(usize),
    ) -> bool {
        let mut all: [Moving; IN_FLIGHT] = std::array::from_fn(|_| equations.next().unwrap_or(Moving::IDLE));
        let mut left = all.iter().filter(|moving| moving.row != Moving::IDLE.row).count();
        while left > 0 {
            // The copy is never indexed by a variable, so it stays in registers.
            let mut steps = all;
            for _ in 0..STEPS {
                for moving in &mut steps {
                    moving.step(self);
                }
            }
            all = steps;
            for moving in &mut all {
                if moving.row == Moving::IDLE.row {
                    continue;
                }
                let Some(sink) = self.sink(moving, limit) else { continue };
                match sink {
                    Sink::Placed(row) => {
                        self.place(moving, row);
                        placed(row);
                    }
                    Sink::Redundant => {}
                    Sink::Contradiction => return false,
                }
                *moving = equations.next().unwrap_or_else(|| {
                    left -= 1;
                    Moving::IDLE
                });
            }
        }
        true
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the row is below the limit, so it exists")]
    fn place(&mut self, moving: &Moving, row: usize) {
        self.0[row] = Row { coefficients: moving.coefficients, sum: moving.sum };
    }

    /// Returns the result for an equation that has come to its end, or `None` if it still moves.
    #[inline(always)]
    fn sink(&self, moving: &Moving, limit: usize) -> Option<Sink> {
        let row = self.at(moving.row);
        if moving.row >= limit {
            Some(Sink::Contradiction)
        } else if moving.coefficients == row.coefficients || moving.coefficients == 0 {
            // The equation has no coefficients left, or its next step leaves none.
            let sum = if moving.coefficients == 0 { moving.sum } else { moving.sum ^ row.sum };
            Some(if sum == 0 { Sink::Redundant } else { Sink::Contradiction })
        } else if row.coefficients == 0 {
            Some(Sink::Placed(moving.row))
        } else {
            None
        }
    }

    /// Returns a row. Beyond the last row, it returns a free row.
    #[inline(always)]
    fn at(&self, row: usize) -> Row {
        self.0.get(row).copied().unwrap_or_default()
    }

    #[expect(clippy::indexing_slicing, reason = "the rows were placed, so they exist")]
    fn free(&mut self, rows: &[usize]) {
        rows.iter().for_each(|&row| self.0[row] = Row::default());
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Moving {
    pub(super) row: usize,
    pub(super) coefficients: u64,
    pub(super) sum: u32,
}

impl Moving {
    /// A placeholder for no equation. It stays at a row that does not exist.
    const IDLE: Self = Self { row: usize::MAX, coefficients: 1, sum: 0 };

    /// Subtracts the row at which the equation is, and moves on to the next coefficient. At a free
    /// row the equation stays, without a branch: the subtraction leaves the first coefficient set.
    /// The equation also stays if no coefficient is left.
    #[inline(always)]
    fn step(&mut self, rows: &Rows) {
        let row = rows.at(self.row);
        self.coefficients ^= row.coefficients;
        self.sum ^= row.sum;
        let zeros = self.coefficients.trailing_zeros() % u64::BITS;
        self.row += zeros as usize;
        self.coefficients >>= zeros;
    }
}

pub(super) fn buckets_of_shards(
    starts: Starts,
    slots: usize,
    is_one_shard: bool,
) -> Result<Vec<std::ops::Range<usize>>, NoMemory> {
    let buckets = starts.buckets();
    let shards = if is_one_shard { 1 } else { slots.div_ceil(SHARD_SLOTS) };
    try_collect((0..shards).map(|shard| buckets * shard / shards..buckets * (shard + 1) / shards))
}

/// The input of banding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) starts: Starts,
    /// The hashes of the keys, in ascending order.
    pub(super) hashes: &'a [KeyHash],
    /// The mask of the sum bits for which the filter has columns.
    pub(super) wanted: u32,
}

impl Keys<'_> {
    #[inline(always)]
    fn equation(&self, key: usize, base: usize) -> Moving {
        let hash = self.hashes.get(key).map_or(0, |hash| hash.raw());
        Moving {
            row: self.starts.of(hash).wrapping_sub(base),
            coefficients: coefficients(hash),
            sum: fingerprint(hash) & self.wanted,
        }
    }

    /// Returns the index of the first key whose start is at least `start`, or the number of keys if
    /// there is none. `start` must not be above the last start.
    #[inline(always)]
    pub(super) fn first_of(&self, start: u64) -> usize {
        let least = self.starts.least_hash(start).unwrap_or(u64::MAX);
        self.hashes.partition_point(|hash| hash.raw() < least)
    }

    /// Returns the index of the first key, not before `key`, that has a start of at least `start`.
    /// Returns the number of keys if there is none.
    #[inline(always)]
    fn first_from(&self, key: usize, start: u64) -> usize {
        let Some(least) = self.starts.least_hash(start) else { return self.hashes.len() };
        let mut key = self.stride_to(key, least);
        while self.hashes.get(key).is_some_and(|hash| hash.raw() < least) {
            key += 1;
        }
        key
    }

    /// Advances `key` by whole strides, as long as all hashes of a stride are below `least`.
    /// Returns the new index.
    #[inline(always)]
    fn stride_to(&self, mut key: usize, least: u64) -> usize {
        const STRIDE: usize = 16;
        while self.hashes.get(key + STRIDE - 1).is_some_and(|hash| hash.raw() < least) {
            key += STRIDE;
        }
        key
    }
}

/// A section of a shard: neighbouring buckets that are banded together, and the result of banding.
#[derive(Debug)]
pub(super) struct Section {
    buckets: std::ops::Range<usize>,
    /// The slot of row 0.
    base: usize,
    /// The number of rows that the section may use.
    limit: usize,
    /// Whether the first bucket bumps its first keys, to make room for the shard before it.
    is_relieved: bool,
    /// For each bucket, the index into [`THRESHOLDS`].
    pub(super) bumps: Vec<u8>,
    pub(super) bumped: Vec<std::ops::Range<usize>>,
}

impl Section {
    /// Makes a section of `buckets`. Its rows are those of the slots `base..limit`.
    pub(super) fn new(buckets: std::ops::Range<usize>, base: usize, limit: usize) -> Self {
        Self { buckets, base, limit: limit - base, is_relieved: false, bumps: Vec::new(), bumped: Vec::new() }
    }

    /// Returns the section with room in its first bucket for equations that move over from the
    /// previous shard. The room costs 9 to 17 slots per boundary between shards. Without it, the
    /// cost would be 70 slots (docs/DESIGN.md, "shards with heads and tails").
    pub(super) fn relieved(self) -> Self {
        Self { is_relieved: true, ..self }
    }

    pub(super) fn starts_at(&self) -> usize {
        self.buckets.start
    }

    /// Bands the section: inserts the equations of its keys, or bumps the keys.
    pub(super) fn run(&mut self, keys: Keys<'_>, rows: &mut Rows) -> Result<(), NoMemory> {
        Band::new(Isa::detect()).run(self, keys, rows)
    }

    #[inline(always)]
    fn run_here(&mut self, keys: Keys<'_>, rows: &mut Rows) -> Result<(), NoMemory> {
        self.bumps.try_reserve_exact(self.buckets.len())?;
        let mut end = keys.first_of((self.buckets.start * BUCKET_STARTS) as u64);
        let mut placed = Vec::new();
        for bucket in self.buckets.clone() {
            let from = (bucket * BUCKET_STARTS) as u64;
            let mut first = end;
            let class_2 = keys.first_from(first, from + u64::from(THRESHOLDS[2]));
            let class_1 = keys.first_from(class_2, from + u64::from(THRESHOLDS[1]));
            end = keys.first_from(class_1, from + u64::from(THRESHOLDS[0]));
            // The class with the highest starts comes first. If a class is bumped, the classes
            // after it are bumped too.
            let mut classes = [class_1..end, class_2..class_1, first..class_2];
            let mut bits = 3;
            if self.is_relieved && bucket == self.buckets.start {
                try_push(&mut self.bumped, first..class_1)?;
                first = class_1;
                classes = [class_1..end, first..first, first..first];
                bits = 1;
            }
            for (class, range) in (0..).zip(classes) {
                let equations = range.clone().rev().map(|key| keys.equation(key, self.base));
                placed.clear();
                // Each equation takes at most one row.
                placed.try_reserve(range.len())?;
                if !rows.insert_all(equations, self.limit, |row| placed.push(row)) {
                    rows.free(&placed);
                    try_push(&mut self.bumped, first..range.end)?;
                    bits = class;
                    break;
                }
            }
            self.bumps.push(bits);
        }
        Ok(())
    }
}

kernels! {
    /// The banding function, compiled for this processor, because some instruction sets count zeros
    /// and shift in fewer instructions than others.
    struct Band[];
    |_simd|

    fn run(section: &mut Section, keys: Keys<'_>, rows: &mut Rows) -> Result<(), NoMemory> {
        section.run_here(keys, rows)
    }
}

/// Returns the first bucket of the tail of a shard.
pub(super) fn tail_of(shard: &std::ops::Range<usize>) -> usize {
    shard.end.saturating_sub(TAIL_BUCKETS).max(shard.start)
}

/// The 64 slots from the most recently solved slot on. Word `j` belongs to column `j` of a group.
/// Bit 0 of a word belongs to that slot, and the higher bits belong to the slots after it.
pub(super) type State = [u64; GROUP_COLUMNS as usize];

kernels! {
    /// The function of back-substitution, compiled for this processor.
    struct Solve[];
    |simd|

    /// Solves `rows`, from the last to the first. The rows after `rows` must be solved already;
    /// `state` holds their slots. `rows[i]` holds the coefficients of slot `i` and the next 63
    /// slots, or 0 if no key determines the slot.
    fn solve(rows: &[Row], group: usize, state: &mut State) {
        simd.substitute(state, Steps { rows: rows.iter(), group });
    }
}

/// The steps that solve rows, the last row first. A `map` with a closure would not be inlined.
struct Steps<'a> {
    rows: std::slice::Iter<'a, Row>,
    group: usize,
}

impl Iterator for Steps<'_> {
    type Item = (u64, u8);

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a group has eight columns")]
    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next_back().map(|row| (row.coefficients, column_group(row.sum, self.group) as u8))
    }
}

/// Solves `rows` with the kernel that [`Isa::detect`] selects: see [`Solve::solve`].
pub(super) fn solve(rows: &[Row], group: usize, state: &mut State) {
    Solve::new(Isa::detect()).solve(rows, group, state);
}

/// Solves whole blocks and writes their words of one group.
///
/// `first` is the number of the first block, and `words` begins with that block's words.
#[expect(clippy::indexing_slicing, reason = "the words have at most eight columns and lie within the group")]
pub(super) fn solve_blocks(
    rows: &[Row],
    first: usize,
    (blocks, columns, group): (Blocks, Columns, usize),
    state: &mut State,
    words: &mut [u8],
) {
    let of_group = columns.of_group(group);
    let is_last = group + 1 == columns.groups();
    let base = blocks.words_before(first, of_group, is_last);
    let pieces = rows.chunks_exact(BLOCK_SLOTS).enumerate().rev();
    let mut text = Vec::with_capacity(BLOCK_SLOTS);
    for (i, rows) in pieces {
        solve(rows, group, state);
        let from = (blocks.words_before(first + i, of_group, is_last) - base) * 8;
        let to = (blocks.words_before(first + i + 1, of_group, is_last) - base) * 8;
        text.clear();
        state.iter().for_each(|&word| put_u64(&mut text, word));
        words[from..to].copy_from_slice(&text[..to - from]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_from_finds_a_start_from_every_key_before_it() {
        let starts = Starts::new(10_000);
        for start in [1, 200, 9_000] {
            let least = starts.least_hash(start).unwrap();
            for below in 0..40 {
                let hashes: Vec<_> = (0..60).map(|i| KeyHash::from_raw(least - below + i)).collect();
                let keys = Keys { starts, hashes: &hashes, wanted: 0 };
                let below = usize::try_from(below).unwrap();
                assert_eq!(keys.first_of(start), below, "start {start}");
                for from in 0..=below {
                    assert_eq!(keys.first_from(from, start), below, "start {start}, from {from}");
                }
            }
        }
        let keys = Keys { starts, hashes: &[KeyHash::from_raw(u64::MAX)], wanted: 0 };
        assert_eq!(keys.first_from(0, 9_937), 1, "beyond the last start");
    }

    #[test]
    fn shards_of_a_layer_differ_by_at_most_one_bucket() {
        for (slots, is_one_shard, wanted) in [
            (200_000, true, 1),
            (64, false, 1),
            (9_920, false, 1),
            (65_536, false, 1),
            (65_600, false, 2),
            (140_000, false, 3),
        ] {
            let starts = Starts::new(slots);
            let shards = buckets_of_shards(starts, slots, is_one_shard).unwrap();
            let whole = shards.iter().flat_map(Clone::clone);
            assert!(whole.eq(0..starts.buckets()), "{slots} slots: {shards:?}");
            let lens: Vec<usize> = shards.iter().map(ExactSizeIterator::len).collect();
            assert_eq!(lens.len(), wanted, "{slots} slots, one shard: {is_one_shard}");
            assert!(lens.iter().max().unwrap() - lens.iter().min().unwrap() <= 1, "{slots} slots: {lens:?}");
        }
    }
}
