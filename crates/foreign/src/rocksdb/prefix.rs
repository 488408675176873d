//! Takes the prefixes of keys as RocksDB's own extractors do. RocksDB adds the prefixes to filters
//! for prefix seeks.

/// A prefix extractor that RocksDB provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RocksDbPrefixExtractor {
    /// `rocksdb.FixedPrefix.N`: the first N bytes. A shorter key has no prefix.
    Fixed(usize),
    /// `rocksdb.CappedPrefix.N`: the first N bytes, or the whole of a shorter key.
    Capped(usize),
    /// `rocksdb.Noop`: the whole key.
    Whole,
}

impl RocksDbPrefixExtractor {
    /// Returns the extractor with this name in a table's properties, or `None` if the name is
    /// unknown.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        if name == "rocksdb.Noop" {
            return Some(Self::Whole);
        }
        let (kind, len) = name.strip_prefix("rocksdb.")?.split_once('.')?;
        // Only RocksDB's own spelling of a number counts, without a sign and without leading zeros.
        let len = len.parse().ok().filter(|parsed: &usize| parsed.to_string() == len)?;
        match kind {
            "FixedPrefix" => Some(Self::Fixed(len)),
            "CappedPrefix" => Some(Self::Capped(len)),
            _ => None,
        }
    }

    /// Returns the prefix of `key`, or `None` if the key has none.
    #[must_use]
    pub fn prefix(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(len) => key.get(..len),
            Self::Capped(len) => Some(key.get(..len).unwrap_or(key)),
            Self::Whole => Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_extractor_names_are_accepted() {
        assert_eq!(
            RocksDbPrefixExtractor::from_name("rocksdb.FixedPrefix.10"),
            Some(RocksDbPrefixExtractor::Fixed(10))
        );
        assert_eq!(
            RocksDbPrefixExtractor::from_name("rocksdb.CappedPrefix.9"),
            Some(RocksDbPrefixExtractor::Capped(9))
        );
        for name in ["", "nullptr", "rocksdb.FixedPrefix", "rocksdb.FixedPrefix.+1", "rocksdb.FixedPrefix.01", "my.1"] {
            assert_eq!(RocksDbPrefixExtractor::from_name(name), None, "{name}");
        }
        assert_eq!(RocksDbPrefixExtractor::Fixed(3).prefix(b"ab"), None);
        assert_eq!(RocksDbPrefixExtractor::Capped(3).prefix(b"ab"), Some(&b"ab"[..]));
    }
}
