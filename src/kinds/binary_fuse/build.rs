//! Construction of a binary fuse filter: peeling.
//!
//! A key is an edge between its three slots. A slot that only one key uses can be given to that key: whatever the
//! other two hold, it can be set so that the three xor to the fingerprint. So take such a key away, which may leave
//! its other slots to one key each, and go on until no key is left; then set the slots in the opposite order. Keys
//! come sorted, so the slots that are touched together lie in three neighbouring segments, and no sort is needed.
//!
//! Whether all keys can be taken away depends on the number of slots and on luck. The published sizes fail for 20 to
//! 40 % of the seeds at some numbers of keys (11,480 to 11,521 with segments of 512); here a failure costs a little
//! time, then a little space.

use super::{Geometry, MAX_SEGMENT_LOG2, Width, mask, read};
use crate::bits::NoMemory;
use crate::codec::u16_bytes;
use crate::hash::KeyHash;
use crate::kinds::shape::zeros;
use crate::simd;

/// Seeds to try, in all. Where hashes are as good as random, the second is hardly ever needed; hashes that crowd in a
/// few segments fail with any seed and any size, and should fail soon.
const MAX_SEEDS: u8 = 32;
/// Seeds to try before the number of slots grows.
const SEEDS_PER_SIZE: u8 = 2;
/// By how many 1,024ths of its first size the filter then grows.
const GROWTH: u64 = 24;

/// Below this number of keys a segment may be half as long as usual, if that saves slots.
const FEW_KEYS: u64 = 1_000;

/// `SEGMENT_STEPS[i]`: from so many keys on, a segment has 2^(i + 3) slots and not half of that. The published rule,
/// floor(log(n) / log(3.33) + 2.25), in integers.
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

/// The number of slots to begin with, in 1,024ths of the number of keys.
///
/// The published factor, 0.875 + 0.25 ln(1,000,000) / ln(n) and at least 1.125, with 0.122 / log2(n) added, and with a
/// logarithm that is linear between powers of two, so that every platform builds the same bytes. What is added takes
/// 0.9 % of space at ten thousand keys, and of numbers of keys from 20 to 300,000 a construction then takes 1.04 seeds
/// instead of 1.05, and at the worst of them 1.8 instead of 2.9.
fn slots_per_1024_keys(num_keys: u64) -> u64 {
    let n = num_keys.max(2);
    let whole = u64::from(n.ilog2());
    let log2_by_1024 = whole * 1024 + (u64::try_from((u128::from(n) << 10) >> whole).unwrap_or(1024) - 1024);
    // 0.875, 4.983 + 0.122 and 1.125, in 1,024ths.
    (896 + 5_227 * 1_024 / log2_by_1024).max(1_152)
}

/// Geometries to try, one after the other.
pub(super) fn geometries(width: Width, num_keys: u64) -> impl Iterator<Item = Geometry> {
    let usual_log2 = 2 + SEGMENT_STEPS.iter().map(|&step| u32::from(step <= num_keys)).sum::<u32>();
    let factor = slots_per_1024_keys(num_keys);
    (0..MAX_SEEDS).filter_map(move |seed| {
        let factor = factor + u64::from(seed / SEEDS_PER_SIZE) * GROWTH;
        let wanted = u64::try_from(u128::from(num_keys) * u128::from(factor) / 1024).ok()?.max(1);
        // Three segments of the usual length would be up to twice the slots that a few keys need; many keys have many
        // segments anyway, and shorter ones only make failures.
        let least_log2 = if num_keys < FEW_KEYS { usual_log2.saturating_sub(1).max(2) } else { usual_log2 };
        let segment_of = |log2: u32| (wanted.div_ceil(1 << log2).max(3) << log2, log2);
        let candidates = (least_log2..=usual_log2.min(MAX_SEGMENT_LOG2)).map(segment_of);
        let (slots, log2) = candidates.min_by_key(|&(slots, log2)| (slots, std::cmp::Reverse(log2)))?;
        Some(Geometry::of(width, log2, slots, seed))
    })
}

/// The filter of distinct sorted `hashes`, at least one; `None` if no seed did, or there are 2^32 slots or more.
pub(super) fn build(width: Width, hashes: &[KeyHash]) -> Result<Option<(Geometry, Vec<u8>)>, NoMemory> {
    let mut peeling = Peeling::default();
    for geometry in geometries(width, hashes.len() as u64) {
        let Ok(slots) = u32::try_from(geometry.slots()) else { return Ok(None) };
        if peeling.peel(&geometry, hashes, slots)? {
            let len_bytes = (u64::from(slots) * u64::from(geometry.bits())).div_ceil(8);
            let mut payload = zeros(usize::try_from(len_bytes).map_err(|_| NoMemory)?)?;
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

/// The most keys that a slot may have, one less than a power of two. More come of hashes that crowd, with which another
/// seed is as hopeless.
const MAX_COUNT: u8 = 63;
/// More slots than the look at one key can find left to one.
const ROOM: usize = 4;
/// How many keys ahead of its turn a key's hash is asked for: of a million keys, that saves a sixth of the time.
const AHEAD: usize = 32;
/// Hashes in a cache line.
const HASHES_IN_A_LINE: usize = 8;

/// Scratch memory: 13.5 bytes a slot. With the keys taken away in an array of their own (9 bytes a slot and 9 a key) a
/// construction was slower, by the pages that the system has to find. With the numbers of the keys in the slots and not
/// their hashes (8 bytes a slot) it was too: a key's hash is then a second wait for memory.
#[derive(Debug, Default)]
struct Peeling {
    /// For each slot the xor of the hashes that use it. The hash that was taken away by this slot stays.
    hashes: Vec<u64>,
    /// For each slot the number of them.
    counts: Vec<u8>,
    /// The slots by which keys were taken away, in order; behind them those found to be left to one key, in that order.
    /// A slot is found once at most, because the number of its keys only falls: so there is room.
    order: Vec<u32>,
}

impl Peeling {
    /// Takes all keys away from the `slots` slots; `false` if some are left.
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

    /// Enters all keys in their slots; `false` if a slot has more than [`MAX_COUNT`].
    #[expect(clippy::indexing_slicing, reason = "the last of three slots is the largest, and is there")]
    fn count(&mut self, geometry: &Geometry, hashes: &[KeyHash]) -> bool {
        let mut seen = 0;
        for &hash in hashes {
            let slots = geometry.place(hash).slots;
            let [_, _, last] = slots;
            if index(last) >= self.hashes.len() {
                self.extend(index(last | u64::from(geometry.segment - 1)) + 1);
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
        // A count that came to the next power of two has left its bit.
        seen <= MAX_COUNT
    }

    /// Slots without keys, up to the end of a segment: written when the first key comes, they are then in the cache.
    #[cold]
    fn extend(&mut self, slots: usize) {
        self.hashes.resize(slots, 0);
        self.counts.resize(slots, 0);
    }

    /// Takes away keys that have a slot alone until there are none; gives their number.
    ///
    /// Segment by segment, so that what is worked on stays in the cache: with all segments at once in the queue, a
    /// million keys took 75 ns each and not 50. In the order of finding, so that one key need not wait for the one
    /// before.
    #[expect(clippy::indexing_slicing, reason = "no slot is found twice, and the order has room for all and one more")]
    fn take_all(&mut self, geometry: &Geometry) -> usize {
        let (segment, mut num_taken) = (index(geometry.segment.into()), 0);
        for first in (0..self.counts.len()).step_by(segment) {
            let mut num_alone = num_taken;
            for (slot, &count) in self.counts.iter().enumerate().skip(first).take(segment) {
                self.prefetch_behind(slot, segment);
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

    /// What keys are taken from comes in no order, so the processor would not know: without this a million keys took 6 ns
    /// longer each.
    #[inline(always)]
    fn prefetch_behind(&self, slot: usize, segment: usize) {
        if slot.is_multiple_of(HASHES_IN_A_LINE) {
            simd::prefetch(&self.hashes, slot + 3 * segment);
        }
    }

    /// Takes away the key of the slot that is `next` in the order, if it is there alone; gives how many that are: 1 or 0.
    ///
    /// Without branches, since whether a slot is left to one key is as good as random: if its one key was taken away by
    /// another slot, its hash and its count are 0, and that is what is then taken from some slots.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "slots, of which all are there, and places of them in the order")]
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

    /// Sets the slots of the `num_keys` keys taken away, in the opposite order, in a payload of zeros.
    fn assign<const BITS: u32>(&self, geometry: &Geometry, num_keys: usize, payload: &mut [u8]) {
        for (i, &own) in self.order.iter().enumerate().take(num_keys).rev() {
            let ahead = self.order.get(i.saturating_sub(AHEAD)).copied().unwrap_or_default();
            simd::prefetch(&self.hashes, index(ahead.into()));
            let own_slot = index(own.into());
            let place = geometry.place(KeyHash::from_raw(self.hashes.get(own_slot).copied().unwrap_or_default()));
            let xor = |xor, slot| xor ^ read::<BITS>(payload, slot).unwrap_or_default();
            let missing = others(place.slots, own).into_iter().fold(place.fingerprint, xor) & mask::<BITS>();
            write::<BITS>(payload, own_slot, missing);
        }
    }
}

/// The two slots of a key that are not `own`.
#[inline]
fn others([first, second, third]: [u64; 3], own: u32) -> [u64; 2] {
    let own = u64::from(own);
    [if own == first { second } else { first }, if own == third { second } else { third }]
}

/// A slot as an index into memory: every caller has arrays of all slots.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "peel has shown that the number of slots is a usize")]
fn index(slot: u64) -> usize {
    slot as usize
}

/// A slot as [`Peeling::order`] has it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "peel has shown that the number of slots is a u32")]
fn short(slot: usize) -> u32 {
    slot as u32
}

/// Sets a slot that is zero.
#[inline]
#[expect(clippy::indexing_slicing, reason = "a slot of the payload; one of twelve or sixteen bits has two bytes")]
fn write<const BITS: u32>(payload: &mut [u8], slot: usize, fingerprint: u16) {
    let (at, shift) = match BITS {
        8 => (slot, 0),
        12 => (slot + slot / 2, 4 * (slot & 1)),
        _ => (2 * slot, 0),
    };
    let [low, high] = u16_bytes(fingerprint << shift);
    payload[at] |= low;
    if BITS > 8 {
        payload[at + 1] |= high;
    }
}

#[cfg(test)]
mod tests;
