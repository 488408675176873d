//! Implements the binary fuse filter (Graf and Lemire, "Binary fuse filters: fast and smaller than
//! xor filters", 2022). A key has three slots in three neighbouring segments, and the XOR of the
//! slots is the key's fingerprint.
//!
//! ```text
//! hash ──reduce──▶ slot a         in hash order: a build from sorted hashes needs no sort
//!      ──mix─────▶ slot b = (a + segment) ^ log2 bits, slot c = (a + 2 segments) ^ log2 bits, fingerprint
//!
//! | segment 0 | segment 1 | segment 2 | ...          each 2^log2 slots of 8, 12 or 16 bits
//!       a           b           c                     "maybe" if a ^ b ^ c = fingerprint
//! ```
//! A query reads three slots. The filter answers "maybe" for one absent key in 2^bits. For a
//! million keys, the filter usually takes 14 % more space than its fingerprints. For fewer keys,
//! this share is usually larger. Construction ([`build`]) may fail under one seed. It then tries
//! other seeds and more slots.

mod build;

use std::fmt;

use super::build::{Effort, Header};
use super::filter::{Budget, Budgets, Built, Compiled, Filter, Info, Planned, Query, in_batches, payload_of};
use super::math::lines_of;
use super::{FilterKind, math};
use crate::codec::u16_at;
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::reduce;
use crate::simd::{self, Isa, Simd};

/// The multiplier that mixes the hash: output 33 of the generator that [`super::bloom`] names, made
/// odd.
const FUSE_MIX: u64 = 0x59e3_0611_bde6_b295;
/// The difference between the salts of successive seeds: output 34 of the same generator, made odd.
const FUSE_SEED: u64 = 0xb29e_ce7f_ab4b_c66b;

/// The widths of fingerprints, in bits.
const WIDTHS: [u32; 3] = [8, 12, 16];
const SLOTS_OF_A_KEY: f64 = 3.0;
/// The binary logarithm of the maximum number of slots in a segment. At most 18 bits of the mixed
/// hash select the slot in the second segment, and at most 18 others the slot in the third segment.
const MAX_SEGMENT_LOG2: u32 = 18;
/// The number of keys in one prefetching pass. Each key needs about three cache lines.
const BATCH: usize = 16;

/// The width of a slot. The type has only three values, so the compiler can store the enum tag of
/// [`super::Params`] in the unused values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    Eight = 8,
    Twelve = 12,
    Sixteen = 16,
}

impl Width {
    fn new(bits: u32) -> Option<Self> {
        [Self::Eight, Self::Twelve, Self::Sixteen].into_iter().find(|&width| width as u32 == bits)
    }
}

pub(crate) struct BinaryFuse;

impl BinaryFuse {
    /// Returns the width of a budget's fingerprints, or `None` if the budget, in whole bits, is not
    /// in [`WIDTHS`].
    fn width(budget: Budget) -> Option<Width> {
        Width::new(budget.millibits / 1000)
    }
}

impl Filter for BinaryFuse {
    type Params = Geometry;

    const INFO: Info = Info {
        name: "binary-fuse",
        description: "a fingerprint that is the XOR of three slots",
        budgets: Budgets::Widths(&WIDTHS),
        example_bits: 8.0,
        lowest_rate: "the lowest FPR of binary-fuse is 1.6e-5, with fingerprints of 16 bits; use bumped-ribbon \
             (2.4e-10 at the lowest) or bloom (2.8e-11)",
        ..Info::COMMON
    };

    /// Returns the FPR of the widest fingerprint that fits the budget, or 1 if no fingerprint fits.
    fn rate_of_many(millibits: u32) -> f64 {
        let fitting = WIDTHS.iter().rev().find(|&&width| width * 1000 <= millibits);
        fitting.map_or(1.0, |&width| (-f64::from(width)).exp2())
    }

    /// Plans the filter that results if the first seed succeeds.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        const TOO_MANY: &str =
            "a binary fuse filter has fewer than 2^32 slots, enough for 3.8 billion keys; use another kind";
        let width = Self::width(budget).ok_or(TOO_MANY)?;
        let geometry = build::geometries(width, num_keys).next().ok_or(TOO_MANY)?;
        let slots = u32::try_from(geometry.slots()).map_err(|_| TOO_MANY)?;
        let len_bytes = (u64::from(slots) * u64::from(geometry.bits())).div_ceil(8);
        let rate = math::with_equal_hashes(geometry.expected_fpr(), num_keys);
        let lines = SLOTS_OF_A_KEY.min(lines_of(len_bytes));
        Ok(Planned {
            lines_if_absent: lines,
            lines_if_present: lines,
            ..Planned::in_one_line(len_bytes, rate, geometry.bits())
        })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        let Some(width) = Self::width(budget) else { return Ok(None) };
        let Some((geometry, payload)) = build::build(width, hashes)? else { return Ok(None) };
        let params = [geometry.segment_log2, width as u8, geometry.seed];
        Ok(Some((Header { kind: FilterKind::BinaryFuse, params, record: [].as_slice().into() }, payload)))
    }

    fn fallback_rate(budget: Budget) -> Option<f64> {
        Some((-f64::from(budget.millibits) / 1000.0).exp2())
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Geometry> {
        Geometry::new(header, num_keys, len_bytes)
    }

    fn expected_fpr(fuse: &Geometry, num_keys: u64, _: u64) -> f64 {
        math::with_equal_hashes(fuse.expected_fpr(), num_keys)
    }

    fn probes(fuse: &Geometry) -> u32 {
        fuse.bits()
    }

    fn describe(fuse: &Geometry, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, segment, bits, slots) = (fuse.seed, fuse.segment(), fuse.bits(), fuse.slots());
        write!(f, "segments of {segment} slots, {bits} bits per slot, seed {seed}; {slots} slots")
    }

    fn compile<C: Compiled>(fuse: &Geometry, _: Isa) -> C {
        match fuse.width {
            Width::Eight => C::of::<Slots<8>>(Isa::PORTABLE),
            Width::Twelve => C::of::<Slots<12>>(Isa::PORTABLE),
            Width::Sixteen => C::of::<Slots<16>>(Isa::PORTABLE),
        }
    }

    #[inline]
    fn is_proven(fuse: &Geometry, _: &[u8], _: usize, hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        fuse.place(hash).slots.into_iter().all(|slot| is_valid(fuse.byte_of(slot), fuse.slot_len_bytes()))
    }
}

/// The query of any width.
impl Query for BinaryFuse {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(simd: impl Simd, fuse: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        match fuse.width {
            Width::Eight => Slots::<8>::may_contain(simd, fuse, padded, len, hash),
            Width::Twelve => Slots::<12>::may_contain(simd, fuse, padded, len, hash),
            Width::Sixteen => Slots::<16>::may_contain(simd, fuse, padded, len, hash),
        }
    }

    #[inline(always)]
    fn prefetch(fuse: &Geometry, padded: &[u8], _: usize, hash: KeyHash) {
        fuse.place(hash).slots.into_iter().for_each(|slot| simd::prefetch(padded, fuse.byte_of(slot)));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    width: Width,
    seed: u8,
    segment_log2: u8,
    /// The number of possible first slots of a key: all slots but those of the last two segments.
    starts: u64,
}

/// The three slots of a key and its fingerprint.
struct Place {
    slots: [u64; 3],
    fingerprint: u16,
}

impl Geometry {
    /// Makes the geometry of `slots` slots, which must be at least three whole segments.
    fn of(width: Width, segment_log2: u32, slots: u64, seed: u8) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_SEGMENT_LOG2")]
        let log2 = segment_log2 as u8;
        Self { width, seed, segment_log2: log2, starts: slots - (2 << segment_log2) }
    }

    /// Returns the number of slots of a segment.
    #[inline]
    fn segment(self) -> u64 {
        1 << self.segment_log2
    }

    /// Reads the parameters (logarithm of the segment's slots, width, seed) for a payload of
    /// `len_bytes`.
    pub(super) fn new(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Self> {
        let [segment_log2, bits, seed] = header.params;
        let (segment_log2, bits) = (u32::from(segment_log2), u32::from(bits));
        let Some(width) = Width::new(bits) else { return Err(Error::corrupt(Field::Params)) };
        if !(1..=MAX_SEGMENT_LOG2).contains(&segment_log2) || !header.record.is_empty() {
            return Err(Error::corrupt(Field::Params));
        }
        let payload_bits = len_bytes.saturating_mul(8);
        let (slots, segment) = (payload_bits / u64::from(bits), 1 << segment_log2);
        let whole = payload_bits.is_multiple_of(u64::from(bits)) && slots.is_multiple_of(segment);
        if !whole || slots / segment < 3 {
            return Err(Error::corrupt(Field::PayloadLen));
        }
        if !(1..=slots).contains(&num_keys) {
            return Err(Error::corrupt(Field::NumKeys));
        }
        Ok(Self::of(width, segment_log2, slots, seed))
    }

    fn bits(&self) -> u32 {
        self.width as u32
    }

    /// Returns the share of absent keys whose three slots XOR to their fingerprint by chance.
    fn expected_fpr(&self) -> f64 {
        (-f64::from(self.bits())).exp2()
    }

    fn slots(&self) -> u64 {
        self.starts + 2 * self.segment()
    }

    #[inline]
    fn place(&self, hash: KeyHash) -> Place {
        let salt = u64::from(self.seed).wrapping_mul(FUSE_SEED);
        let product = (hash.raw() ^ salt).wrapping_mul(FUSE_MIX);
        let first = reduce(hash.raw(), self.starts);
        let segment = self.segment();
        let mask = segment - 1;
        // Adding whole segments moves a slot to a later segment. An XOR with a number below the
        // segment's length keeps the slot in that segment.
        let second = (first + segment) ^ (product >> 46 & mask);
        let third = (first + 2 * segment) ^ (product >> 28 & mask);
        #[expect(clippy::cast_possible_truncation, reason = "the fingerprint is the low bits")]
        let fingerprint = (product ^ product >> 32) as u16;
        Place { slots: [first, second, third], fingerprint }
    }

    /// Returns the offset of the byte at which a slot begins. For a slot of twelve bits, this byte
    /// holds the slot's lowest bits.
    #[inline]
    fn byte_of(&self, slot: u64) -> usize {
        // The offset lies within the payload, whose length is a usize.
        (slot * u64::from(self.bits()) / 8) as usize
    }

    /// Returns the number of bytes that a query reads for one slot.
    fn slot_len_bytes(&self) -> usize {
        if self.width == Width::Eight { 1 } else { 2 }
    }

    /// Returns whether the three slots of a key, of `BITS` bits each, XOR to its fingerprint.
    /// Returns `true` if a slot lies beyond the payload.
    #[inline(always)]
    fn fits<const BITS: u32>(&self, payload: &[u8], hash: KeyHash) -> bool {
        let Place { slots: [first, second, third], fingerprint } = self.place(hash);
        let (Some(first), Some(second), Some(third)) =
            (read::<BITS>(payload, first), read::<BITS>(payload, second), read::<BITS>(payload, third))
        else {
            return true;
        };
        (first ^ second ^ third ^ fingerprint) & mask::<BITS>() == 0
    }
}

/// The queries for slots of `BITS` bits.
struct Slots<const BITS: u32>;

impl<const BITS: u32> Query for Slots<BITS> {
    type Filter = BinaryFuse;

    #[inline(always)]
    fn may_contain(_: impl Simd, fuse: &Geometry, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        fuse.fits::<BITS>(payload_of(padded, len), hash)
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        fuse: &Geometry,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        in_batches::<Self, BATCH>(simd, fuse, payload_of(padded, len), hashes, answers);
    }

    #[inline(always)]
    fn prefetch(fuse: &Geometry, padded: &[u8], len: usize, hash: KeyHash) {
        BinaryFuse::prefetch(fuse, padded, len, hash);
    }
}

const fn mask<const BITS: u32>() -> u16 {
    u16::MAX >> (16 - BITS)
}

/// Returns the content of a slot in the lowest `BITS` bits of the result. The higher bits are
/// undefined. Returns `None` if the slot lies beyond the payload.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "Geometry::new has compared the number of slots with the payload's length"
)]
fn read<const BITS: u32>(payload: &[u8], slot: u64) -> Option<u16> {
    let slot = slot as usize;
    match BITS {
        8 => payload.get(slot).map(|&byte| byte.into()),
        // An odd slot begins in the middle of a byte.
        12 => u16_at(payload, slot + slot / 2).map(|pair| pair >> (4 * (slot & 1))),
        _ => u16_at(payload, 2 * slot),
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::{MOST, bits, hash_families, independence};
    use super::*;

    /// Returns the bits of the mixed hash that choose the second and the third slot within their
    /// segments, 18 bits each, and the 16 bits of the fingerprint.
    fn place(geometry: &Geometry, hash: u64) -> u128 {
        let Place { slots: [first, second, third], fingerprint } = geometry.place(KeyHash::from_raw(hash));
        let segment = geometry.segment();
        let (second, third) = (second ^ (first + segment), third ^ (first + 2 * segment));
        u128::from(second) | u128::from(third) << 18 | u128::from(fingerprint) << 36
    }

    fn four(place: u128, from: u32) -> u64 {
        u64::try_from(place >> from & 15).unwrap()
    }

    #[test]
    fn slots_and_fingerprints_of_real_hashes_look_random() {
        for seed in [0, 1] {
            let geometry = Geometry::of(Width::Sixteen, MAX_SEGMENT_LOG2, 1 << 30, seed);
            for (name, hashes) in hash_families() {
                let places = || hashes.iter().map(|&hash| place(&geometry, hash));
                let (balance, correlation) = bits(places(), 52);
                let mut dependence: f64 = 0.0;
                for from in (0..52).step_by(4) {
                    for start in (32..64).step_by(4) {
                        let pairs = places().zip(&hashes).map(|(place, hash)| (four(place, from), hash >> start));
                        dependence = dependence.max(independence(pairs));
                    }
                    for other in (0..from).step_by(4) {
                        let pairs = places().map(|place| (four(place, from), four(place, other)));
                        dependence = dependence.max(independence(pairs));
                    }
                }
                let found = [balance, correlation, dependence];
                println!("{name}, seed {seed}: {found:.1?}");
                assert!(found.into_iter().all(|off| off < MOST), "{name}, seed {seed}: {found:?}");
            }
        }
    }
}
