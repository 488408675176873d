//! Describes the first layer of a filter in 16 bytes. Most queries need nothing else, so they
//! follow no pointer except the one to the payload.
//!
//! The loads of a query do not depend on each other: the start of a key gives the addresses of its
//! bump bits and of its two blocks. So the processor can wait for all of them together. With up to
//! eight columns, no branch depends on whether the equation of a key holds.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::equation::Equation;
use super::hashes::column_group;
use super::layer::{Blocks, Columns, Starts, bump_byte, is_bumped};
use super::read::Geometry;
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::simd::{Simd, prefetch};

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
    /// Returns whether the equation holds in all columns. `whole` is the complete geometry of the
    /// filter. A group with missing bytes counts as a match.
    fn holds(simd: impl Simd, flat: Flat, whole: &Geometry, bytes: &[u8], start: usize, hash: u64) -> bool;

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
        if is_bumped(bumps, start) {
            return whole.ask_bumped(simd, bytes, hash);
        }
        F::holds(simd, self, whole, bytes, start, hash)
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

/// Prefetches the block of `start` and the next block, which are cache lines.
#[inline(always)]
fn prefetch_lines(bytes: &[u8], start: usize) {
    let from = start / BLOCK_SLOTS * BLOCK_SLOTS;
    prefetch(bytes, from);
    prefetch(bytes, from + BLOCK_SLOTS);
}

impl Blockwise for Lines {
    #[inline(always)]
    fn holds(simd: impl Simd, _: Flat, _: &Geometry, bytes: &[u8], start: usize, hash: u64) -> bool {
        holds_in_lines(simd, bytes, Equation::new(start, hash))
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
pub(super) fn holds_in_words(
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
    fn holds(simd: impl Simd, flat: Flat, _: &Geometry, bytes: &[u8], start: usize, hash: u64) -> bool {
        let place = words(start / BLOCK_SLOTS, flat.columns.into(), flat.fewer());
        let equation = Equation::new(start, hash);
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
    fn holds(simd: impl Simd, flat: Flat, whole: &Geometry, bytes: &[u8], start: usize, hash: u64) -> bool {
        let equation = Equation::new(start, hash);
        if !holds_in_lines(simd, bytes, equation) {
            return false;
        }
        // One absent key in 256 gets here.
        let columns = usize::from(flat.columns) - GROUP_COLUMNS as usize;
        if columns > GROUP_COLUMNS as usize {
            // The hash is passed instead of the equation, which would take stack space.
            return whole.others_hold(simd, bytes, hash, whole.groups());
        }
        let (from, used) = words(start / BLOCK_SLOTS, columns, flat.fewer());
        let place = (flat.second as usize + from, used);
        holds_in_words(simd, bytes, place, equation.split(), column_group(equation.sum, 1))
    }

    #[inline(always)]
    fn prefetch(_: Flat, bytes: &[u8], start: usize) {
        prefetch_lines(bytes, start);
    }
}
