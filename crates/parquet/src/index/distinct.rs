//! Collects the distinct hashes of one file.

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
            self.compact();
            self.limit = FIRST_LIMIT.max(self.hashes.len() * 2);
        }
        self.hashes.push(hash);
    }

    /// Adds the hashes of several keys.
    pub fn add_all(&mut self, hashes: &[u64]) {
        hashes.iter().for_each(|&hash| self.add(hash));
    }

    fn compact(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    /// Returns the distinct hashes in ascending order.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<u64> {
        self.compact();
        self.hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
