//! Defines the settings of a filter block, checks them, and takes the prefixes that they ask for.

use std::num::NonZeroUsize;

use super::layout::{Added, MAX_EXTRACTOR_LEN_BYTES};
use crate::error::{Error, Result};
use crate::extractor::PrefixExtractor;
use crate::spec::FilterSpec;

/// The settings of a filter block. They are plain data: [`builder`](Self::builder) checks them, before
/// the first key.
///
/// ```
/// use std::ops::Bound::Included;
/// use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, PrefixExtractor, Verify, WholeKeys};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let extractor: PrefixExtractor = "delimiter:/".parse()?;
/// let options = FilterOptions::new("blocked-bloom:10".parse()?)
///     .table_id(table_id)
///     .prefixes(&extractor, WholeKeys::Too)
///     .ranges("grafite:fpr=0.01".parse()?);
/// let mut builder = options.builder(&hasher)?;
/// for key in [b"user1/0100", b"user2/0200", b"user2/0300"] {
///     builder.add(hasher.key(key));
/// }
/// let built = builder.finish()?;
///
/// let expected = Expected::of_table(table_id, &hasher).with_prefixes(extractor.name());
/// let filter = FilterBlock::open(built.bytes, &expected, Verify::AtOpen)?;
/// assert!(filter.may_contain(hasher.key(b"user2/0200")));
/// assert!(filter.may_contain_prefix("delimiter:/", hasher.key(b"user1/")));
/// assert!(!filter.may_contain_range(Included(b"user4/0000"), Included(b"user4/0500")));
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct FilterOptions {
    pub(super) spec: FilterSpec,
    pub(super) table_id: [u8; 16],
    pub(super) prefixes: Option<(PrefixSource, WholeKeys)>,
    pub(super) ranges: Option<FilterSpec>,
    pub(super) self_check: bool,
    pub(super) threads: NonZeroUsize,
}

/// Tells whether a filter with prefixes also holds the whole keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WholeKeys {
    /// The filter holds whole keys and prefixes.
    Too,
    /// The filter holds prefixes only, so it answers "maybe" for every whole key.
    Not,
}

#[derive(Debug, Clone)]
pub(super) enum PrefixSource {
    /// The builder takes them with this extractor.
    Extractor(PrefixExtractor),
    /// The host takes them with an extractor of this name.
    Host(String),
}

impl FilterOptions {
    /// Returns the settings of a filter of whole keys, with the default for everything else.
    pub fn new(spec: FilterSpec) -> Self {
        Self { spec, table_id: [0; 16], prefixes: None, ranges: None, self_check: true, threads: NonZeroUsize::MIN }
    }

    /// Binds the block and each of its pages to the SST with this table id. A page of another SST's
    /// filter passes the check of its checksum only with a probability of 2^-32.
    /// [`FilterBlock::open`](super::FilterBlock::open) detects a whole block of another SST.
    pub fn table_id(self, table_id: [u8; 16]) -> Self {
        Self { table_id, ..self }
    }

    /// Adds the prefixes of every key to the filter. The builder takes them with `extractor`.
    pub fn prefixes(self, extractor: &PrefixExtractor, whole_keys: WholeKeys) -> Self {
        Self { prefixes: Some((PrefixSource::Extractor(extractor.clone()), whole_keys)), ..self }
    }

    /// Adds prefixes that the host takes with its own extractor. `extractor` is the extractor's name,
    /// of 1 to 100 bytes. It tells a reader which prefixes the filter holds, so it must never get
    /// another meaning.
    ///
    /// Add the prefixes of every key with [`FilterBuilder::add_prefix`](super::FilterBuilder::add_prefix).
    /// If a prefix is missing, the filter may deny it, and a scan misses the key. A filter of prefixes
    /// alone that got keys but no prefix answers "maybe" to everything. Use
    /// [`prefixes`](Self::prefixes), unless the host's engine has its own extractor.
    pub fn prefixes_by_host(self, extractor: &str, whole_keys: WholeKeys) -> Self {
        Self { prefixes: Some((PrefixSource::Host(extractor.to_owned()), whole_keys)), ..self }
    }

    /// Puts a range filter of the same keys in front of the filter. Queries for a key ask the filter,
    /// and queries for a range ask the range filter. Each of the two is a block with its own
    /// checksums. Add every key by its bytes.
    pub fn ranges(self, ranges: FilterSpec) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    /// Sets whether the builder asks the new filter for every key before it returns the block. Then a
    /// fault of memory, processor or program is an error and no lost key. The default is `true`.
    pub fn self_check(self, is_on: bool) -> Self {
        Self { self_check: is_on, ..self }
    }

    /// Sets the number of threads that build the filter; the default is one. The number does not
    /// change the bytes. More threads speed up only the build of a large bumped ribbon without
    /// `:compact`.
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    pub(super) fn added(&self) -> Added {
        match &self.prefixes {
            None if self.spec.is_for_ranges() => Added::Ranges,
            None => Added::WholeKeys,
            Some((_, WholeKeys::Too)) => Added::Both,
            Some((_, WholeKeys::Not)) => Added::Prefixes,
        }
    }

    pub(super) fn extractor(&self) -> Option<&str> {
        self.prefixes.as_ref().map(|(source, _)| match source {
            PrefixSource::Extractor(extractor) => extractor.name(),
            PrefixSource::Host(name) => name,
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(extractor) = self.extractor() {
            if !(1..=MAX_EXTRACTOR_LEN_BYTES).contains(&extractor.len()) {
                let reason =
                    format!("expected a name of 1 to {MAX_EXTRACTOR_LEN_BYTES} bytes; give the extractor such a name");
                return Err(Error::invalid("extractor name", extractor, reason));
            }
            if self.spec.is_for_ranges() {
                return Err(Error::invalid("prefixes", extractor, ONLY_RANGES));
            }
        }
        let Some(ranges) = self.ranges else { return Ok(()) };
        let invalid = |reason| Err(Error::invalid("range filter", ranges, reason));
        if !ranges.is_for_ranges() {
            return invalid("this kind does not answer for ranges; try grafite:fpr=0.01");
        }
        if self.spec.is_for_ranges() {
            return invalid("the filter is a range filter already; do not add another");
        }
        if !self.added().whole_keys() {
            return invalid(NO_PREFIXES);
        }
        Ok(())
    }
}

const NO_PREFIXES: &str = "a range filter holds whole keys; add whole keys beside the prefixes, or build two filters";
const ONLY_RANGES: &str =
    "a range filter holds whole keys only; build a second filter for the prefixes, such as bloom:10";

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
