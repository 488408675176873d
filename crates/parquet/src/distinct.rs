//! Counts distinct hashes. Medium numbers of hashes are first spread over small buckets, which is
//! faster than `sort_unstable`. A small hash table then finds the duplicates of each bucket.

/// The minimum number of hashes for which buckets are used. Fewer hashes are sorted.
const FEW: usize = 1 << 13;
/// The maximum number of hashes for which buckets are used. More hashes are sorted in place,
/// because the copy in buckets would need more than 32 MiB.
const MANY: usize = 4 << 20;
/// The minimum for the mean number of hashes per bucket. The mean is less than twice this number.
const PER_BUCKET: usize = 256;
/// The number of slots of the hash table. A bucket with more hashes than half of this number is
/// sorted.
const SLOTS: usize = 2048;

/// The number of hashes that are collected before duplicates are first dropped. They take 8 MiB.
const FIRST_LIMIT: usize = 1 << 20;

/// The distinct hashes of the keys of one file.
///
/// It keeps at most 1 Mi hashes (8 MiB), or two hashes (16 bytes) per distinct key if that is more.
/// The memory that its vector reserves may be twice as large.
#[derive(Debug, Default)]
pub struct DistinctHashes {
    hashes: Vec<u64>,
    /// The number of hashes at which duplicates are dropped.
    limit: usize,
}

impl DistinctHashes {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self { hashes: Vec::new(), limit: FIRST_LIMIT }
    }

    /// Adds the hash of a key.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.hashes.len() >= self.limit {
            retain(&mut self.hashes);
            self.limit = FIRST_LIMIT.max(self.hashes.len() * 2);
        }
        self.hashes.push(hash);
    }

    /// Adds the hashes of several keys.
    pub fn add_all(&mut self, hashes: &[u64]) {
        hashes.iter().for_each(|&hash| self.add(hash));
    }

    /// Returns the distinct hashes in ascending order.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<u64> {
        retain(&mut self.hashes);
        self.hashes.sort_unstable();
        self.hashes
    }
}

/// Keeps each distinct hash once, roughly in ascending order. For [`FEW`] to [`MANY`] hashes, the
/// function needs memory for a copy.
pub(crate) fn retain(hashes: &mut Vec<u64>) {
    if !(FEW..=MANY).contains(&hashes.len()) {
        hashes.sort_unstable();
        hashes.dedup();
        return;
    }
    let shift = 64 - (hashes.len() / PER_BUCKET).ilog2();
    let (mut spread, ends) = spread(hashes, shift);
    hashes.clear();
    let (mut table, mut start) = (vec![0; SLOTS], 0);
    for end in ends {
        let bucket = spread.get_mut(start..end).unwrap_or_default();
        start = end;
        if bucket.len() <= SLOTS / 2 {
            table.fill(0);
            push_distinct(bucket, &mut table, hashes);
        } else {
            bucket.sort_unstable();
            let before = bucket.iter().copied().map(Some);
            let before = std::iter::once(None).chain(before);
            hashes.extend(
                bucket.iter().zip(before).filter(|(hash, before)| Some(**hash) != *before).map(|(hash, _)| hash),
            );
        }
    }
}

/// Returns the hashes in the order of their buckets, and the end of each bucket.
fn spread(hashes: &[u64], shift: u32) -> (Vec<u64>, Vec<usize>) {
    let bucket = |hash: u64| usize::try_from(hash >> shift).unwrap_or(0);
    // For each bucket: first its number of hashes, then the position for its next hash, and at last
    // its end.
    let mut places = vec![0_usize; 1 << (64 - shift)];
    for &hash in hashes {
        if let Some(place) = places.get_mut(bucket(hash)) {
            *place += 1;
        }
    }
    let mut start = 0;
    for place in &mut places {
        start += std::mem::replace(place, start);
    }
    let mut spread = vec![0; hashes.len()];
    for &hash in hashes {
        if let Some(place) = places.get_mut(bucket(hash)) {
            if let Some(slot) = spread.get_mut(*place) {
                *slot = hash;
            }
            *place += 1;
        }
    }
    (spread, places)
}

/// Appends each distinct hash of a bucket to `distinct`. All slots of `table` must be zero.
fn push_distinct(bucket: &[u64], table: &mut [u64], distinct: &mut Vec<u64>) {
    let mut has_zero = false;
    for &hash in bucket {
        // Zero marks a free slot.
        if hash == 0 {
            if !std::mem::replace(&mut has_zero, true) {
                distinct.push(0);
            }
            continue;
        }
        let mut at = usize::try_from(hash >> 7 & (SLOTS as u64 - 1)).unwrap_or(0);
        while let Some(slot) = table.get_mut(at % SLOTS) {
            if *slot == hash {
                break;
            }
            if *slot == 0 {
                *slot = hash;
                distinct.push(hash);
                break;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_hashes_are_distinct_for_any_number_and_spread() {
        for len in [0, 1, FEW - 1, FEW, FEW + 1, 100_000] {
            for (mask, shift) in [(u64::MAX, 0), (0xff, 0), (0xff, 56), (0, 0), (1, 63), (0xfff, 52), (0xfff, 20)] {
                let hash = |i: usize| (((i as u64 / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7) & mask) << shift;
                let mut hashes: Vec<u64> = (0..len).map(hash).collect();
                let mut expected = hashes.clone();
                expected.sort_unstable();
                expected.dedup();
                retain(&mut hashes);
                hashes.sort_unstable();
                assert_eq!(hashes, expected, "{len} {mask:x} {shift}");
            }
        }
    }

    #[test]
    fn repeated_hashes_take_no_memory() {
        let mut distinct = DistinctHashes::new();
        for i in 0..5_000_000u64 {
            distinct.add(i % 1_000);
        }
        assert!(distinct.hashes.capacity() <= 2 * FIRST_LIMIT);
        assert_eq!(distinct.into_sorted(), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn many_distinct_hashes_are_all_kept() {
        let mut distinct = DistinctHashes::new();
        let count = 3 * FIRST_LIMIT as u64;
        distinct.add_all(&(0..count).rev().collect::<Vec<_>>());
        distinct.add_all(&[0, count - 1]);
        assert_eq!(distinct.into_sorted().len() as u64, count);
    }
}
