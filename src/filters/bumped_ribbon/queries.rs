//! Queries a filter: with the description of its first layer alone, with the whole geometry, as a
//! batch, or without heap memory.
//!
//! Most queries need only [`Flat`], which describes the first layer in 16 bytes, so they follow no
//! pointer except the one to the payload. The loads of a query do not depend on each other: the start of
//! a key gives the addresses of its bump bits and of its two blocks. So the processor can wait for all
//! of them together. One branch decides whether a key is bumped or holds in the first eight columns. Most
//! absent keys end there.
//!
//! A batch queries up to 32 keys at once. The first step is plain arithmetic on arrays, which compilers
//! turn into vector code. Some filters, and batches of fewer than eight keys, are queried key by key.
//!
//! ```text
//! starts, coefficients, sums of all keys  ->  bumped or not  ->  cache lines of each key  ->  bumped keys, one by one
//! ```
//! In filters with more than eight columns, keys whose first eight columns match read further
//! columns, also one by one.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};

use super::hashes::{Equation, coefficients, column_group, fingerprint};
use super::layer::{Blocks, Columns, FirstGroup, Starts, bump_byte, is_bumped};
use super::read::{Geometry, Layer, Layers, MAX_LAYERS};
use super::{BLOCK_SLOTS, BumpedRibbon, GROUP_COLUMNS, Params};
use crate::filters::Header;
use crate::filters::filter::Query;
use crate::hash::KeyHash;
use crate::simd::{Portable, RESIDENT_LEN_BYTES, Simd, prefetch};

/// Queries a filter with any number of columns and layers.
impl Query for BumpedRibbon {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(simd: impl Simd, params: &Params, padded: &[u8], _: usize, hash: KeyHash) -> bool {
        params.whole.ask(simd, padded, hash, params.whole.groups())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        params: &Params,
        padded: &[u8],
        _: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        // `ask_batch` must not get more answers than keys, because it overwrites every answer.
        let answered = answers.len().min(hashes.len());
        let answers = answers.get_mut(..answered).unwrap_or_default();
        for (hashes, answers) in hashes.chunks(KEYS).zip(answers.chunks_mut(KEYS)) {
            params.whole.ask_batch(simd, padded, hashes, answers);
        }
    }

    #[inline(always)]
    fn prefetch(params: &Params, padded: &[u8], _: usize, hash: KeyHash) {
        let Some(flat) = params.flat else { return prefetch(padded, params.whole.first_byte(hash)) };
        match flat.form() {
            Form::Lines => flat.prefetch::<Lines>(padded, hash.raw()),
            Form::Words => flat.prefetch::<Words>(padded, hash.raw()),
            Form::Groups => flat.prefetch::<Groups>(padded, hash.raw()),
        }
    }
}

/// Queries a filter that has a [`Flat`](super::Flat).
impl<F: Blockwise> Query for FlatQuery<F> {
    type Filter = BumpedRibbon;

    #[inline(always)]
    fn may_contain(simd: impl Simd, params: &Params, padded: &[u8], _: usize, hash: KeyHash) -> bool {
        let Some(flat) = params.flat else { return true };
        flat.ask::<F>(&params.whole, simd, padded, hash.raw())
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        params: &Params,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        BumpedRibbon::may_contain_batch(simd, params, padded, len, hashes, answers);
    }

    #[inline(always)]
    fn prefetch(params: &Params, padded: &[u8], len: usize, hash: KeyHash) {
        BumpedRibbon::prefetch(params, padded, len, hash);
    }
}

/// The parameters of a filter that a query of its first layer needs. With thousands of filters,
/// each pointer that a query follows is one more cache miss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Flat {
    /// The last start. The offset of the first group of columns needs no field, because the payload
    /// begins with that group.
    last: NonZeroU32,
    /// The offset of the bump bits.
    bumps: u32,
    /// The offset of the second group of columns; 0 if there is only one group.
    second: u32,
    fewer_share: u16,
    columns: u8,
    form: Form,
}

const _: () = assert!(size_of::<Option<Flat>>() == 16);

/// The form of the blocks that a query reads. Each variant has a kernel of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Eight columns: a block is a cache line.
    Lines,
    /// Up to eight columns, but not eight in every block.
    Words,
    /// More than eight columns. The blocks of the first group are cache lines.
    Groups,
}

/// The queries of one [`Form`].
pub(crate) trait Blockwise {
    /// Returns whether the equation holds in the first group of columns. A group with missing bytes
    /// counts as a match.
    fn first_holds(simd: impl Simd, flat: Flat, bytes: &[u8], equation: Equation) -> bool;

    /// Returns whether the equation holds in the other groups. `whole` is the complete geometry of
    /// the filter.
    #[inline(always)]
    fn others_hold(_: impl Simd, _: Flat, _: &Geometry, _: &[u8], _: Equation, _hash: u64) -> bool {
        true
    }

    /// Prefetches the block of `start` and the next block, in the first group of columns.
    fn prefetch(flat: Flat, bytes: &[u8], start: usize);
}

/// The queries of [`Form::Lines`].
pub(crate) struct Lines;
/// The queries of [`Form::Words`].
pub(crate) struct Words;
/// The queries of [`Form::Groups`].
pub(crate) struct Groups;

/// The queries of a form, as a type for which a kernel is compiled.
pub(crate) struct FlatQuery<F>(PhantomData<F>);

impl Geometry {
    /// Returns the parameters of the first layer. Returns `None` if the filter has no layers, if
    /// the first layer has only one start, or if a start or an offset needs more than 32 bits.
    pub(super) fn flat(&self) -> Option<Flat> {
        let first = self.layers.first()?;
        let Columns { all, fewer_share } = self.columns;
        let form = match self.groups() {
            1 if first.asked.group.is_lines() => Form::Lines,
            1 => Form::Words,
            _ => Form::Groups,
        };
        let second = if form == Form::Groups { first.groups[1] } else { 0 };
        Some(Flat {
            last: NonZeroU32::new(u32::try_from(first.asked.starts.last()).ok()?)?,
            bumps: u32::try_from(first.asked.bumps).ok()?,
            second: u32::try_from(second).ok()?,
            fewer_share,
            columns: u8::try_from(all).ok()?,
            form,
        })
    }
}

impl Flat {
    #[inline(always)]
    pub(super) fn form(self) -> Form {
        self.form
    }

    #[inline(always)]
    pub(super) fn start(self, hash: u64) -> usize {
        Starts::with_last(self.last.get().into()).of(hash)
    }

    /// Returns the number of blocks that have one column less in the last group.
    #[inline(always)]
    fn fewer(self) -> usize {
        let blocks = (self.last.get() as usize + BLOCK_SLOTS) / BLOCK_SLOTS;
        Columns { all: self.columns.into(), fewer_share: self.fewer_share }.fewer(blocks)
    }

    /// Answers the query of a key. It uses `whole` only for keys that the first layer bumped and,
    /// with more than 16 columns, for the columns after the eighth.
    #[inline(always)]
    pub(super) fn ask<F: Blockwise>(self, whole: &Geometry, simd: impl Simd, bytes: &[u8], hash: u64) -> bool {
        let start = self.start(hash);
        let Some(&bumps) = bytes.get(self.bumps as usize + bump_byte(start)) else { return true };
        let (is_bumped, equation) = (is_bumped(bumps, start), Equation::new(start, hash));
        // One branch for both, because most queries end here.
        if !(is_bumped | F::first_holds(simd, self, bytes, equation)) {
            return false;
        }
        if is_bumped {
            return whole.ask_bumped(simd, bytes, hash);
        }
        F::others_hold(simd, self, whole, bytes, equation, hash)
    }

    /// Prefetches the bump bits of a key, and its blocks in the first group of columns.
    #[inline(always)]
    pub(super) fn prefetch<F: Blockwise>(self, bytes: &[u8], hash: u64) {
        let start = self.start(hash);
        prefetch(bytes, self.bumps as usize + bump_byte(start));
        F::prefetch(self, bytes, start);
    }
}

/// Returns whether an equation holds in two blocks of eight columns, which are cache lines. Returns
/// `true` if bytes are missing.
#[inline(always)]
fn holds_in_lines(simd: impl Simd, bytes: &[u8], equation: Equation) -> bool {
    let (low, high) = equation.split();
    let block = equation.start / BLOCK_SLOTS;
    // With the bound counted in cache lines, the bounds check is one comparison.
    let Some([first, second]) = bytes.as_chunks().0.get(block..block + 2) else { return true };
    simd.parities_of_64(first, second, low, high) == column_group(equation.sum, 0)
}

#[inline(always)]
fn prefetch_lines(bytes: &[u8], start: usize) {
    let from = start / BLOCK_SLOTS * BLOCK_SLOTS;
    prefetch(bytes, from);
    prefetch(bytes, from + BLOCK_SLOTS);
}

impl Blockwise for Lines {
    #[inline(always)]
    fn first_holds(simd: impl Simd, _: Flat, bytes: &[u8], equation: Equation) -> bool {
        holds_in_lines(simd, bytes, equation)
    }

    #[inline(always)]
    fn prefetch(_: Flat, bytes: &[u8], start: usize) {
        prefetch_lines(bytes, start);
    }
}

/// Returns the offset of a block's words in a group of columns, and the number of these words. The
/// words of the next block follow. Blocks before block `fewer` have `columns - 1` columns, the
/// others `columns`.
#[inline(always)]
fn words(block: usize, columns: usize, fewer: usize) -> (usize, usize) {
    let words = Blocks { count: 0, fewer }.words_before(block, columns, true);
    (8 * words, columns - usize::from(block < fewer))
}

/// Returns whether an equation holds in the columns of a group. `sums` has the right-hand side of
/// each column. `low` and `high` are the coefficients in the block of the start and in the next
/// block. `from` and `used` say where the words of the first block lie: see [`words`]. Returns
/// `true` if bytes are missing.
#[inline(always)]
fn holds_in_words(
    simd: impl Simd,
    bytes: &[u8],
    (from, used): (usize, usize),
    (low, high): (u64, u64),
    sums: u32,
) -> bool {
    let (first, second) = (bytes.get(from..), bytes.get(from + 8 * used..));
    let Some(first) = first.and_then(<[u8]>::first_chunk) else { return true };
    let Some(second) = second.and_then(<[u8]>::first_chunk) else { return true };
    let differ = simd.parities_of_64(first, second, low, high) ^ sums;
    differ & ((1 << used) - 1) == 0
}

impl Blockwise for Words {
    #[inline(always)]
    fn first_holds(simd: impl Simd, flat: Flat, bytes: &[u8], equation: Equation) -> bool {
        let place = words(equation.start / BLOCK_SLOTS, flat.columns.into(), flat.fewer());
        holds_in_words(simd, bytes, place, equation.split(), column_group(equation.sum, 0))
    }

    #[inline(always)]
    fn prefetch(flat: Flat, bytes: &[u8], start: usize) {
        let (from, used) = words(start / BLOCK_SLOTS, flat.columns.into(), flat.fewer());
        prefetch(bytes, from);
        prefetch(bytes, from + 64);
        // A block may have no column at all.
        prefetch(bytes, from + (16 * used).saturating_sub(1));
    }
}

impl Blockwise for Groups {
    #[inline(always)]
    fn first_holds(simd: impl Simd, _: Flat, bytes: &[u8], equation: Equation) -> bool {
        holds_in_lines(simd, bytes, equation)
    }

    /// One absent key in 256 gets here.
    #[inline(always)]
    fn others_hold(simd: impl Simd, flat: Flat, whole: &Geometry, bytes: &[u8], equation: Equation, hash: u64) -> bool {
        let columns = usize::from(flat.columns) - GROUP_COLUMNS as usize;
        if columns > GROUP_COLUMNS as usize {
            // The hash is passed instead of the equation, which would take stack space.
            return whole.others_hold(simd, bytes, hash, whole.groups());
        }
        let (from, used) = words(equation.start / BLOCK_SLOTS, columns, flat.fewer());
        let place = (flat.second as usize + from, used);
        holds_in_words(simd, bytes, place, equation.split(), column_group(equation.sum, 1))
    }

    #[inline(always)]
    fn prefetch(_: Flat, bytes: &[u8], start: usize) {
        prefetch_lines(bytes, start);
    }
}

/// The maximum number of keys of one call.
const KEYS: usize = 32;

impl Geometry {
    /// Answers for the first `answers.len()` keys. There must be at most [`KEYS`] answers. There
    /// must not be more answers than keys, because the extra answers would be overwritten.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a start is the index of a slot in memory")]
    #[expect(clippy::indexing_slicing, reason = "the arrays have KEYS elements, and indices are below KEYS")]
    fn ask_batch(&self, simd: impl Simd, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
        let groups = self.groups();
        let mut raw = [0; KEYS];
        raw.iter_mut().zip(hashes).for_each(|(raw, hash)| *raw = hash.raw());
        let asked_and_starts =
            self.layers.first().and_then(|layer| Some((layer.asked, layer.asked.starts.of_many(&raw)?)));
        let Some((asked, starts)) = asked_and_starts.filter(|_| self.is_worth_it(hashes.len(), bytes)) else {
            for (answer, &hash) in answers.iter_mut().zip(hashes) {
                *answer = self.ask(simd, bytes, hash, groups);
            }
            return;
        };
        let group = asked.group;
        // These are loops, because `map` of an array this long is compiled as a separate function,
        // without the instruction set of `simd`.
        let (mut low, mut high, mut sums) = ([0; KEYS], [0; KEYS], [0; KEYS]);
        for i in 0..KEYS {
            let (all, shift) = (coefficients(raw[i]), starts[i] % BLOCK_SLOTS as u64);
            low[i] = all << shift;
            high[i] = (all >> 1) >> (BLOCK_SLOTS as u64 - 1 - shift);
            sums[i] = column_group(fingerprint(raw[i]), 0);
        }
        prefetch_blocks(bytes, group, starts.iter().take(hashes.len()));
        let mut bumps = [0; KEYS];
        for (byte, &start) in bumps.iter_mut().zip(&starts) {
            *byte = bytes.get(asked.bumps + bump_byte(start as usize)).copied().unwrap_or_default();
        }
        let mut bumped = 0u32;
        for i in 0..KEYS {
            bumped |= u32::from(is_bumped(bumps[i], starts[i] as usize)) << i;
        }
        let mut bumped = bumped & (u32::MAX >> KEYS.saturating_sub(hashes.len()));
        let block = |i: usize| starts[i] as usize / BLOCK_SLOTS;
        match group.lines(bytes) {
            Some(lines) => {
                for (i, answer) in answers.iter_mut().enumerate().take(KEYS) {
                    let Some([first, second]) = lines.get(block(i)..).and_then(<[_]>::first_chunk) else {
                        *answer = true;
                        continue;
                    };
                    *answer = simd.parities_of_64(first, second, low[i], high[i]) == sums[i];
                }
            }
            None => {
                for (i, answer) in answers.iter_mut().enumerate().take(KEYS) {
                    *answer = group.holds_split(simd, bytes, block(i), (low[i], high[i]), sums[i]);
                }
            }
        }
        if groups > 1 {
            for (i, answer) in answers.iter_mut().take(KEYS).enumerate().filter(|(_, answer)| **answer) {
                *answer = match self.layers.first() {
                    Some(layer) if groups == 2 => {
                        let place = layer.words(self.columns, block(i), (1, &layer.groups[1]));
                        holds_in_words(simd, bytes, place, (low[i], high[i]), column_group(fingerprint(raw[i]), 1))
                    }
                    _ => self.others_hold(simd, bytes, raw[i], groups),
                };
            }
        }
        while bumped != 0 {
            let i = bumped.trailing_zeros() as usize;
            bumped &= bumped - 1;
            if let Some(answer) = answers.get_mut(i) {
                *answer = self.ask_slowly(simd, bytes, KeyHash::from_raw(raw[i]), groups);
            }
        }
    }

    /// Returns whether the batch has enough keys to be faster than single queries, and `bytes` has
    /// at least 64 bytes after the payload. Without these bytes, loads at the end of the payload
    /// would fail.
    #[inline(always)]
    fn is_worth_it(&self, keys: usize, bytes: &[u8]) -> bool {
        keys >= KEYS / 4 && bytes.len() >= self.payload_len + BLOCK_SLOTS
    }
}

/// For each start, prefetches the two blocks that a query reads, if `bytes` has more than
/// [`RESIDENT_LEN_BYTES`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a start is the index of a slot in memory")]
fn prefetch_blocks<'a>(bytes: &[u8], group: FirstGroup, starts: impl Iterator<Item = &'a u64>) {
    if bytes.len() > RESIDENT_LEN_BYTES {
        for &start in starts {
            let at = group.offset(start as usize / BLOCK_SLOTS);
            prefetch(bytes, at);
            prefetch(bytes, at + BLOCK_SLOTS);
        }
    }
}

/// The number of layers for which most queries reserve room. [`Unread::may_contain`] overestimates
/// the number of layers by up to two, so three layers always fit. They are enough for about 60
/// million keys, or for about 12 million keys in a compact filter.
const USUAL_LAYERS: usize = 5;

/// Up to `N` layers inside the geometry, without heap memory.
struct Inline<const N: usize> {
    all: [Layer; N],
    len: usize,
}

impl<const N: usize> Default for Inline<N> {
    fn default() -> Self {
        Self { all: std::array::from_fn(|_| Layer::new(0, Columns { all: 1, fewer_share: 0 })), len: 0 }
    }
}

impl<const N: usize> Deref for Inline<N> {
    type Target = [Layer];

    #[inline]
    fn deref(&self) -> &[Layer] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> DerefMut for Inline<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Layer] {
        self.all.get_mut(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> Layers for Inline<N> {
    fn push(&mut self, layer: Layer) {
        // `Unread::may_contain` chooses `N` so that every layer has room.
        if let Some(free) = self.all.get_mut(self.len) {
            *free = layer;
            self.len += 1;
        }
    }
}

/// A header that was not read yet, and the numbers that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct Unread<'a> {
    pub(in crate::filters) header: Header<'a>,
    pub(in crate::filters) num_keys: u64,
    pub(in crate::filters) len_bytes: u64,
}

impl Unread<'_> {
    /// Reads the geometry and answers the query. Answers "maybe" if the geometry is not valid.
    pub(in crate::filters) fn may_contain(&self, padded: &[u8], hash: KeyHash) -> bool {
        // The record has one varint for each layer and a zero. If there is a single system, a
        // varint and a seed byte follow. The last byte of a varint is below 128.
        let most_layers = self.header.record.iter().filter(|&&byte| byte < 0x80).count().saturating_sub(1);
        if most_layers <= USUAL_LAYERS {
            self.ask::<USUAL_LAYERS>(padded, hash)
        } else {
            self.ask::<MAX_LAYERS>(padded, hash)
        }
    }

    /// Answers the query with a geometry of at most `N` layers. This function is not inlined,
    /// because the geometry takes much of the stack.
    #[inline(never)]
    fn ask<const N: usize>(&self, padded: &[u8], hash: KeyHash) -> bool {
        let ribbon =
            Geometry::<Inline<N>>::parse(self.header.params, &self.header.record, self.num_keys, self.len_bytes);
        ribbon.map_or(true, |ribbon| ribbon.ask(Portable, padded, hash, ribbon.groups()))
    }
}
