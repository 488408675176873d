//! Adds the prefixes of an SST's keys to its filter.

use filterblock::{FilterBuilder, PrefixExtractor};

/// Takes the prefixes of keys that come in ascending order. Neighbours share most prefixes, and a
/// prefix that the last key had is not added again.
#[derive(Debug)]
pub(super) struct PrefixWriter {
    extractor: PrefixExtractor,
    /// The last prefixes, the shorter one first.
    last: [Option<Vec<u8>>; 2],
}

impl PrefixWriter {
    pub(super) fn new(extractor: PrefixExtractor) -> Self {
        Self { extractor, last: [None, None] }
    }

    /// Adds the prefixes of `key` to a filter that holds the prefixes of the keys before.
    pub(super) fn add(&mut self, key: &[u8], filter: &mut FilterBuilder) {
        for (last, prefix) in self.last.iter_mut().zip(self.extractor.prefixes(key)) {
            if last.as_deref() != Some(prefix) {
                filter.add_prefix(prefix);
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(prefix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::{HashSeed, KeyHasher};

    /// Returns the number of hashes in a filter of these keys and their prefixes.
    fn hashes(extractor: &str, keys: &[&[u8]]) -> usize {
        let mut filter = FilterBuilder::new("bloom:10".parse().unwrap(), KeyHasher::xxh3(HashSeed(1)));
        let mut writer = PrefixWriter::new(extractor.parse().unwrap());
        for key in keys {
            filter.add(key);
            writer.add(key, &mut filter);
        }
        filter.len()
    }

    #[test]
    fn equal_prefixes_of_neighbours_are_added_once() {
        let keys: [&[u8]; 5] = [b"a/1/x", b"a/1/y", b"a/2/x", b"b", b"b/1/x"];
        // Five keys, three rows with columns, and two rows.
        assert_eq!(hashes("row-column:/", &keys), 10);
        // "b" is a key and its own prefix.
        assert_eq!(hashes("fixed:1", &keys), 6);
        // A prefix that is the whole key has the hash of the key, which was added just before.
        assert_eq!(hashes("capped:5", &keys), 5);
        assert_eq!(hashes("capped:1", &[b"", b"a"]), 2);
    }
}
