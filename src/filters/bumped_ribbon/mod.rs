//! Implements the bumped ribbon filter. With eight columns and 4,096 keys or more, the payload
//! takes on average less than 1 % more space than the FPR lower bound. With eight columns, a query
//! usually reads one byte of bump bits and two adjacent cache lines.
//!
//! ```text
//! hash ──reduce, clamp──▶ start s          sorted hashes give sorted starts, so a build reads its keys in order
//!      ──coefficients───▶ 64 bits c        which of the 64 slots from s on are used
//!      ──fingerprint────▶ r bits f         the right-hand side:  XOR of slot[s + j] over the set bits j of c = f
//! ```
//! A slot has `r` bits, so the equation of an absent key holds with probability `2^-r`. To find the
//! slots, a build solves one linear equation per key over GF(2) (Dillinger, Walzer, "Ribbon filter:
//! practically smaller than Bloom and Xor", 2021).
//!
//! A layer has fewer slots than keys, so hardly any slot stays unused. If a key's equation does not
//! fit, the key is *bumped* to the next layer, which is smaller and has the same form. A bucket of
//! 128 starts bumps whole classes of keys: the class of the key, and the classes with smaller
//! starts. Two bits per bucket tell the reader which classes were bumped (Dillinger,
//! Hübschle-Schneider, Sanders, Walzer, "Fast succinct retrieval and approximate membership using
//! ribbon", 2022). The keys that the last layer bumps go into a single system with about one spare
//! slot in a hundred ([`small`]). A filter of few keys has only a single system.
//!
//! ```text
//! payload  | columns 0..8 of layer 0 | of layer 1 | .. | of the system | bumps of layer 0 | 1 | .. | columns 8..16 of layer 0 | ..
//! columns  | block 0: one word of 64 slots per column | block 1 | ..
//! ```
//! A block of eight columns is a cache line. Columns are stored in groups of eight, one group after
//! the other. A query of an absent key reads the second group only once in 256 times. In the last
//! group, the first `fewer` blocks of a layer or system have one column less, which gives FPRs
//! between the powers of two.

mod band;
mod build;
mod hashes;
mod layer;
mod queries;
mod read;
mod small;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use build::{
    KEYS_A_SPARE_SLOT, MAX_SINGLE_KEYS, NEAR_BORDER_KEYS, ONE_TRY_KEYS, SURELY_SINGLE_KEYS, choose_columns, density,
    first_spare,
};
use layer::{Columns, Starts};
use queries::{Flat, FlatQuery, Form, Groups, Lines, Words};
use read::Geometry;

use super::build::{Effort, Header};
use super::filter::{Budget, Built, Compiled, Filter, Info, Planned, TOO_LARGE_FOR_MEMORY};
use super::math::{self, lines_of, loaded_pair_lines};
use crate::codec::put_varint;
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::{Isa, NoMemory};

pub(super) use queries::Unread;

pub(crate) struct BumpedRibbon;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Params {
    /// The parameters that most queries need, if they have a [`Form`].
    flat: Option<Flat>,
    whole: Arc<Geometry>,
}

impl From<Geometry> for Params {
    fn from(whole: Geometry) -> Self {
        Self { flat: whole.flat(), whole: Arc::new(whole) }
    }
}

impl Filter for BumpedRibbon {
    type Params = Params;

    const INFO: Info = Info {
        name: "bumped-ribbon",
        description: "one linear equation per key; bumped keys are in later layers or in the single system",
        example_bits: 7.0,
        lowest_rate: "the lowest FPR of bumped-ribbon is 2.4e-10, with 32 columns; use bloom (2.8e-11 at the lowest)",
        has_compact_build: true,
        ..Info::COMMON
    };

    /// Returns `2^-b` for `b` bits per key, of which at most 32 count.
    fn rate_of_many(millibits: u32) -> f64 {
        (-f64::from(millibits.min(MAX_COLUMNS * 1000)) / 1000.0).exp2()
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        planned(budget, num_keys).ok_or(TOO_LARGE_FOR_MEMORY)
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        build::build(budget, hashes, effort)
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Params> {
        Geometry::new(header, num_keys, len_bytes).map(Params::from)
    }

    fn expected_fpr(params: &Params, num_keys: u64, _: u64) -> f64 {
        math::with_equal_hashes(params.whole.expected_fpr(), num_keys)
    }

    fn probes(params: &Params) -> u32 {
        params.whole.columns.all
    }

    fn describe(params: &Params, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", params.whole)
    }

    fn columns(params: &Params) -> Option<u32> {
        Some(params.whole.columns.all)
    }

    fn asked_len(params: &Params, len: usize) -> usize {
        params.whole.payload_len.min(len)
    }

    fn with_columns(params: &Params, columns: u32) -> Option<Params> {
        params.whole.with_columns(columns).map(Params::from)
    }

    fn copy_columns(
        params: &Params,
        header: &Header<'_>,
        payload: &[u8],
        to: &Params,
    ) -> Result<(Header<'static>, Vec<u8>)> {
        let copy = params.whole.copy_columns(payload, &to.whole)?;
        Ok((to.whole.header_like(header), copy))
    }

    fn compile<C: Compiled>(params: &Params, isa: Isa) -> C {
        match params.flat.map(Flat::form) {
            Some(Form::Lines) => C::of::<FlatQuery<Lines>>(isa),
            Some(Form::Words) => C::of::<FlatQuery<Words>>(isa),
            Some(Form::Groups) => C::of::<FlatQuery<Groups>>(isa),
            None => C::of::<Self>(isa),
        }
    }

    #[inline]
    fn is_proven(
        params: &Params,
        padded: &[u8],
        _: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        params.whole.is_proven(padded, hash, is_valid)
    }
}

/// The number of slots of a block. Their bits of one column form a word.
const BLOCK_SLOTS: usize = 64;
const GROUP_COLUMNS: u32 = 8;
/// The maximum number of columns, which is the number of bits of the fingerprint.
const MAX_COLUMNS: u32 = 32;
/// The number of starts of a bucket. They share a threshold below which keys were bumped.
const BUCKET_STARTS: usize = 128;
/// The numbers of extra starts before the first start and after the last start. A key with an extra
/// start gets the first or the last start. Fewer keys reach the slots at both ends, so without the
/// extra starts more of these slots stay empty. With 4,096 keys, the extra starts lower the share
/// of empty slots from 0.67 % to 0.33 % (docs/DESIGN.md, "clamped starts").
const LEFT: u64 = 24;
const RIGHT: u64 = 16;
/// The thresholds of a bucket. If the two bits of the bucket are `b`, the bucket bumped all keys
/// whose start lies less than `THRESHOLDS[b]` above its first start.
///
/// Keys with small starts are bumped first: if the bucket before is full, its equations move on to
/// the first slots of this bucket.
const THRESHOLDS: [u8; 4] = [128, 34, 15, 0];
const _: () = assert!(THRESHOLDS[0] as usize == BUCKET_STARTS, "threshold 0 must bump the whole bucket");

/// Returns the share of a layer's slots that stay empty, by slots per thousand keys: see `Density`.
fn empty_share(slots_per_mille: u128) -> f64 {
    match slots_per_mille {
        970.. => 0.0016,
        960..970 => 0.001,
        // A compact filter has 930 slots per thousand keys.
        _ => 0.0002,
    }
}

/// The number of empty slots at the ends of a layer, in addition to [`empty_share`]. It does not
/// depend on the length of the layer.
const EMPTY_AT_ENDS: u64 = 20;

const SLOTS: u64 = BLOCK_SLOTS as u64;

/// The layers of a planned filter, and the slots of its single system.
struct Layout {
    columns: Columns,
    /// The number of blocks of each layer.
    layers: Vec<u64>,
    /// The number of slots of the system after the layers, or 0 if there is none.
    last_slots: u64,
}

impl Layout {
    fn blocks_len_bytes(&self, blocks: u64) -> u64 {
        8 * (blocks * u64::from(self.columns.all) - self.fewer(blocks))
    }

    fn fewer(&self, blocks: u64) -> u64 {
        u64::try_from((u128::from(blocks) * u128::from(self.columns.fewer_share)) >> 16).unwrap_or(blocks)
    }

    /// Returns the length of the payload in bytes: the columns, and two bits for each bucket of a
    /// layer.
    fn payload_len_bytes(&self) -> u64 {
        let of_layer = |&blocks: &u64| {
            let buckets = Starts::of_slots(blocks * SLOTS).last() / BUCKET_STARTS as u64 + 1;
            self.blocks_len_bytes(blocks) + buckets.div_ceil(4)
        };
        let tail = self.last_slots % SLOTS;
        let groups = (0..self.columns.groups()).map(|group| self.columns.of_group(group) as u64);
        let tail_len: u64 = groups.map(|columns| (tail * columns).div_ceil(8)).sum();
        self.layers.iter().map(of_layer).sum::<u64>() + self.blocks_len_bytes(self.last_slots / SLOTS) + tail_len
    }

    /// Returns the length in bytes of the record of layers, or 0 if the filter has no layers.
    fn record_len_bytes(&self) -> usize {
        if self.layers.is_empty() {
            return 0;
        }
        let mut record = Vec::new();
        self.layers.iter().for_each(|&blocks| put_varint(&mut record, blocks));
        put_varint(&mut record, 0);
        if self.last_slots > 0 {
            put_varint(&mut record, self.last_slots);
            // The seed takes one byte.
            record.push(0);
        }
        record.len()
    }

    /// Returns the expected FPR, as [`Geometry::expected_fpr`](Geometry::expected_fpr)
    /// computes it for a built filter.
    fn expected_fpr(&self) -> f64 {
        let rate = 0.5f64.powi(self.columns.all.cast_signed());
        let layers = self.layers.iter().map(|&blocks| (Starts::of_slots(blocks * SLOTS), blocks));
        let last = (self.last_slots > 0).then(|| (Starts::of_slots(self.last_slots), self.last_slots / SLOTS));
        let (mut slots, mut weighted) = (0.0, 0.0);
        for (starts, blocks) in layers.chain(last) {
            let share = starts.share_below(self.fewer(blocks) * SLOTS);
            let weight = (blocks * SLOTS).max(1) as f64;
            slots += weight;
            weighted += weight * rate * (1.0 + share);
        }
        weighted / slots.max(1.0)
    }
}

/// Plans the filter that `budget` requests. Returns `None` if the filter would have about 2^62
/// bytes or more.
pub(super) fn planned(budget: Budget, num_keys: u64) -> Option<Planned> {
    let columns = choose_columns(budget, num_keys);
    // The checked number is twice the length of the columns in bytes. In large filters, every
    // length below is smaller than this number, and a layer has fewer slots than keys. So this
    // check excludes overflow.
    i64::try_from(u128::from(num_keys) * u128::from(columns.all) / 4).ok()?;
    let layout = match num_keys {
        _ if num_keys <= SURELY_SINGLE_KEYS as u64 => of_single(columns, num_keys),
        _ if num_keys < NEAR_BORDER_KEYS as u64 => of_few(budget, columns, num_keys),
        _ => of_many(budget, columns, num_keys),
    };
    let (mut left, mut bump_reads) = (num_keys as f64, 0.0);
    for blocks in &layout.layers {
        bump_reads += left / num_keys as f64;
        left = (left - (blocks * SLOTS) as f64).max(0.0);
    }
    let len_bytes = layout.payload_len_bytes();
    // The mean number of columns of a block.
    let columns = f64::from(columns.all) - f64::from(columns.fewer_share) / 65_536.0;
    let [lines_if_absent, lines_if_present] =
        lines_by_groups(columns).map(|lines| (lines + bump_reads).min(lines_of(len_bytes)));
    Some(Planned {
        len_bytes,
        record_len_bytes: layout.record_len_bytes(),
        rate: math::with_equal_hashes(layout.expected_fpr(), num_keys),
        probes: layout.columns.all,
        lines_if_absent,
        lines_if_present,
    })
}

/// Returns the mean number of cache lines that a query reads from the columns. The first element is
/// for an absent key, the second for a present key.
fn lines_by_groups(columns: f64) -> [f64; 2] {
    // A second group of columns is read only if the first group matches: for absent keys, once in
    // 256 times.
    let [mut if_absent, mut if_present] = [0.0, 0.0];
    for group in 0..4 {
        let lines = loaded_pair_lines((columns - 8.0 * f64::from(group)).clamp(0.0, 8.0));
        if_absent += lines * (-8.0 * f64::from(group)).exp2();
        if_present += lines;
    }
    [if_absent, if_present]
}

fn of_single(columns: Columns, keys: u64) -> Layout {
    Layout { columns, layers: Vec::new(), last_slots: keys + spare_of(keys) }
}

fn spare_of(keys: u64) -> u64 {
    first_spare(usize::try_from(keys).unwrap_or(usize::MAX)) as u64
}

/// Returns the number of blocks of the layer that a build tries first for `keys` keys.
fn layer_of(keys: u64, slots_per_mille: u128) -> u64 {
    let slots = u128::from(keys) * slots_per_mille / 1000;
    u64::try_from(slots.div_ceil(u128::from(SLOTS))).unwrap_or(keys)
}

fn slots_per_mille(budget: Budget, keys: u64) -> u128 {
    density(budget, usize::try_from(keys).unwrap_or(usize::MAX)).slots_per_mille
}

/// Returns the smaller of two layouts: a single system, or a layer and a system that together have
/// one spare slot per [`KEYS_A_SPARE_SLOT`] keys. The system of the second layout has at least 64
/// slots. Above [`ONE_TRY_KEYS`] keys, the function always returns the second layout.
fn of_few(budget: Budget, columns: Columns, keys: u64) -> Layout {
    let layer = layer_of(keys, slots_per_mille(budget, keys));
    let slots = (keys + keys / KEYS_A_SPARE_SLOT as u64).max((layer + 1) * SLOTS);
    let layered = Layout { columns, layers: vec![layer], last_slots: slots - layer * SLOTS };
    let single = (keys <= ONE_TRY_KEYS as u64).then(|| of_single(columns, keys));
    match single.filter(|single| single.payload_len_bytes() < layered.payload_len_bytes()) {
        Some(single) => single,
        None => layered,
    }
}

fn of_many(budget: Budget, columns: Columns, keys: u64) -> Layout {
    let per_mille = slots_per_mille(budget, keys);
    let mut layers = Vec::new();
    let mut left = keys;
    while layers.is_empty() || left > MAX_SINGLE_KEYS as u64 {
        let layer = layer_of(left, per_mille);
        // Every slot that does not stay empty holds a key.
        let slots = layer * SLOTS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of `slots`")]
        let empty = EMPTY_AT_ENDS + (slots as f64 * empty_share(per_mille)) as u64;
        left = left.saturating_sub(slots - empty);
        layers.push(layer);
    }
    let last_slots = if left > 0 { left + spare_of(left) } else { 0 };
    Layout { columns, layers, last_slots }
}
