//! Defines the geometry of a payload, queries its layers and its single system, and drops columns of
//! a finished filter.
//!
//! The columns are independent systems of equations over the same starts and coefficients, so the
//! first `c` columns of a filter are a filter of `c` columns. A payload stores its groups of eight
//! columns one after the other. So if `c` is a multiple of eight, the beginning of the payload is the
//! payload of the first `c` columns, and needs no copy. Any other `c` needs a copy, because a block
//! stores its words of all columns of a group together.

use std::fmt;
use std::ops::DerefMut;

use super::hashes::{Equation, MAX_GROUPS, column_group, remix};
use super::layer::{Blocks, Columns, FirstGroup, Starts, bump_byte, bumps_len_bytes, is_bumped};
use super::small::Small;
use super::{BLOCK_SLOTS, MAX_COLUMNS};
use crate::codec::Cursor;
use crate::error::{Error, Field, Result, too_large};
use crate::filters::Header;
use crate::filters::build::zeros;
use crate::hash::KeyHash;
use crate::simd::Simd;

/// The maximum number of layers that bump keys. A layer bumps about one key in 25, so 2^36 keys
/// need six layers. In a compact filter, a layer bumps about one key in 14, so 2^36 keys need seven
/// layers.
pub(super) const MAX_LAYERS: usize = 12;

/// The minimum length of the payload per layer, if there are two or more layers. It ensures that
/// the layers take no more of a reader's memory than the payload.
const MIN_LAYER_LEN_BYTES: u64 = 128;
const _: () = assert!(size_of::<Layer>() <= 128);

/// The maximum number of blocks. It ensures that slot numbers and the lengths of groups do not
/// overflow, even with 32-bit addresses.
const MAX_BLOCKS: usize = usize::MAX / 128;

/// The layout of a payload: its columns, its layers and its single system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geometry<L = Vec<Layer>> {
    pub(super) columns: Columns,
    pub(super) layers: L,
    /// The single system. It is `None` if the last layer bumped no key.
    pub(super) last: Option<Small>,
    pub(super) payload_len: usize,
}

/// The storage for the layers of a geometry.
pub(crate) trait Layers: Default + DerefMut<Target = [Layer]> {
    /// Appends a layer. There are at most [`MAX_LAYERS`] layers.
    fn push(&mut self, layer: Layer);
}

/// Stores the layers on the heap, for a geometry that is kept.
impl Layers for Vec<Layer> {
    fn push(&mut self, layer: Layer) {
        Self::push(self, layer);
    }
}

/// A layer that bumps keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    pub(super) asked: Asked,
    pub(super) blocks: Blocks,
    /// The offset of each group of columns.
    pub(super) groups: [usize; MAX_GROUPS],
}

/// The part of a layer that nearly every query needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    pub(super) starts: Starts,
    /// The offset of the bump bits, two bits per bucket.
    pub(super) bumps: usize,
    pub(super) group: FirstGroup,
}

impl Layer {
    pub(super) fn new(blocks: usize, columns: Columns) -> Self {
        let blocks = Blocks::new(blocks, columns);
        let starts = Starts::new(blocks.count * BLOCK_SLOTS);
        let group = FirstGroup::new(0, blocks, columns);
        Self { asked: Asked { starts, bumps: 0, group }, blocks, groups: [0; MAX_GROUPS] }
    }
}

impl Asked {
    /// Returns whether a key was bumped, or `None` if the payload ends before its bump bits.
    #[inline(always)]
    fn bumped(&self, bytes: &[u8], start: usize) -> Option<bool> {
        Some(is_bumped(*bytes.get(self.bumps + bump_byte(start))?, start))
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "columns: {}", self.columns.all)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let Blocks { count, fewer } = layer.blocks;
            write!(f, "; layer {i}: {count} blocks of {BLOCK_SLOTS} slots, {fewer} with one column less")?;
        }
        let Some(last) = &self.last else { return Ok(()) };
        write!(f, "; {} slots in the single system, seed {}", last.slots, last.seed)?;
        write!(f, ", {} of {} whole blocks with one column less", last.blocks.fewer, last.blocks.count)
    }
}

impl<L: Layers> Geometry<L> {
    /// Assigns offsets to the groups and bump bits of all layers, and to the groups of the single
    /// system. Returns `None` if the offsets overflow.
    pub(super) fn lay_out(columns: Columns, mut layers: L, mut last: Option<Small>) -> Option<Self> {
        let mut at = 0usize;
        let mut take = |len: usize| {
            let from = at;
            at = at.checked_add(len)?;
            Some(from)
        };
        for group in 0..columns.groups() {
            for layer in layers.iter_mut() {
                *layer.groups.get_mut(group)? = take(layer.blocks.len_bytes(columns, group))?;
                layer.asked.group = FirstGroup::new(layer.groups[0], layer.blocks, columns);
            }
            if let Some(small) = &mut last {
                *small.groups.get_mut(group)? = take(small.len_bytes(columns, group))?;
                small.first = FirstGroup::new(small.groups[0], small.blocks, columns);
            }
            if group == 0 {
                for layer in layers.iter_mut() {
                    layer.asked.bumps = take(bumps_len_bytes(layer.asked.starts.buckets()))?;
                }
            }
        }
        Some(Self { columns, layers, last, payload_len: at })
    }

    /// Reads a header. The first of `params` is the number of columns. Without layers, the second is
    /// the seed of the single system, and the third is its number of spare slots. With layers, the
    /// second and the third are the share of blocks with one column less, in 65,536ths, low byte
    /// first.
    pub(super) fn parse(params: [u8; 3], record: &[u8], num_keys: u64, len_bytes: u64) -> Result<Self> {
        let [all, rest @ ..] = params;
        let all = u32::from(all);
        if !(1..=MAX_COLUMNS).contains(&all) {
            return Err(Error::corrupt(Field::Params));
        }
        if num_keys == 0 {
            return Err(Error::corrupt(Field::NumKeys));
        }
        let geometry = if record.is_empty() {
            let [seed, spare] = rest;
            Self::of_single(all, seed, num_keys.saturating_add(spare.into()), len_bytes)
        } else {
            let [low, high] = rest;
            let columns = Columns { all, fewer_share: u16::from(high) << 8 | u16::from(low) };
            Self::of_layers(columns, record, len_bytes)?
        };
        geometry.filter(|found| found.payload_len as u64 == len_bytes).ok_or_else(|| Error::corrupt(Field::PayloadLen))
    }

    /// Reads a single system. The number of blocks with one column less follows from the length of
    /// the payload.
    fn of_single(all: u32, seed: u8, slots: u64, len_bytes: u64) -> Option<Self> {
        let columns = Columns { all, fewer_share: 0 };
        // With one column, a block with one column less takes no bits. So this check allows 64
        // slots per bit of the payload.
        let is_possible =
            |slots: usize| slots as u64 <= len_bytes.saturating_mul(8 * 64) && slots / BLOCK_SLOTS <= MAX_BLOCKS;
        let slots = usize::try_from(slots).ok().filter(|&slots| is_possible(slots))?;
        let full = Self::lay_out(columns, L::default(), Some(Small::new(slots, seed, columns)))?.payload_len;
        let missing = full.checked_sub(usize::try_from(len_bytes).ok()?)?;
        let mut small = Small::new(slots, seed, columns);
        small.blocks.fewer = missing / 8;
        if small.blocks.fewer > small.blocks.count {
            return None;
        }
        Self::lay_out(columns, L::default(), Some(small))
    }

    /// Reads the record: the number of blocks of each layer, a zero, and the slots and the seed of
    /// the single system, if there is one.
    fn of_layers(columns: Columns, record: &[u8], len_bytes: u64) -> Result<Option<Self>> {
        let mut cursor = Cursor::new(record, 0);
        // Each bucket of 128 starts has two bits in the payload, so the payload's length bounds the
        // number of blocks.
        let most_blocks = usize::try_from(len_bytes.saturating_mul(8)).map_or(MAX_BLOCKS, |most| most.min(MAX_BLOCKS));
        let mut layers = L::default();
        loop {
            let blocks = cursor.take_varint_usize(Field::Extension)?;
            if blocks == 0 {
                break;
            }
            if blocks > most_blocks || layers.len() == MAX_LAYERS {
                return Err(cursor.corrupt(Field::Extension).into());
            }
            layers.push(Layer::new(blocks, columns));
        }
        let mut last = None;
        if !cursor.is_empty() {
            let slots = cursor.take_varint_usize(Field::Extension)?;
            if slots == 0 || slots / BLOCK_SLOTS > most_blocks {
                return Err(cursor.corrupt(Field::Extension).into());
            }
            last = Some(Small::new(slots, cursor.take_u8(Field::Extension)?, columns));
        }
        // Without this check, a short payload could make a reader keep many layers.
        let is_long_enough = layers.len() < 2 || len_bytes >= MIN_LAYER_LEN_BYTES * layers.len() as u64;
        if !cursor.is_empty() || layers.is_empty() || !is_long_enough {
            return Err(cursor.corrupt(Field::Extension).into());
        }
        Ok(Self::lay_out(columns, layers, last))
    }

    fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Returns the expected FPR: the mean over the layers and the single system, weighted by slots.
    /// Each added key takes one slot, so the share of slots is about the share of queries.
    pub(super) fn expected_fpr(&self) -> f64 {
        let rate = 0.5f64.powi(self.columns.all.cast_signed());
        let blocks = self.layers.iter().map(|layer| (layer.asked.starts, layer.blocks));
        let all = blocks.chain(self.last.iter().map(|last| (last.starts, last.blocks)));
        let (mut slots, mut weighted) = (0.0, 0.0);
        for (starts, blocks) in all {
            let share = starts.share_below((blocks.fewer * BLOCK_SLOTS) as u64);
            let weight = (blocks.count * BLOCK_SLOTS).max(1) as f64;
            slots += weight;
            weighted += weight * rate * (1.0 + share);
        }
        weighted / slots.max(1.0)
    }

    /// Returns whether the equation of the key holds in the first `groups` groups of columns.
    /// `bytes` begins with the payload, and should have at least 64 bytes after it. A group with
    /// missing bytes counts as a match.
    #[inline(always)]
    pub(super) fn ask(&self, simd: impl Simd, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
        let Some(Layer { asked, .. }) = self.layers.first() else {
            return self.ask_slowly(simd, bytes, hash, groups);
        };
        let start = asked.starts.of(hash.raw());
        // The rare case is a tail call: a call that returns would make this function save six
        // registers.
        if asked.bumped(bytes, start) != Some(false) {
            return self.ask_slowly(simd, bytes, hash, groups);
        }
        let holds = asked.group.holds(simd, bytes, Equation::new(start, hash.raw()));
        // With one group there is no branch on the answer, because the processor could not predict
        // the branch.
        if groups == 1 {
            return holds;
        }
        if holds { self.others_hold(simd, bytes, hash.raw(), groups) } else { false }
    }

    /// Answers for a key that the first layer bumped.
    ///
    /// Each step may be a cache miss. So if there is only one layer, the function queries the
    /// single system at once, and does not read the layer's parameters.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_bumped(&self, simd: impl Simd, bytes: &[u8], hash: u64) -> bool {
        match &self.last {
            Some(last) if self.layers.len() == 1 => last.ask(simd, self.columns, bytes, remix(hash), self.groups()),
            _ => self.ask_slowly(simd, bytes, KeyHash::from_raw(hash), self.groups()),
        }
    }

    /// Answers like [`Geometry::ask`] for a key that the first layer bumped, or if there is no
    /// layer.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_slowly(&self, simd: impl Simd, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
        let mut hash = hash.raw();
        for layer in self.layers.iter() {
            let start = layer.asked.starts.of(hash);
            match layer.asked.bumped(bytes, start) {
                None => return true,
                Some(true) => hash = remix(hash),
                Some(false) => {
                    let equation = Equation::new(start, hash);
                    return layer.asked.group.holds(simd, bytes, equation)
                        && (groups == 1 || layer.others_hold(simd, self.columns, bytes, equation, groups));
                }
            }
        }
        self.last.as_ref().is_some_and(|last| last.ask(simd, self.columns, bytes, hash, groups))
    }

    /// Returns whether the equation of a key that the first layer did not bump holds in the groups
    /// after the first. One absent key in 256 gets here.
    #[inline(never)]
    pub(super) fn others_hold(&self, simd: impl Simd, bytes: &[u8], hash: u64, groups: usize) -> bool {
        self.layers.first().is_none_or(|layer| {
            let equation = Equation::new(layer.asked.starts.of(hash), hash);
            layer.others_hold(simd, self.columns, bytes, equation, groups)
        })
    }

    #[inline(always)]
    pub(super) fn groups(&self) -> usize {
        self.columns.groups()
    }

    /// Returns whether all bytes on which the answer depends are valid, including the bits that say
    /// whether the key was bumped. For a key of the single system, the whole system must be valid.
    pub(super) fn is_proven(&self, bytes: &[u8], hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        let mut hash = hash.raw();
        for layer in self.layers.iter() {
            let start = layer.asked.starts.of(hash);
            let at = layer.asked.bumps + bump_byte(start);
            if !is_valid(at, 1) {
                return false;
            }
            if !bytes.get(at).is_some_and(|&byte| is_bumped(byte, start)) {
                return layer.groups.iter().take(self.groups()).enumerate().all(|group| {
                    let (from, len) = layer.span(self.columns, start, group);
                    is_valid(from, len)
                });
            }
            hash = remix(hash);
        }
        self.last.as_ref().is_none_or(|last| {
            let mut parts = last.groups.iter().take(self.groups()).enumerate();
            parts.all(|(group, &from)| is_valid(from, last.len_bytes(self.columns, group)))
        })
    }

    /// Returns the offset at which a query begins to read columns, if the first layer did not bump
    /// its key. Returns 0 if there are no layers.
    #[inline(always)]
    pub(super) fn first_byte(&self, hash: KeyHash) -> usize {
        let Some(Layer { asked, .. }) = self.layers.first() else { return 0 };
        asked.group.offset(asked.starts.of(hash.raw()) / BLOCK_SLOTS)
    }
}

impl Geometry {
    /// Reads a header: see [`Geometry::parse`].
    pub(super) fn new(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Self> {
        Self::parse(header.params, &header.record, num_keys, len_bytes)
    }
}

impl Layer {
    /// Returns the offset of a block's words in the payload, and the number of these words. `group`
    /// is the number of the group, and `from` is the offset of the group.
    #[inline(always)]
    pub(super) fn words(&self, columns: Columns, block: usize, (group, &from): (usize, &usize)) -> (usize, usize) {
        let of_group = columns.of_group(group);
        let is_last = group + 1 == columns.groups();
        let offset = from + 8 * self.blocks.words_before(block, of_group, is_last);
        (offset, of_group - usize::from(is_last && block < self.blocks.fewer))
    }

    /// Returns the offset and the length of the words that a query with this start reads in one
    /// group.
    fn span(&self, columns: Columns, start: usize, group: (usize, &usize)) -> (usize, usize) {
        let (from, used) = self.words(columns, start / BLOCK_SLOTS, group);
        // If a start is the first slot of a block, the query does not use the second block. That
        // block may not exist.
        let blocks = if start.is_multiple_of(BLOCK_SLOTS) { 1 } else { 2 };
        (from, 8 * used * blocks)
    }

    /// Returns whether the equation holds in the groups after the first. A group with missing bytes
    /// counts as a match.
    #[inline]
    fn others_hold(&self, simd: impl Simd, columns: Columns, bytes: &[u8], equation: Equation, groups: usize) -> bool {
        let (low, high) = equation.split();
        self.groups.iter().enumerate().take(groups).skip(1).all(|group| {
            let (from, used) = self.words(columns, equation.start / BLOCK_SLOTS, group);
            let Some(from) = bytes.get(from..) else { return true };
            let Some(second) = from.get(8 * used..) else { return true };
            let (Some(first), Some(second)) = (from.first_chunk(), second.first_chunk()) else { return true };
            let differ = simd.parities_of_64(first, second, low, high) ^ column_group(equation.sum, group.0);
            differ & ((1 << used) - 1) == 0
        })
    }
}

impl Geometry {
    /// Returns the geometry of the first `columns` columns. Returns `None` if the filter has at
    /// most `columns` columns, or if `columns` is 0.
    pub(super) fn with_columns(&self, columns: u32) -> Option<Self> {
        // Blocks with one column less have `all - 1` columns, which are at least `columns`.
        if columns == 0 || columns >= self.columns.all {
            return None;
        }
        let columns = Columns { all: columns, fewer_share: 0 };
        let layers = self.layers.iter().map(|layer| Layer::new(layer.blocks.count, columns)).collect();
        let last = self.last.as_ref().map(|last| Small::new(last.slots, last.seed, columns));
        Self::lay_out(columns, layers, last)
    }

    /// Returns the header of this geometry, which [`Geometry::with_columns`] made from a filter with
    /// the header `whole`.
    pub(super) fn header_like(&self, whole: &Header<'_>) -> Header<'static> {
        // With layers, the last two parameters are the share of blocks with one column less. This
        // share is 0, because `with_columns` makes blocks with equal numbers of columns. For a
        // single system, the last two parameters are its seed and its number of spare slots.
        let [_, seed, spare] = whole.params;
        let rest = if self.has_layers() { [0; 2] } else { [seed, spare] };
        Header { params: [self.columns.param(), rest[0], rest[1]], ..whole.clone().into_owned() }
    }

    /// Copies the columns of `to`, which [`Geometry::with_columns`] made, out of the payload of
    /// this geometry. Returns an error if the payload is too short, because zeros in the copy would
    /// deny present keys.
    pub(super) fn copy_columns(&self, payload: &[u8], to: &Self) -> Result<Vec<u8>> {
        let mut copy = zeros(to.payload_len).map_err(too_large("a shrunk filter"))?;
        self.copy_to(payload, to, &mut copy).ok_or(Error::corrupt(Field::PayloadLen))?;
        Ok(copy)
    }

    /// Copies the columns and the bump bits of all layers, and the columns of the single system.
    /// Returns `None` if any of the bytes is missing.
    fn copy_to(&self, payload: &[u8], to: &Self, copy: &mut [u8]) -> Option<()> {
        for group in 0..to.columns.groups() {
            for (layer, new) in self.layers.iter().zip(&to.layers) {
                let from =
                    Words { blocks: layer.blocks, columns: self.columns, group, start: *layer.groups.get(group)? };
                let into = Words { blocks: new.blocks, columns: to.columns, group, start: *new.groups.get(group)? };
                from.copy_to(payload, into, copy)?;
                if group == 0 {
                    let len = bumps_len_bytes(layer.asked.starts.buckets());
                    let bumps = payload.get(layer.asked.bumps..)?.get(..len)?;
                    copy.get_mut(new.asked.bumps..)?.get_mut(..len)?.copy_from_slice(bumps);
                }
            }
            if let (Some(last), Some(new)) = (&self.last, &to.last) {
                let from = Words { blocks: last.blocks, columns: self.columns, group, start: *last.groups.get(group)? };
                let into = Words { blocks: new.blocks, columns: to.columns, group, start: *new.groups.get(group)? };
                from.copy_to(payload, into, copy)?;
                // The short block stores its columns one after another without padding. So the kept
                // columns may end inside a byte, and the rest of that byte is cleared.
                let bits = new.tail() * to.columns.of_group(group);
                let tail = payload.get(from.offset(last.blocks.count)..)?.get(..bits.div_ceil(8))?;
                let new_tail = copy.get_mut(into.offset(new.blocks.count)..)?.get_mut(..bits.div_ceil(8))?;
                new_tail.copy_from_slice(tail);
                if let Some(byte) = new_tail.last_mut().filter(|_| !bits.is_multiple_of(8)) {
                    *byte &= (1 << (bits % 8)) - 1;
                }
            }
        }
        Some(())
    }
}

/// The words of whole blocks in one group of columns.
#[derive(Clone, Copy)]
struct Words {
    blocks: Blocks,
    columns: Columns,
    group: usize,
    /// The offset of the group.
    start: usize,
}

impl Words {
    fn offset(self, block: usize) -> usize {
        let is_last = self.group + 1 == self.columns.groups();
        self.start + 8 * self.blocks.words_before(block, self.columns.of_group(self.group), is_last)
    }

    /// Copies the columns of `into` in every block. Returns `None` if any of the bytes is missing.
    fn copy_to(self, payload: &[u8], into: Self, copy: &mut [u8]) -> Option<()> {
        let len = 8 * into.columns.of_group(into.group);
        (0..self.blocks.count).try_for_each(|block| {
            let words = payload.get(self.offset(block)..)?.get(..len)?;
            copy.get_mut(into.offset(block)..)?.get_mut(..len)?.copy_from_slice(words);
            Some(())
        })
    }
}
