//! Prepares the keys of a read, and selects the keys of a batch that one SST may hold.

use crate::codec::order_prefix;
use filterblock::{KeyHash, KeyHasher};

/// The maximum number of keys of one `multi_get` that are processed together, one for each bit of a
/// 32-bit mask.
pub(crate) const BATCH: usize = 32;

/// A key to read, with its order prefix and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) prefix: u64,
    pub(crate) hash: KeyHash,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(crate) fn new(key: &'a [u8], hasher: &KeyHasher) -> Self {
        Self { key, prefix: order_prefix(key), hash: hasher.of(key) }
    }
}

/// Up to [`BATCH`] keys, as a structure of arrays.
#[derive(Debug, Clone)]
pub(crate) struct Batch<'a> {
    keys: [&'a [u8]; BATCH],
    prefixes: [u64; BATCH],
    hashes: [KeyHash; BATCH],
    /// The minimum and the maximum order prefix of the keys. If an SST covers all keys of a batch
    /// or none, these two prefixes usually decide that.
    min_prefix: u64,
    max_prefix: u64,
    /// The bits of the keys that have no result so far.
    pub(crate) open: u32,
}

/// The keys of a batch that one SST may hold, with their hashes in contiguous memory.
#[derive(Debug)]
pub(crate) struct Group<'b> {
    gathered: Option<Gathered>,
    /// The hashes of the keys, if the keys are the first ones of the batch. Otherwise empty.
    front: &'b [KeyHash],
}

#[derive(Debug)]
struct Gathered {
    len: usize,
    hashes: [KeyHash; BATCH],
    /// The position of each key in the batch.
    places: [u8; BATCH],
}

impl Group<'_> {
    #[inline]
    pub(crate) fn hashes(&self) -> &[KeyHash] {
        match &self.gathered {
            None => self.front,
            Some(gathered) => gathered.hashes.get(..gathered.len).unwrap_or_default(),
        }
    }

    /// Returns the position of the group's `i`-th key in the batch. `i` must be below the number of
    /// keys in the group.
    #[inline]
    pub(crate) fn place(&self, i: usize) -> Option<u32> {
        match &self.gathered {
            None => u32::try_from(i).ok(),
            Some(gathered) => gathered.places.get(i).map(|&place| place.into()),
        }
    }
}

impl<'a> Batch<'a> {
    /// Creates a batch of the first [`BATCH`] of `keys`.
    pub(crate) fn new<K: AsRef<[u8]>>(keys: &'a [K], hasher: &KeyHasher) -> Self {
        let mut batch = Self {
            keys: [&[]; BATCH],
            prefixes: [0; BATCH],
            hashes: [KeyHash::from_raw(0); BATCH],
            min_prefix: u64::MAX,
            max_prefix: 0,
            open: 0,
        };
        let parts = batch.keys.iter_mut().zip(&mut batch.prefixes).zip(&mut batch.hashes);
        for (((key, prefix), hash), from) in parts.zip(keys) {
            let probe = Probe::new(from.as_ref(), hasher);
            (*key, *prefix, *hash) = (probe.key, probe.prefix, probe.hash);
            batch.min_prefix = batch.min_prefix.min(probe.prefix);
            batch.max_prefix = batch.max_prefix.max(probe.prefix);
            batch.open = batch.open << 1 | 1;
        }
        batch
    }

    /// Returns the key at a position, or `None` if the position is [`BATCH`] or more. If the batch
    /// has fewer than [`BATCH`] keys, the key at a position after its last key is empty.
    #[inline]
    pub(crate) fn probe(&self, place: u32) -> Option<Probe<'a>> {
        let place = place as usize;
        Some(Probe { key: self.keys.get(place)?, prefix: *self.prefixes.get(place)?, hash: *self.hashes.get(place)? })
    }

    /// Returns the hashes of the keys from the first one up to the last one that has no result so far.
    #[inline]
    pub(crate) fn open_hashes(&self) -> &[KeyHash] {
        self.hashes.get(..(u32::BITS - self.open.leading_zeros()) as usize).unwrap_or_default()
    }

    /// Returns the bits of `of` whose keys lie in the key range of an SST. `smallest` and `largest`
    /// are the order prefixes of the SST's first and last key. If the prefix of a key equals one of
    /// these two, `covers` decides.
    #[inline]
    pub(crate) fn within(&self, (smallest, largest): (u64, u64), of: u32, covers: impl Fn(&Probe<'_>) -> bool) -> u32 {
        if smallest < self.min_prefix && self.max_prefix < largest {
            return of;
        }
        if self.max_prefix < smallest || largest < self.min_prefix {
            return 0;
        }
        let (mut inside, mut on_edge) = (0u32, 0u32);
        for (i, &prefix) in self.prefixes.iter().enumerate() {
            inside |= u32::from((smallest < prefix) & (prefix < largest)) << i;
            on_edge |= u32::from((smallest == prefix) | (prefix == largest)) << i;
        }
        on_edge &= of;
        while let Some(probe) = self.probe(on_edge.trailing_zeros()) {
            inside |= u32::from(covers(&probe)) << on_edge.trailing_zeros();
            on_edge &= on_edge - 1;
        }
        inside & of
    }

    /// Returns the keys of the batch whose bit in `mask` is set.
    #[inline]
    pub(crate) fn gather(&self, mask: u32) -> Group<'_> {
        if mask & mask.wrapping_add(1) == 0 {
            let front = self.hashes.get(..mask.count_ones() as usize).unwrap_or_default();
            return Group { gathered: None, front };
        }
        let mut gathered = Gathered { len: 0, hashes: [KeyHash::from_raw(0); BATCH], places: [0; BATCH] };
        // Write every key, but advance `len` only for a key in `mask`: the next key overwrites an
        // unwanted one. A branch on the bits of `mask` would often be mispredicted.
        for (i, &hash) in (0u8..).zip(&self.hashes) {
            if let (Some(to), Some(place)) =
                (gathered.hashes.get_mut(gathered.len), gathered.places.get_mut(gathered.len))
            {
                (*to, *place) = (hash, i);
            }
            gathered.len += (mask >> i & 1) as usize;
        }
        Group { gathered: Some(gathered), front: &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::HashSeed;

    #[test]
    fn a_batch_has_a_bit_for_each_key_and_gathers_by_bits() {
        let keys: Vec<[u8; 1]> = (0..32).map(|i| [i]).collect();
        for len in 0..=32usize {
            let batch = Batch::new(&keys[..len], &HashSeed(3).into());
            assert_eq!(u64::from(batch.open), (1u64 << len) - 1);
            for mask in [batch.open, batch.open & 0x5555_5555, batch.open & 0x8000_0001, batch.open & 0xff] {
                let group = batch.gather(mask);
                assert_eq!(group.hashes().len(), mask.count_ones() as usize);
                let mut seen = 0;
                for (i, &hash) in group.hashes().iter().enumerate() {
                    let place = group.place(i).unwrap();
                    assert_eq!(hash, KeyHash::of(&keys[place as usize], HashSeed(3)));
                    seen |= 1 << place;
                }
                assert_eq!(seen, mask);
            }
        }
        assert!(Batch::new(&keys, &HashSeed(3).into()).probe(32).is_none());
    }
}
