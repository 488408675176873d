//! Takes the prefixes of the keys that a builder adds.

use crate::extractor::PrefixExtractor;

/// Takes the prefixes of keys. A key has at most two prefixes, at the first and the second
/// position. Neighbouring keys often share prefixes, so the taker skips a prefix that equals the
/// last prefix at the same position.
#[derive(Debug, Clone)]
pub(super) struct PrefixTaker {
    extractor: PrefixExtractor,
    /// The prefix that was taken last at each position.
    last: [Option<Vec<u8>>; 2],
}

impl PrefixTaker {
    pub(super) fn new(extractor: PrefixExtractor) -> Self {
        Self { extractor, last: [None, None] }
    }

    /// Calls `add` with each prefix of `key` that is not skipped.
    pub(super) fn take(&mut self, key: &[u8], mut add: impl FnMut(&[u8])) {
        for (last, prefix) in self.last.iter_mut().zip(self.extractor.prefixes(key)) {
            if last.as_deref() == Some(prefix) {
                continue;
            }
            add(prefix);
            // If there is no memory for the copy, the next key adds the prefix again.
            let mut copy = last.take().unwrap_or_default();
            copy.clear();
            if copy.try_reserve(prefix.len()).is_ok() {
                copy.extend_from_slice(prefix);
                *last = Some(copy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{FilterOptions, HashSeed, WholeKeys};

    /// Returns the number of hashes that a builder holds for these keys and their prefixes.
    fn hashes(extractor: &str, keys: &[&[u8]]) -> usize {
        let options = FilterOptions::new("bloom:10".parse().unwrap());
        let options = options.prefixes(&extractor.parse().unwrap(), WholeKeys::Too);
        let mut filter = options.builder(HashSeed(1)).unwrap();
        keys.iter().for_each(|key| filter.add(filter.hasher().key(key)));
        filter.len()
    }

    #[test]
    fn equal_prefixes_of_neighbours_are_added_once() {
        let keys: [&[u8]; 5] = [b"a/1/x", b"a/1/y", b"a/2/x", b"b", b"b/1/x"];
        // The filter holds five keys, three prefixes of row and column, and two prefixes of a row.
        assert_eq!(hashes("row-column:/", &keys), 10);
        // "b" is a key and its own prefix.
        assert_eq!(hashes("fixed:1", &keys), 6);
        // A prefix that is the whole key has the hash of the key, which was added just before.
        assert_eq!(hashes("capped:5", &keys), 5);
        assert_eq!(hashes("capped:1", &[b"", b"a"]), 2);
    }
}
