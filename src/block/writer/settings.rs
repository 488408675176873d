//! Changes the settings of a builder. Settings that decide what a key adds must come before the first
//! key.

use std::num::NonZeroUsize;

use super::{Added, FilterBuilder, MAX_EXTRACTOR_LEN_BYTES, PrefixTaker, RangeKeys, SelfCheck};
use crate::error::{Error, Result};
use crate::extractor::PrefixExtractor;
use crate::spec::FilterSpec;

impl FilterBuilder {
    /// Binds the block and each of its pages to the SST with this table id. A page of another SST's
    /// filter passes the check of its checksum only with a probability of 2^-32.
    /// [`FilterBlock::open`](crate::FilterBlock::open) detects a whole block of another SST.
    #[must_use]
    pub fn with_table_id(mut self, table_id: [u8; 16]) -> Self {
        self.table_id = table_id;
        self
    }

    /// Sets whether [`finish`](FilterBuilder::finish) asks the new filter for every key before it
    /// returns the block. The default is [`SelfCheck::On`].
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.self_check = self_check;
        self
    }

    /// Sets the number of threads that build the filter; the default is one. The number does not
    /// change the bytes.
    ///
    /// More threads speed up only the build of a large bumped ribbon without `:compact`.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Makes the builder take the prefixes of every key with `extractor`, and add them to the
    /// filter. `whole_keys_too` states whether [`add`](Self::add) also adds the key itself.
    ///
    /// Add every key by its bytes: with [`add`](Self::add) or [`add_hashed`](Self::add_hashed). If
    /// a key was added by its hash alone, [`finish`](Self::finish) returns an error.
    ///
    /// ```
    /// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, PrefixExtractor, Verify};
    ///
    /// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
    /// let extractor: PrefixExtractor = "delimiter:/".parse()?;
    /// let builder = FilterBuilder::new("bloom:10".parse()?, &hasher).with_table_id(table_id);
    /// let mut builder = builder.with_extractor(&extractor, true)?;
    /// for key in [b"user1/name", b"user2/name", b"user2/town"] {
    ///     builder.add(key);
    /// }
    /// let expected = Expected::of_table(table_id, &hasher).with_prefixes(extractor.name());
    /// let block = FilterBlock::open(builder.finish()?, &expected, Verify::AtOpen)?;
    /// assert!(block.may_contain(b"user2/town") && block.may_contain_prefix("delimiter:/", b"user1/"));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`with_prefixes`](Self::with_prefixes).
    pub fn with_extractor(self, extractor: &PrefixExtractor, whole_keys_too: bool) -> Result<Self> {
        let mut builder = self.with_prefixes(extractor.name(), whole_keys_too)?;
        builder.takes_prefixes = true;
        builder.taker = Some(Box::new(PrefixTaker::new(extractor.clone())));
        Ok(builder)
    }

    /// Declares that the host will add prefixes, which it takes with its own extractor. `extractor`
    /// is the extractor's name. `whole_keys_too` states whether the host will also add whole keys.
    ///
    /// Add the prefixes of every key. If a prefix is missing, the filter may deny it, and a scan
    /// misses the key. Use [`with_extractor`](Self::with_extractor), which takes the prefixes
    /// itself, unless the host's engine has its own extractor.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`]:
    ///
    /// * if the name does not have 1 to 100 bytes ([`MAX_EXTRACTOR_LEN_BYTES`]),
    /// * if the specification is a range filter,
    /// * if the builder has a range filter and `whole_keys_too` is `false`,
    /// * if a key or prefix was added before: the filter would deny the prefixes of earlier keys.
    pub fn with_prefixes(mut self, extractor: &str, whole_keys_too: bool) -> Result<Self> {
        if !(1..=MAX_EXTRACTOR_LEN_BYTES).contains(&extractor.len()) {
            let reason =
                format!("expected a name of 1 to {MAX_EXTRACTOR_LEN_BYTES} bytes; give the extractor such a name");
            return Err(Error::invalid("extractor name", extractor, reason));
        }
        if self.spec.is_for_ranges() {
            return Err(Error::invalid("prefixes", extractor, ONLY_RANGES));
        }
        if self.keys.is_some() && !whole_keys_too {
            return Err(Error::invalid("prefixes", extractor, NO_PREFIXES));
        }
        if !self.is_empty() {
            return Err(Error::invalid("prefixes", extractor, LATE_PREFIXES));
        }
        self.added = if whole_keys_too { Added::Both } else { Added::Prefixes };
        self.extractor = Some(extractor.to_owned());
        self.takes_prefixes = false;
        self.taker = None;
        Ok(self)
    }

    /// Makes the builder put a range filter of the same keys in front of the filter. Queries for a
    /// key ask the filter, and queries for a range ask the range filter. Each of the two is a block
    /// with its own checksums.
    ///
    /// Add every key by its bytes: with [`add`](Self::add) or [`add_hashed`](Self::add_hashed). Add
    /// prefixes with [`add_prefix`](Self::add_prefix).
    ///
    /// ```
    /// use std::ops::Bound::Included;
    /// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify};
    ///
    /// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
    /// let builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher).with_table_id(table_id);
    /// let mut builder = builder.with_ranges("grafite:fpr=0.01".parse()?)?;
    /// for key in [b"user0100", b"user0200", b"user0300"] {
    ///     builder.add(key);
    /// }
    /// let block = FilterBlock::open(builder.finish()?, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
    /// assert!(block.may_contain(b"user0200"));
    /// assert!(!block.may_contain_range(Included(b"user0400"), Included(b"user0500")));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Invalid`]:
    ///
    /// * if `ranges` is not the specification of a range filter,
    /// * if the builder's own specification is a range filter,
    /// * if the builder has prefixes without whole keys,
    /// * if a key or prefix was added before.
    pub fn with_ranges(mut self, ranges: FilterSpec) -> Result<Self> {
        let invalid = |reason| Err(Error::invalid("range filter", ranges, reason));
        if !ranges.is_for_ranges() {
            return invalid("this kind does not answer for ranges; try grafite:fpr=0.01");
        }
        if self.spec.is_for_ranges() {
            return invalid("the filter is a range filter already; do not add another");
        }
        if !self.added.whole_keys() {
            return invalid(NO_PREFIXES);
        }
        if !self.is_empty() {
            return invalid("keys or prefixes were added already; add the range filter before the first one");
        }
        self.ranges = Some(ranges);
        self.keys = Some(Box::new(RangeKeys::new()));
        Ok(self)
    }
}

const LATE_PREFIXES: &str = "keys or prefixes were added already; declare the extractor before the first one";
const NO_PREFIXES: &str = "a range filter holds whole keys; add whole keys beside the prefixes, or build two filters";
const ONLY_RANGES: &str =
    "a range filter holds whole keys only; build a second filter for the prefixes, such as bloom:10";
