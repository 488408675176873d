//! Builds filter blocks, and filters in the compact form.

use std::num::NonZeroUsize;

use super::extension::RangesRecord;
use super::layout::{Added, Content, LOAD_LEN_BYTES, MAX_EXTRACTOR_LEN_BYTES, Trailer};
use super::prefix_taker::PrefixTaker;
use super::self_check::{self, SelfCheck};
use crate::bits::{try_collect, try_push};
use crate::error::{Error, Result};
use crate::extractor::PrefixExtractor;
use crate::hash::{KeyHash, KeyHasher, sort};
use crate::kinds::{Effort, Filled, FilterView, Geometry, Kernel, RangeKeys, Rounding, Shape};
use crate::spec::{self, FilterSpec};

/// Collects the hashes of keys, or the keys of a range filter, and encodes a filter of them.
///
/// Keys may come in any order and more than once. [`finish`](FilterBuilder::finish) chooses the
/// size by the number of distinct hashes or keys, so the same set of keys gives the same bytes.
///
/// In release builds, the builder takes 8 bytes of memory per key or prefix, if
/// [`reserve`](FilterBuilder::reserve) announced their number. For a range filter, the builder
/// keeps the keys, without the leading bytes that each key shares with the key before it. If these
/// keys are out of order, [`finish`](FilterBuilder::finish) needs more memory to sort them.
#[derive(Debug, Clone)]
pub struct FilterBuilder {
    spec: FilterSpec,
    hasher: KeyHasher,
    table_id: [u8; 16],
    partition_number: u32,
    self_check: SelfCheck,
    threads: NonZeroUsize,
    added: Added,
    extractor: Option<String>,
    /// Whether the builder takes the prefixes of each key itself.
    takes_prefixes: bool,
    /// Takes the prefixes. It is `None` without [`with_extractor`](FilterBuilder::with_extractor),
    /// and while the extractor runs. So it stays `None` if the host's function panics.
    taker: Option<Box<PrefixTaker>>,
    hashes: Vec<KeyHash>,
    /// The specification of the range filter beside the filter.
    ranges: Option<FilterSpec>,
    /// The keys of a range filter. They are boxed, because most builders have none.
    keys: Option<Box<RangeKeys>>,
    /// Whether a key was, or may have been, added by its hash alone, although a range filter or the
    /// extractor needs its bytes.
    has_hash_alone: bool,
    /// Whether there was no memory for a key. A filter of the other keys would deny that key.
    is_short_of_memory: bool,
}

impl FilterBuilder {
    /// Creates a builder without keys, which hashes keys with `hasher`. A
    /// [`HashSeed`](crate::HashSeed) alone means XXH3-64 without a secret.
    #[must_use]
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Self {
        let is_for_ranges = spec.is_for_ranges();
        Self {
            spec,
            hasher: hasher.into(),
            table_id: [0; 16],
            partition_number: 0,
            self_check: SelfCheck::On,
            threads: NonZeroUsize::MIN,
            added: if is_for_ranges { Added::Ranges } else { Added::WholeKeys },
            extractor: None,
            takes_prefixes: false,
            taker: None,
            hashes: Vec::new(),
            ranges: None,
            keys: is_for_ranges.then(|| Box::new(RangeKeys::new())),
            has_hash_alone: false,
            is_short_of_memory: false,
        }
    }

    /// Binds the block and each of its pages to the SST with this table id. A page of another SST's
    /// filter passes the check of its checksum only with a probability of 2^-32.
    /// [`FilterBlock::open`](super::FilterBlock::open) detects a whole block of another SST.
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

    pub(super) fn with_partition_number(mut self, partition_number: u32) -> Self {
        self.partition_number = partition_number;
        self
    }

    /// Returns a builder with the same settings and without keys.
    pub(super) fn without_keys(&self) -> Self {
        let keys = self.keys.as_ref().map(|_| Box::new(RangeKeys::new()));
        let taker = self.taker.as_ref().map(|taker| Box::new(taker.without_keys()));
        let (extractor, hasher) = (self.extractor.clone(), self.hasher.clone());
        Self { extractor, hasher, hashes: Vec::new(), keys, taker, ..*self }
    }

    pub(super) fn spec(&self) -> FilterSpec {
        self.spec
    }

    pub(super) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub(super) fn self_check(&self) -> SelfCheck {
        self.self_check
    }

    pub(super) fn ranges_beside(&self) -> Option<FilterSpec> {
        self.ranges
    }

    pub(super) fn added(&self) -> Added {
        self.added
    }

    pub(super) fn extractor(&self) -> Option<&str> {
        self.extractor.as_deref()
    }

    /// Returns the trailer of a block with these settings, without the record of a range filter.
    pub(super) fn trailer(&self, num_keys: u64, payload_len_bytes: u64, content: Content) -> Trailer {
        Trailer {
            table_id: self.table_id,
            hash: self.hasher.identity(),
            num_keys,
            payload_len_bytes,
            partition_number: self.partition_number,
            content,
            added: self.added,
            extractor: self.extractor.clone(),
            ranges: None,
        }
    }

    /// Reserves memory for `keys` more keys. If there is not enough memory, the call reserves less
    /// or nothing.
    pub fn reserve(&mut self, keys: usize) {
        if let Some(of_ranges) = &mut self.keys {
            of_ranges.reserve(keys);
        }
        if !self.spec.is_for_ranges() {
            let _ = self.hashes.try_reserve(keys);
        }
    }

    /// Adds a key. After [`with_extractor`](FilterBuilder::with_extractor), this method also adds
    /// the prefixes of the key; without whole keys, it adds only the prefixes. If there is not
    /// enough memory, [`finish`](FilterBuilder::finish) returns an error.
    ///
    /// After [`with_prefixes`](FilterBuilder::with_prefixes), `key` may also be a prefix. With a
    /// range filter, use [`add_prefix`](FilterBuilder::add_prefix) for prefixes, because the range
    /// filter would take the prefix for a key.
    pub fn add(&mut self, key: &[u8]) {
        self.add_to_ranges(key);
        if self.holds_key_hashes() {
            self.put_hash(self.hasher.of(key));
        }
        self.add_prefixes_of(key);
    }

    /// Adds a key whose hash is known. In all other respects this method works like
    /// [`add`](Self::add).
    ///
    /// The hash must be the hash of `key` by the builder's hasher or an equal hasher. Debug builds
    /// panic otherwise, unless [`KeyHash::from_raw`] made the hash.
    pub fn add_hashed(&mut self, key: &[u8], hash: KeyHash) {
        self.hasher.debug_check_of(key, hash);
        self.add_to_ranges(key);
        if self.holds_key_hashes() {
            self.put_hash(hash);
        }
        self.add_prefixes_of(key);
    }

    /// Returns whether the hash of a key goes into the filter.
    fn holds_key_hashes(&self) -> bool {
        !self.spec.is_for_ranges() && (self.added.whole_keys() || !self.takes_prefixes)
    }

    /// Adds the prefixes of a key, if the builder takes prefixes itself.
    pub(super) fn add_prefixes_of(&mut self, key: &[u8]) {
        if let Some(mut taker) = self.taker.take() {
            taker.take(key, |prefix| self.put_hash(self.hasher.of(prefix)));
            self.taker = Some(taker);
        }
    }

    /// Adds a prefix of the key that was added last, to the filter but not to the range filter
    /// beside it. For a builder without a range filter and without
    /// [`with_extractor`](Self::with_extractor), the method does the same as [`add`](Self::add).
    ///
    /// A whole key that was added by this method would be missing in the range filter. So with a
    /// range filter, [`finish`](Self::finish) returns an error if the last key did not begin with
    /// `prefix`, or if no extractor was declared.
    ///
    /// ```
    /// use filterblock::{FilterBuilder, HashSeed};
    ///
    /// // The host's own extractor: the first five bytes.
    /// let builder = FilterBuilder::new("bloom:10".parse()?, HashSeed(42)).with_prefixes("first-5", true)?;
    /// let mut builder = builder.with_ranges("grafite:fpr=0.01".parse()?)?;
    /// for key in [b"user1/name", b"user2/name", b"user2/town"] {
    ///     builder.add(key);
    ///     builder.add_prefix(&key[..5]);
    /// }
    /// let block = builder.finish()?;
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    pub fn add_prefix(&mut self, prefix: &[u8]) {
        if let Some(keys) = &self.keys {
            self.has_hash_alone |= !self.added.prefixes() || !keys.last_begins_with(prefix);
        }
        if !self.spec.is_for_ranges() {
            self.put_hash(self.hasher.of(prefix));
        }
    }

    fn add_to_ranges(&mut self, key: &[u8]) {
        if let Some(keys) = &mut self.keys {
            self.is_short_of_memory |= keys.add(key).is_err();
        }
    }

    /// Adds a key by its hash alone. A range filter and [`with_extractor`](Self::with_extractor)
    /// need the bytes of the keys. With one of them, [`finish`](Self::finish) returns an error
    /// after a call of this method.
    ///
    /// The hash must come from the builder's hasher or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[inline]
    pub fn add_hash(&mut self, hash: KeyHash) {
        self.has_hash_alone |= self.needs_bytes();
        self.put_hash(hash);
    }

    #[inline]
    fn needs_bytes(&self) -> bool {
        self.keys.is_some() || self.takes_prefixes
    }

    #[inline]
    pub(super) fn put_hash(&mut self, hash: KeyHash) {
        self.hasher.debug_check(hash);
        // An SST often has several versions of a key in a row. A hash that equals the one before it
        // takes no memory.
        if self.hashes.last() != Some(&hash) {
            self.is_short_of_memory |= try_push(&mut self.hashes, hash).is_err();
        }
    }

    fn add_all(&mut self, hashes: &[KeyHash]) {
        self.reserve(hashes.len());
        hashes.iter().for_each(|&hash| self.put_hash(hash));
    }

    /// Returns whether there was no memory for a key. Then [`finish`](Self::finish) returns an
    /// error.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.is_short_of_memory
    }

    /// Returns the number of keys and prefixes added so far. Equal keys or prefixes in a row count
    /// once. Other repetitions may count again.
    #[must_use]
    pub fn len(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| usize::try_from(keys.len()).unwrap_or(usize::MAX));
        self.hashes.len().max(keys)
    }

    /// Returns whether no key or prefix was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Encodes the block. With [`SelfCheck::On`], asks the new filter for every key.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`]:
    ///
    /// * if the keys or the filter do not fit in memory,
    /// * if no filter of this number of keys has the requested FPR,
    /// * if a key was added by its hash alone, but a range filter or the extractor needs its bytes,
    /// * if a call of [`add_prefix`](Self::add_prefix) broke the conditions for a range filter,
    /// * if the extractor's function panicked.
    ///
    /// Returns [`Error::SelfCheckFailed`] if the filter denies a key.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.finish_with(&[])
    }

    /// Adds keys by their hashes and encodes the block. The bytes are the same as after
    /// [`add_hash`](FilterBuilder::add_hash) for each hash and [`finish`](FilterBuilder::finish).
    /// Each hash must meet the condition of [`add_hash`](FilterBuilder::add_hash).
    ///
    /// This method is for hosts that have collected the hashes themselves. If no key was added
    /// before, a build of a Bloom kind usually reads `hashes` in place. Then the builder needs no
    /// memory for them.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::finish`].
    pub fn finish_with(mut self, hashes: &[KeyHash]) -> Result<Vec<u8>> {
        hashes.iter().for_each(|&hash| self.hasher.debug_check(hash));
        self.has_hash_alone |= self.needs_bytes() && !hashes.is_empty();
        if self.has_hash_alone {
            let reason = "a range filter or an extractor needs the bytes of each key; add keys by their bytes; declare \
                          the extractor of prefixes, and add each prefix after a key that begins with it";
            return Err(Error::invalid("keys", "added without their bytes", reason));
        }
        if self.takes_prefixes && self.taker.is_none() {
            let reason = "its function panicked, so prefixes of a key are missing; correct the function, and build the \
                          filter again";
            return Err(Error::invalid("extractor", self.extractor.unwrap_or_default(), reason));
        }
        if let Some(keys) = self.keys.take() {
            return self.finish_with_ranges(*keys);
        }
        self.finish_hashes(hashes, None)
    }

    /// Encodes the block of the added hashes and `hashes`. `ranges` describes the range filter that
    /// will lie in front of the block.
    pub(super) fn finish_hashes(mut self, hashes: &[KeyHash], ranges: Option<RangesRecord>) -> Result<Vec<u8>> {
        let Encoded { num_keys, shape, geometry, payload: mut block } = self.encode(hashes, Rounding::Words)?;
        // The extractor's name is moved, because a copy might not fit in memory.
        let extractor = self.extractor.take();
        let content = Content::Filter { shape, geometry };
        let trailer = Trailer { extractor, ranges, ..self.trailer(num_keys, block.len() as u64, content) };
        trailer.append_to(&mut block).map_err(|_| spec::no_memory(self.spec))?;
        Ok(block)
    }

    /// Encodes the filter in the compact form: see [`compact`](super::compact). The compact form is
    /// bound to the hasher, but not to the table id.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::finish`]. Returns [`Error::Invalid`] if the kind has
    /// no compact form, or if the builder has an extractor or a range filter.
    pub fn finish_compact(mut self) -> Result<Vec<u8>> {
        if self.keys.is_some() {
            let reason = "the compact form has no range filter; leave out the range filter, or call finish";
            return Err(Error::invalid("range filter", self.ranges.unwrap_or(self.spec), reason));
        }
        // The compact form cannot record which parts of keys a filter holds. A reader would deny
        // whole keys that are not in a filter of prefixes.
        if let Some(extractor) = &self.extractor {
            let reason = "the compact form does not record prefixes; leave out the extractor, or call finish";
            return Err(Error::invalid("extractor", extractor, reason));
        }
        let Encoded { shape, mut payload, .. } = self.encode(&[], Rounding::Bytes)?;
        payload.try_reserve(super::compact::TRAILER_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
        if !super::compact::append_trailer(&mut payload, &shape, &self.hasher) {
            return Err(Error::invalid("filter", self.spec, NO_COMPACT_FORM));
        }
        // Hosts keep many small filters in memory. The spare capacity of the vector could be larger
        // than the filter itself.
        let exact = try_collect(payload.iter().copied());
        Ok(exact.unwrap_or(payload))
    }

    /// Encodes a block from a payload that other code built. The payload holds `num_keys` keys that
    /// were hashed with `hasher`. Returns an error if no reader would accept the block.
    #[cfg(feature = "variants")]
    pub(crate) fn seal(
        hasher: impl Into<KeyHasher>,
        shape: Shape,
        num_keys: u64,
        mut payload: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let geometry = Geometry::new(&shape, num_keys, payload.len() as u64)?;
        let trailer = Trailer {
            table_id: [0; 16],
            hash: hasher.into().identity(),
            num_keys,
            payload_len_bytes: payload.len() as u64,
            partition_number: 0,
            content: Content::Filter { shape, geometry },
            added: Added::WholeKeys,
            extractor: None,
            ranges: None,
        };
        trailer.append_to(&mut payload).map_err(crate::bits::NoMemory::of("a filter block"))?;
        Ok(payload)
    }

    fn encode(&mut self, given: &[KeyHash], rounding: Rounding) -> Result<Encoded> {
        self.encode_spoilt(given, rounding, |_| ())
    }

    /// Encodes a filter of the added hashes and `given`. Tests pass a function that spoils the
    /// payload before the self-check.
    fn encode_spoilt(&mut self, given: &[KeyHash], rounding: Rounding, spoil: fn(&mut [u8])) -> Result<Encoded> {
        let effort = Effort { rounding, threads: self.threads };
        if self.is_empty()
            && !self.is_short_of_memory
            && let Some(mut filled) = self.spec.fill(given, effort)?
        {
            spoil(&mut filled.payload);
            return self.checked(filled, given);
        }
        self.add_all(given);
        if self.is_short_of_memory {
            return Err(spec::no_memory(self.spec));
        }
        let mut hashes = std::mem::take(&mut self.hashes);
        let mut filled = match self.spec.fill(&hashes, effort)? {
            Some(filled) => filled,
            None => {
                sort(&mut hashes);
                hashes.dedup();
                let (shape, payload) = self.spec.encode(&mut hashes, effort)?;
                Filled { shape, payload, num_keys: hashes.len() as u64 }
            }
        };
        spoil(&mut filled.payload);
        self.checked(filled, &hashes)
    }

    /// Checks that readers accept the filter and, with [`SelfCheck::On`], that it denies none of
    /// its hashes.
    fn checked(&self, filled: Filled, hashes: &[KeyHash]) -> Result<Encoded> {
        let Filled { shape, mut payload, num_keys } = filled;
        let len = payload.len();
        // Readers would reject a block that fails this check.
        let geometry = Geometry::new(&shape, num_keys, len as u64)?;
        if self.self_check == SelfCheck::On {
            // Vector loads may read beyond the payload. In a block they would read the checksums
            // and the trailer, so this check needs padding.
            payload.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
            payload.resize(len + LOAD_LEN_BYTES, 0);
            self_check::check(&FilterView::new(&geometry, Kernel::of(&geometry), &payload, len), hashes)?;
            payload.truncate(len);
        }
        Ok(Encoded { num_keys, shape, geometry, payload })
    }
}

const NO_COMPACT_FORM: &str = "only the kinds bloom, blocked-bloom and always-maybe have a compact form; try bloom:10";
const LATE_PREFIXES: &str = "keys or prefixes were added already; declare the extractor before the first one";
const NO_PREFIXES: &str = "a range filter holds whole keys; add whole keys beside the prefixes, or build two filters";
const ONLY_RANGES: &str =
    "a range filter holds whole keys only; build a second filter for the prefixes, such as bloom:10";

/// A payload and the fields that its trailer needs.
struct Encoded {
    num_keys: u64,
    shape: Shape,
    geometry: Geometry,
    payload: Vec<u8>,
}

#[cfg(test)]
mod tests;
