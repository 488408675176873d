//! Builds a binary fuse filter by peeling.
//!
//! If only one key uses a slot, the slot can be set after the key's other two slots. The builder
//! removes such a key, which may leave another slot with a single key. If it can remove all keys,
//! it sets the slots in the reverse order of the removals.
//!
//! Through some slots no key is removed. The builder first fills all slots with bits that follow from
//! the set of hashes. If the free slots were 0 in every filter, filters of one size would answer
//! "maybe" for the same absent keys.
//!
//! Whether all keys can be removed depends on the number of slots, the seed and the keys. With
//! 11,480 to 11,521 keys and segments of 1,024 slots, the published sizes fail for 20 to 40 % of
//! the seeds (FastFilter/xor_singleheader, issue 77).

use super::{Geometry, MAX_SEGMENT_LOG2, Width, mask, read};
use crate::codec::{u16_bytes, u64_bytes};
use crate::filters::build::zeros;
use crate::hash::KeyHash;
use crate::simd;
use crate::simd::NoMemory;

/// The maximum number of seeds that a build tries. For random hashes, one or two seeds are usually
/// enough.
const MAX_SEEDS: u8 = 32;
/// The number of seeds to try before the number of slots grows.
const SEEDS_PER_SIZE: u8 = 2;
/// The number of slots that are added after every [`SEEDS_PER_SIZE`] failed seeds, in 1,024ths of
/// the number of keys.
const GROWTH: u64 = 24;

/// The number of keys below which a segment may have half its usual length, if that saves slots.
const FEW_KEYS: u64 = 1_000;

/// The numbers of keys at which segments grow. From `SEGMENT_STEPS[i]` keys on, a usual segment has
/// `2^(i + 3)` slots instead of half as many. The published rule for the exponent is
/// `floor(log(n) / log(3.33) + 2.25)`.
const SEGMENT_STEPS: [u64; 16] = [
    3,
    9,
    28,
    92,
    304,
    1_010,
    3_362,
    11_193,
    37_273,
    124_118,
    413_310,
    1_376_322,
    4_583_150,
    15_261_887,
    50_822_082,
    169_237_530,
];

/// Returns the number of slots to begin with, in 1,024ths of the number of keys.
///
/// The published factor is 0.875 + 0.25 ln(1,000,000) / ln(n), and at least 1.125. This function
/// adds 0.122 / log2(n). It uses a logarithm that is linear between powers of two, so that every
/// platform builds the same bytes. Together, the two changes cost 0.9 % of space at ten thousand
/// keys. With them, a build needs fewer seeds on average than with the published factor.
fn slots_per_1024_keys(num_keys: u64) -> u64 {
    let n = num_keys.max(2);
    let whole = u64::from(n.ilog2());
    let log2_by_1024 = whole * 1024 + (u64::try_from((u128::from(n) << 10) >> whole).unwrap_or(1024) - 1024);
    // In 1,024ths: 896 is 0.875, and 1,152 is 1.125. 5,227 is 4.983 + 0.122, where 4.983 is
    // 0.25 log2(1,000,000).
    (896 + 5_227 * 1_024 / log2_by_1024).max(1_152)
}

/// Returns the geometries that a build tries, in this order. There are at most [`MAX_SEEDS`].
pub(super) fn geometries(width: Width, num_keys: u64) -> impl Iterator<Item = Geometry> {
    let usual_log2 = 2 + SEGMENT_STEPS.iter().map(|&step| u32::from(step <= num_keys)).sum::<u32>();
    let factor = slots_per_1024_keys(num_keys);
    (0..MAX_SEEDS).filter_map(move |seed| {
        let factor = factor + u64::from(seed / SEEDS_PER_SIZE) * GROWTH;
        let wanted = u64::try_from(u128::from(num_keys) * u128::from(factor) / 1024).ok()?.max(1);
        // For a few keys, three segments of the usual length may have twice the slots that are
        // wanted. For many keys, shorter segments would save little space and cause failures.
        let least_log2 = if num_keys < FEW_KEYS { usual_log2.saturating_sub(1).max(2) } else { usual_log2 };
        let segment_of = |log2: u32| (wanted.div_ceil(1 << log2).max(3) << log2, log2);
        let candidates = (least_log2..=usual_log2.min(MAX_SEGMENT_LOG2)).map(segment_of);
        let (slots, log2) = candidates.min_by_key(|&(slots, log2)| (slots, std::cmp::Reverse(log2)))?;
        Some(Geometry::of(width, log2, slots, seed))
    })
}

/// Builds the filter of `hashes`, which must be distinct and sorted. There must be at least one
/// hash. Returns `None` if no seed succeeds, or if the filter would have 2^32 slots or more.
pub(super) fn build(width: Width, hashes: &[KeyHash]) -> Result<Option<(Geometry, Vec<u8>)>, NoMemory> {
    let mut peeling = Peeling::default();
    for geometry in geometries(width, hashes.len() as u64) {
        let Ok(slots) = u32::try_from(geometry.slots()) else { return Ok(None) };
        if peeling.peel(&geometry, hashes, slots)? {
            let len_bytes = (u64::from(slots) * u64::from(geometry.bits())).div_ceil(8);
            let mut payload = zeros(usize::try_from(len_bytes).map_err(|_| NoMemory)?)?;
            fill(hashes, &mut payload);
            match width {
                Width::Eight => peeling.assign::<8>(&geometry, hashes.len(), &mut payload),
                Width::Twelve => peeling.assign::<12>(&geometry, hashes.len(), &mut payload),
                Width::Sixteen => peeling.assign::<16>(&geometry, hashes.len(), &mut payload),
            }
            return Ok(Some((geometry, payload)));
        }
    }
    Ok(None)
}

/// Fills the payload with bits that depend only on the set of hashes: outputs of SplitMix64, which
/// begins with the XOR of all hashes.
fn fill(hashes: &[KeyHash], payload: &mut [u8]) {
    let mut state = hashes.iter().fold(0, |xor, hash| xor ^ hash.raw());
    let mut next = || {
        state = u64::wrapping_add(state, 0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        u64_bytes(z ^ z >> 31)
    };
    let (words, tail) = payload.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| *word = next());
    tail.iter_mut().zip(next()).for_each(|(to, from)| *to = from);
}

/// The maximum number of keys that a slot may have, which is one less than a power of two. In
/// practice, only hashes that lie close together exceed it.
const MAX_COUNT: u8 = 63;
/// The number of spare elements at the end of [`Peeling::order`]. One step writes at most two slots
/// beyond the slots found so far.
const ROOM: usize = 4;
/// The prefetch distance in keys.
const AHEAD: usize = 32;
const HASHES_IN_A_LINE: usize = 8;

/// The scratch memory of peeling: 13 bytes per slot. We rejected two layouts that are slower. One
/// keeps the removed keys in a separate array (9 bytes per slot and 9 per key) and needs more new
/// memory pages. The other keeps key numbers instead of hashes in the slots (8 bytes per slot), and
/// each lookup of a hash is then a second cache miss.
#[derive(Debug, Default)]
struct Peeling {
    /// For each slot, the XOR of the hashes that use it and were not removed. If a key was removed
    /// through this slot, its hash stays here.
    hashes: Vec<u64>,
    /// For each slot, the number of hashes that use it and were not removed.
    counts: Vec<u8>,
    /// The slots through which keys were removed, in the order of removal. Behind them are the
    /// slots that were found with a single key. Each slot is found at most once, so [`ROOM`] spare
    /// elements suffice.
    order: Vec<u32>,
}

impl Peeling {
    /// Adds all keys to `slots` slots, and removes them again by peeling. Returns `false` if some
    /// keys are left, or if a slot has more than [`MAX_COUNT`] keys.
    fn peel(&mut self, geometry: &Geometry, hashes: &[KeyHash], slots: u32) -> Result<bool, NoMemory> {
        let slots = index(slots.into());
        self.hashes.clear();
        self.hashes.try_reserve_exact(slots)?;
        self.counts.clear();
        self.counts.try_reserve_exact(slots)?;
        self.order.clear();
        self.order.try_reserve_exact(slots + ROOM)?;
        self.order.resize(slots + ROOM, 0);
        Ok(self.count(geometry, hashes) && self.take_all(geometry) == hashes.len())
    }

    /// Adds every key to its three slots. Returns `false` if a slot has more than [`MAX_COUNT`]
    /// keys.
    #[expect(
        clippy::indexing_slicing,
        reason = "the last of three slots is the largest, and `extend` puts it in bounds"
    )]
    fn count(&mut self, geometry: &Geometry, hashes: &[KeyHash]) -> bool {
        let mut seen = 0;
        for &hash in hashes {
            let slots = geometry.place(hash).slots;
            let [_, _, last] = slots;
            if index(last) >= self.hashes.len() {
                self.extend(index(last | (geometry.segment() - 1)) + 1);
            }
            for slot in slots {
                let slot = index(slot);
                self.hashes[slot] ^= hash.raw();
                let count = &mut self.counts[slot];
                *count = count.wrapping_add(1);
                seen |= *count;
            }
        }
        self.extend(index(geometry.slots()));
        // A count above `MAX_COUNT` was once `MAX_COUNT + 1`, which is a single bit. This bit stays
        // set in `seen`.
        seen <= MAX_COUNT
    }

    /// Appends slots without keys until there are `slots` slots. `count` appends a segment just
    /// before a key uses it, so the segment is in the cache at that time.
    #[cold]
    fn extend(&mut self, slots: usize) {
        self.hashes.resize(slots, 0);
        self.counts.resize(slots, 0);
    }

    /// Removes keys that are alone in a slot until there are none. Returns the number of removed
    /// keys.
    ///
    /// The loop works segment by segment, so that the slots stay in the cache. With all segments in
    /// the queue at once, a build of a million keys took 1.5 times as long (benches/peers measures
    /// builds). Keys are removed in the order in which they are found (a queue, not a stack), so
    /// that the removal of a key need not wait for the removal just before it.
    #[expect(
        clippy::indexing_slicing,
        reason = "no slot is found twice, and the order has room for all slots and more"
    )]
    fn take_all(&mut self, geometry: &Geometry) -> usize {
        let (segment, mut num_taken) = (index(geometry.segment()), 0);
        for first in (0..self.counts.len()).step_by(segment) {
            let mut num_alone = num_taken;
            for (slot, &count) in self.counts.iter().enumerate().skip(first).take(segment) {
                self.prefetch_later(slot, segment);
                self.order[num_alone] = short(slot);
                num_alone += usize::from(count == 1);
            }
            let mut next = num_taken;
            while next < num_alone {
                num_taken += self.take(geometry, next, num_taken, &mut num_alone);
                next += 1;
            }
        }
        num_taken
    }

    /// Prefetches the hashes three segments after `slot`, once per cache line. The slots of removed
    /// keys come in no order, so the processor cannot prefetch them by itself.
    #[inline(always)]
    fn prefetch_later(&self, slot: usize, segment: usize) {
        if slot.is_multiple_of(HASHES_IN_A_LINE) {
            simd::prefetch(&self.hashes, slot + 3 * segment);
        }
    }

    /// Removes the key of the slot at position `next` in the order, if the slot still has a single
    /// key. Returns the number of removed keys, 1 or 0.
    ///
    /// The code has no branch, because the processor cannot predict whether a slot still has its
    /// key. If the key was already removed through another slot, the hash and the count of this
    /// slot are 0, and subtracting them changes nothing.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "all slots exist, and the order has room for them")]
    fn take(&mut self, geometry: &Geometry, next: usize, num_taken: usize, num_alone: &mut usize) -> usize {
        let own = self.order[next];
        let own_slot = index(own.into());
        let (hash, one) = (self.hashes[own_slot], self.counts[own_slot]);
        self.order[num_taken] = own;
        for slot in others(geometry.place(KeyHash::from_raw(hash)).slots, own) {
            let slot = index(slot);
            self.hashes[slot] ^= hash;
            let count = &mut self.counts[slot];
            *count = count.wrapping_sub(one);
            self.order[*num_alone] = short(slot);
            *num_alone += usize::from((*count == 1) & (one == 1));
        }
        self.counts[own_slot] = 0;
        usize::from(one)
    }

    /// Sets the slots of the `num_keys` removed keys in reverse order. All other slots keep their
    /// content.
    #[expect(clippy::indexing_slicing, reason = "all slots exist")]
    fn assign<const BITS: u32>(&self, geometry: &Geometry, num_keys: usize, payload: &mut [u8]) {
        for (i, &own) in self.order.iter().enumerate().take(num_keys).rev() {
            let ahead = self.order.get(i.saturating_sub(AHEAD)).copied().unwrap_or_default();
            simd::prefetch(&self.hashes, index(ahead.into()));
            let own_slot = index(own.into());
            let place = geometry.place(KeyHash::from_raw(self.hashes[own_slot]));
            let xor = |xor, slot| xor ^ read::<BITS>(payload, slot).expect("all slots exist");
            let missing = place.slots.into_iter().fold(place.fingerprint, xor) & mask::<BITS>();
            write::<BITS>(payload, own_slot, missing);
        }
    }
}

#[inline]
fn others([first, second, third]: [u64; 3], own: u32) -> [u64; 2] {
    let own = u64::from(own);
    [if own == first { second } else { first }, if own == third { second } else { third }]
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "build has shown that the number of slots is a u32")]
fn index(slot: u64) -> usize {
    slot as usize
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "build has shown that the number of slots is a u32")]
fn short(slot: usize) -> u32 {
    slot as u32
}

/// XORs a fingerprint of at most `BITS` bits into a slot.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "the slot lies in the payload, and a slot of twelve or sixteen bits has two bytes"
)]
fn write<const BITS: u32>(payload: &mut [u8], slot: usize, fingerprint: u16) {
    let (at, shift) = match BITS {
        8 => (slot, 0),
        12 => (slot + slot / 2, 4 * (slot & 1)),
        _ => (2 * slot, 0),
    };
    let [low, high] = u16_bytes(fingerprint << shift);
    payload[at] ^= low;
    if BITS > 8 {
        payload[at + 1] ^= high;
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::FilterSpec;
    use crate::filters::tests::{EFFORT, hashes_of_set};
    use crate::filters::{FilterKind, Header, Kernel, Params};

    fn may_contain(geometry: Geometry, payload: &[u8], hash: KeyHash) -> bool {
        let geometry = Params::BinaryFuse(geometry);
        Kernel::of(&geometry).may_contain(&geometry, payload, payload.len(), hash)
    }

    /// Builds a filter and asserts that it finds every key. Returns the seed that succeeded.
    fn seed_for(bits: u32, hashes: &[KeyHash]) -> u8 {
        let (geometry, payload) = build(Width::new(bits).unwrap(), hashes).unwrap().unwrap();
        assert!(hashes.iter().all(|&hash| may_contain(geometry, &payload, hash)));
        geometry.seed
    }

    /// The numbers of keys are from FastFilter/xor_singleheader, issue 77.
    #[test]
    fn construction_succeeds_where_published_parameters_fail() {
        let seeds: u32 = (11_480..=11_521)
            .flat_map(|n| (0..20).map(move |set| u32::from(seed_for(8, &hashes_of_set(n, set)))))
            .sum();
        assert!(seeds < 84, "{seeds} second tries in 840 constructions");
    }

    #[test]
    fn construction_succeeds_where_segments_grow() {
        for step in SEGMENT_STEPS.into_iter().take_while(|&step| step < 130_000) {
            for n in step.saturating_sub(2).max(1)..=step + 2 {
                for set in 0..if n < 20_000 { 20 } else { 2 } {
                    let seed = seed_for([8, 12, 16][set as usize % 3], &hashes_of_set(n, set));
                    assert!(seed < MAX_SEEDS / 2, "{n} keys took seed {seed}");
                }
            }
        }
    }

    #[test]
    fn construction_of_few_keys_succeeds() {
        for n in 1..=40 {
            for set in 0..200 {
                assert!(seed_for(8, &hashes_of_set(n, set)) < MAX_SEEDS / 2, "{n} keys");
            }
        }
    }

    #[test]
    fn segment_steps_follow_the_published_rule() {
        for (log2, step) in (3..).zip(SEGMENT_STEPS) {
            let rule = |n: u64| ((n as f64).ln() / 3.33f64.ln() + 2.25).floor() as u32;
            assert_eq!((rule(step - 1), rule(step)), (log2 - 1, log2));
        }
        for n in [2u64, 10, 1_000, 50_000, 1_000_000] {
            let published = (0.875 + 0.25 * 1e6f64.ln() / (n as f64).ln()).max(1.125);
            let factor = slots_per_1024_keys(n) as f64 / 1024.0 / published;
            assert!((0.999..1.04).contains(&factor), "{n} keys: {factor}");
        }
    }

    #[test]
    fn hashes_that_crowd_in_one_segment_get_the_fallback() {
        for n in [100u64, 5_000, 100_000] {
            let hashes: Vec<_> = (0..n).map(KeyHash::from_raw).collect();
            for bits in [8, 12, 16] {
                let spec = FilterSpec::bits_per_key(FilterKind::BinaryFuse, f64::from(bits)).unwrap();
                let (header, payload) = spec.encode(&mut hashes.clone(), EFFORT).unwrap();
                // A hundred hashes may fit into their segments, so the filter's kind is not checked.
                if n > 1_000 {
                    assert_eq!(header.kind, FilterKind::BlockedBloom);
                }
                assert!(!payload.is_empty());
            }
        }
    }

    #[test]
    fn invalid_shapes_are_rejected() {
        for (bits, len) in [(8u8, 96), (12, 144), (16, 192)] {
            let open = |params, layers: &[u8], n, len| {
                Geometry::new(&Header { kind: FilterKind::BinaryFuse, params, record: layers.into() }, n, len)
            };
            let geometry = open([5, bits, 7], &[], 96, len).unwrap();
            for (n, len) in [(0, len), (97, len), (u64::MAX, len), (1, 0), (1, len - 1), (1, len / 2), (1, len + 3)] {
                assert!(open([5, bits, 7], &[], n, len).is_err(), "{n} keys in {len} bytes of slots of {bits} bits");
            }
            for params in [[0, bits, 0], [19, bits, 0], [6, bits, 0], [255, bits, 0], [5, 0, 0], [5, 9, 0], [5, 255, 0]]
            {
                assert!(open(params, &[], 1, len).is_err(), "{params:?}");
            }
            assert!(open([5, bits, 7], &[1], 1, len).is_err());
            // If the payload is too short, the answer is "maybe".
            for hash in [0, u64::MAX / 3, u64::MAX].map(KeyHash::from_raw) {
                assert!(may_contain(geometry, &[], hash));
            }
        }
    }

    #[test]
    fn every_try_has_a_new_seed_and_every_second_more_slots() {
        for n in [2_000u64, 100_000, 10_000_000] {
            let first = slots_per_1024_keys(n);
            for (i, geometry) in (0..).zip(geometries(Width::Eight, n)) {
                let segment = geometry.segment();
                let wanted = (n * (first + i / 2 * 24) / 1024).div_ceil(segment) * segment;
                assert_eq!((u64::from(geometry.seed), geometry.slots()), (i, wanted), "{n} keys");
            }
        }
        assert_eq!(geometries(Width::Eight, 100).count(), 32);
    }

    #[test]
    fn short_segments_are_used_for_few_keys_if_they_save_slots() {
        let segments = |n| geometries(Width::Eight, n).map(|geometry| geometry.segment()).collect::<Vec<_>>();
        assert!(segments(999).contains(&64) && segments(999).contains(&128));
        assert_eq!(segments(1_000), [128; 32]);
    }

    #[test]
    fn a_slot_with_too_many_keys_is_detected() {
        let geometry = Geometry::of(Width::Eight, 5, 1 << 10, 0);
        for (n, fits) in [(63, true), (64, false), (200, false), (256, false), (300, false), (512, false)] {
            let hashes: Vec<_> = (0..n).map(KeyHash::from_raw).collect();
            assert_eq!(Peeling::default().count(&geometry, &hashes), fits, "{n} keys");
        }
    }
}
