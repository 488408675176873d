//! Keys on their way through the tables: one, or many side by side.

use super::version::Slot;
use crate::codec::order_prefix;
use crate::hash::{HashSeed, KeyHash};

/// Keys of one `multi_get` that are under way at once: a bit of a word for each, and enough to hide a cache miss.
pub(super) const BATCH: usize = 32;

/// A key that is read: hashed once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) key: &'a [u8],
    pub(super) prefix: u64,
    pub(super) hash: KeyHash,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(super) fn new(key: &'a [u8], seed: HashSeed) -> Self {
        Self { key, prefix: order_prefix(key), hash: KeyHash::of(key, seed) }
    }
}

/// Up to [`BATCH`] keys, each part in an array of its own, so that a range check is a few vector instructions for all.
#[derive(Debug, Clone)]
pub(super) struct Batch<'a> {
    keys: [&'a [u8]; BATCH],
    prefixes: [u64; BATCH],
    hashes: [KeyHash; BATCH],
    /// A bit for each key of which nothing was found yet.
    pub(super) open: u32,
}

/// The keys of a batch that one table may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// A bit for each of them.
    pub(super) mask: u32,
    pub(super) len: usize,
    hashes: [KeyHash; BATCH],
    /// Which of the batch's keys each is.
    pub(super) places: [u8; BATCH],
}

impl Default for Group {
    fn default() -> Self {
        Self { mask: 0, len: 0, hashes: [KeyHash::from_raw(0); BATCH], places: [0; BATCH] }
    }
}

impl Group {
    #[inline]
    pub(super) fn hashes(&self) -> &[KeyHash] {
        self.hashes.get(..self.len).unwrap_or_default()
    }
}

impl<'a> Batch<'a> {
    /// The first [`BATCH`] of `keys`.
    pub(super) fn new<K: AsRef<[u8]>>(keys: &'a [K], seed: HashSeed) -> Self {
        let mut batch =
            Self { keys: [&[]; BATCH], prefixes: [0; BATCH], hashes: [KeyHash::from_raw(0); BATCH], open: 0 };
        let parts = batch.keys.iter_mut().zip(&mut batch.prefixes).zip(&mut batch.hashes);
        for (((key, prefix), hash), from) in parts.zip(keys) {
            let probe = Probe::new(from.as_ref(), seed);
            (*key, *prefix, *hash) = (probe.key, probe.prefix, probe.hash);
            batch.open = batch.open << 1 | 1;
        }
        batch
    }

    /// One of the keys.
    #[inline]
    pub(super) fn probe(&self, place: u32) -> Option<Probe<'a>> {
        let place = place as usize;
        Some(Probe { key: self.keys.get(place)?, prefix: *self.prefixes.get(place)?, hash: *self.hashes.get(place)? })
    }

    /// The keys among those with a bit in `of` that a table may hold.
    #[inline]
    pub(super) fn group(&self, slot: &Slot, of: u32) -> Group {
        let (mut inside, mut on_edge) = (0u32, 0u32);
        for (i, &prefix) in self.prefixes.iter().enumerate() {
            inside |= u32::from((slot.smallest < prefix) & (prefix < slot.largest)) << i;
            on_edge |= u32::from((slot.smallest == prefix) | (prefix == slot.largest)) << i;
        }
        on_edge &= of;
        while let Some(probe) = self.probe(on_edge.trailing_zeros()) {
            inside |= u32::from(slot.covers(&probe)) << on_edge.trailing_zeros();
            on_edge &= on_edge - 1;
        }
        self.gather(inside & of)
    }

    fn gather(&self, mask: u32) -> Group {
        let mut group = Group { mask, ..Group::default() };
        // Written each time and kept if wanted: which keys a table holds is chance, and a branch on chance is slow.
        for (i, &hash) in (0u8..).zip(&self.hashes) {
            if let (Some(to), Some(place)) = (group.hashes.get_mut(group.len), group.places.get_mut(group.len)) {
                (*to, *place) = (hash, i);
            }
            group.len += (mask >> i & 1) as usize;
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_a_bit_for_each_key_and_gathers_by_bits() {
        let keys: Vec<[u8; 1]> = (0..32).map(|i| [i]).collect();
        for len in 0..=32usize {
            let batch = Batch::new(&keys[..len], HashSeed(3));
            assert_eq!(u64::from(batch.open), (1u64 << len) - 1);
            let group = batch.gather(batch.open & 0x5555_5555);
            assert_eq!(group.len, len.div_ceil(2));
            for (&place, &hash) in group.places.iter().zip(group.hashes()) {
                assert_eq!(place % 2, 0);
                assert_eq!(hash, KeyHash::of(&[place], HashSeed(3)));
            }
        }
        assert!(Batch::new(&keys, HashSeed(3)).probe(32).is_none());
    }
}
