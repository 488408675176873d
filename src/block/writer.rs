//! Builds filter blocks, and filters in the compact form.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use super::layout::{Added, LOAD_LEN_BYTES, MAX_EXTRACTOR_LEN_BYTES};
use super::prefix_taker::PrefixTaker;
use super::self_check::{self, SelfCheck};
use super::trailer::{RangesRecord, Trailer};
use crate::bits::{try_collect, try_push};
use crate::error::{Error, Result};
use crate::filters::{self, Effort, Filled, FilterView, Header, Kernel, Params, RangeKeys, Rounding};
use crate::hash::{KeyHash, KeyHasher};
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
    /// and while the extractor runs.
    taker: Option<Box<PrefixTaker>>,
    hashes: Vec<KeyHash>,
    /// Whether a key or prefix was added. The number of hashes does not show this: a key may have
    /// no prefix, and an extractor may panic.
    has_keys: bool,
    /// The number of calls that began to add a key or prefix and did not end. After a call that
    /// panicked, the number stays above zero.
    num_unfinished: u32,
    /// The specification of the range filter beside the filter.
    ranges: Option<FilterSpec>,
    /// The keys of a range filter. They are boxed, because most builders have none.
    keys: Option<Box<RangeKeys>>,
    /// Whether a key was, or may have been, added by its hash alone, although a range filter or the
    /// extractor needs its bytes.
    has_hash_alone: bool,
    /// Whether there was no memory for a key. A filter of the other keys would deny that key.
    is_short_of_memory: bool,
    /// Changes the payload before the self-check.
    #[cfg(test)]
    spoil: fn(&mut [u8]),
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
            has_keys: false,
            num_unfinished: 0,
            ranges: None,
            keys: is_for_ranges.then(|| Box::new(RangeKeys::new())),
            has_hash_alone: false,
            is_short_of_memory: false,
            #[cfg(test)]
            spoil: |_| (),
        }
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
        Self { extractor, hasher, hashes: Vec::new(), has_keys: false, keys, taker, ..*self }
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
    pub(super) fn trailer(
        &self,
        num_keys: u64,
        payload_len_bytes: u64,
        header: Option<Header<'static>>,
    ) -> Trailer<'static> {
        Trailer {
            table_id: self.table_id,
            hash: self.hasher.identity(),
            num_keys,
            payload_len_bytes,
            partition_number: self.partition_number,
            header,
            added: self.added,
            extractor: self.extractor.clone().map(Cow::Owned),
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
        self.adding(|builder| {
            builder.add_to_ranges(key);
            if builder.holds_key_hashes() {
                builder.put_hash(builder.hasher.of(key));
            }
            builder.add_prefixes_of(key);
        });
    }

    /// Adds a key whose hash is known. In all other respects this method works like
    /// [`add`](Self::add).
    ///
    /// The hash must be the hash of `key` by the builder's hasher or an equal hasher. Debug builds
    /// panic otherwise, unless [`KeyHash::from_raw`] made the hash.
    pub fn add_hashed(&mut self, key: &[u8], hash: KeyHash) {
        self.adding(|builder| {
            builder.hasher.debug_check_of(key, hash);
            builder.add_to_ranges(key);
            if builder.holds_key_hashes() {
                builder.put_hash(hash);
            }
            builder.add_prefixes_of(key);
        });
    }

    /// Runs a call that adds a key or prefix. If the call panics, [`finish`](Self::finish) returns
    /// an error.
    #[inline(always)]
    fn adding(&mut self, add: impl FnOnce(&mut Self)) {
        self.has_keys = true;
        self.num_unfinished = self.num_unfinished.saturating_add(1);
        add(self);
        self.num_unfinished -= 1;
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
        self.has_keys = true;
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
        self.adding(|builder| {
            builder.has_hash_alone |= builder.needs_bytes();
            builder.put_hash(hash);
        });
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

    /// Returns whether there was no memory for a key. Then [`finish`](Self::finish) returns an
    /// error.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        self.is_short_of_memory
    }

    /// Returns the number of keys and prefixes added so far. Equal keys or prefixes in a row count
    /// once. Other repetitions may count again.
    #[must_use]
    pub fn len(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| usize::try_from(keys.len()).unwrap_or(usize::MAX));
        self.hashes.len().max(keys)
    }

    /// Returns whether no key or prefix was added. A key counts even if the filter gets no hash of
    /// it, because it has no prefix or because the extractor panicked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_keys
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
    /// * if a call that adds keys panicked, for example in the extractor's function.
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
        self.check_calls()?;
        if let Some(keys) = self.keys.take() {
            return self.finish_with_ranges(*keys);
        }
        self.finish_hashes(hashes, None)
    }

    /// Returns an error if a call that adds keys panicked.
    fn check_calls(&self) -> Result<()> {
        match (self.num_unfinished, &self.extractor) {
            (0, _) => Ok(()),
            (_, Some(extractor)) => Err(Error::invalid("extractor", extractor, PANICKED)),
            (_, None) => Err(Error::invalid("keys", "added by a call that panicked", PANICKED)),
        }
    }

    /// Encodes the block of the added hashes and `hashes`. `ranges` describes the range filter that
    /// will lie in front of the block.
    pub(super) fn finish_hashes(mut self, hashes: &[KeyHash], ranges: Option<RangesRecord>) -> Result<Vec<u8>> {
        let Filled { num_keys, header, payload: mut block } = self.encode(hashes, Rounding::Words)?;
        // The extractor's name is moved, because a copy might not fit in memory.
        let extractor = self.extractor.take().map(Cow::Owned);
        let trailer = Trailer { extractor, ranges, ..self.trailer(num_keys, block.len() as u64, Some(header)) };
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
        self.check_calls()?;
        let Filled { header, mut payload, .. } = self.encode(&[], Rounding::Bytes)?;
        payload.try_reserve(super::compact::TRAILER_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
        if !super::compact::append_trailer(&mut payload, &header, &self.hasher) {
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
        header: Header<'static>,
        num_keys: u64,
        mut payload: Vec<u8>,
    ) -> Result<Vec<u8>> {
        Params::new(&header, num_keys, payload.len() as u64)?;
        let trailer = Trailer {
            table_id: [0; 16],
            hash: hasher.into().identity(),
            num_keys,
            payload_len_bytes: payload.len() as u64,
            partition_number: 0,
            header: Some(header),
            added: Added::WholeKeys,
            extractor: None,
            ranges: None,
        };
        trailer.append_to(&mut payload).map_err(crate::bits::NoMemory::of("a filter block"))?;
        Ok(payload)
    }

    /// Builds the filter of the added hashes and `given`.
    fn encode(&mut self, given: &[KeyHash], rounding: Rounding) -> Result<Filled> {
        self.reserve(given.len());
        given.iter().for_each(|&hash| self.put_hash(hash));
        if self.is_short_of_memory {
            return Err(spec::no_memory(self.spec));
        }
        let mut hashes = std::mem::take(&mut self.hashes);
        let effort = Effort { rounding, threads: self.threads };
        let (kind, budget) = (self.spec.kind(), self.spec.budget());
        let filled = filters::build(kind, budget, &mut hashes, effort).map_err(|_| spec::no_memory(self.spec))?;
        self.spec.check_keys(filled.num_keys)?;
        let Filled { header, mut payload, num_keys } = filled;
        #[cfg(test)]
        (self.spoil)(&mut payload);
        let len = payload.len();
        // Readers would reject a block that fails this check.
        let params = Params::new(&header, num_keys, len as u64)?;
        if self.self_check == SelfCheck::On {
            // Vector loads may read beyond the payload. In a block they would read the checksums
            // and the trailer, so this check needs padding.
            payload.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
            payload.resize(len + LOAD_LEN_BYTES, 0);
            self_check::check(&FilterView::new(&params, Kernel::of(&params), &payload, len), &hashes)?;
            payload.truncate(len);
        }
        Ok(Filled { header, payload, num_keys })
    }
}

const NO_COMPACT_FORM: &str = "only the kinds bloom, blocked-bloom and always-maybe have a compact form; try bloom:10";
const PANICKED: &str = "a call that adds keys panicked, so keys or prefixes are missing; correct the extractor's function \
                        or the call, and build the filter again";

mod settings;
#[cfg(test)]
mod tests;
