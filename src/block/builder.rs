//! Builds filter blocks, and filters in the compact form.

use std::borrow::Cow;

use super::layout::LOAD_LEN_BYTES;
use super::layout::{RangesRecord, Trailer};
use super::options::PrefixTaker;
use super::options::{FilterOptions, PrefixSource, WholeKeys};
use crate::error::{Error, Result};
use crate::filters::{self, Effort, Filled, FilterKind, FilterView, Header, Kernel, Params, RangeKeys, Rounding};
use crate::hash::{HashIdentity, Key, KeyHash, KeyHasher};
use crate::simd::{try_collect, try_push};
use crate::spec;
use crate::spec::FilterSpec;

/// Collects the hashes of keys, or the keys of a range filter, and encodes a filter of them. Made by
/// [`FilterOptions::builder`].
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
    options: FilterOptions,
    hasher: KeyHasher,
    partition_number: u32,
    /// Takes the prefixes. It is `None` without an extractor, and while the extractor runs.
    taker: Option<Box<PrefixTaker>>,
    hashes: Vec<KeyHash>,
    /// Whether a key or prefix was added. The number of hashes does not show this: a key may have
    /// no prefix, and an extractor may panic.
    has_keys: bool,
    /// Whether [`add_prefix`](Self::add_prefix) and [`add`](Self::add) were called. In a filter of
    /// prefixes alone, keys without a prefix are a mistake of the host.
    has_prefix: bool,
    has_whole_key: bool,
    /// The number of calls that began to add a key or prefix and did not end. After a call that
    /// panicked, the number stays above zero.
    num_unfinished: u32,
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

/// A built filter block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Built {
    /// The block.
    pub bytes: Vec<u8>,
    /// The checksum in the block's trailer, which identifies the block: see
    /// [`Expected::with_checksum`](super::Expected::with_checksum).
    pub checksum: u32,
    /// The number of distinct keys. Prefixes count as keys.
    pub num_keys: u64,
    pub(super) table_id: [u8; 16],
    pub(super) hash: HashIdentity,
}

impl FilterOptions {
    /// Returns a builder without keys, for keys that `hasher` hashes. A
    /// [`HashSeed`](crate::HashSeed) alone means XXH3-64 without a secret.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`]:
    ///
    /// * if the name of the extractor does not have 1 to 100 bytes,
    /// * if the specification of [`ranges`](Self::ranges) is not that of a range filter,
    /// * if the filter is a range filter, and has prefixes or another range filter,
    /// * if a range filter lies beside a filter of prefixes alone.
    pub fn builder(&self, hasher: impl Into<KeyHasher>) -> Result<FilterBuilder> {
        self.check()?;
        Ok(FilterBuilder::new(self.clone(), hasher.into()))
    }
}

impl FilterBuilder {
    fn new(options: FilterOptions, hasher: KeyHasher) -> Self {
        let taker = match &options.prefixes {
            Some((PrefixSource::Extractor(extractor), _)) => Some(Box::new(PrefixTaker::new(extractor.clone()))),
            Some((PrefixSource::Host(_), _)) | None => None,
        };
        let has_ranges = options.spec.is_for_ranges() || options.ranges.is_some();
        Self {
            options,
            hasher,
            partition_number: 0,
            taker,
            hashes: Vec::new(),
            has_keys: false,
            has_prefix: false,
            has_whole_key: false,
            num_unfinished: 0,
            keys: has_ranges.then(|| Box::new(RangeKeys::new())),
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

    pub(super) fn without_keys(&self) -> Self {
        Self::new(self.options.clone(), self.hasher.clone())
    }

    pub(super) fn built(&self, bytes: Vec<u8>, checksum: u32, num_keys: u64) -> Built {
        Built { bytes, checksum, num_keys, table_id: self.options.table_id, hash: self.hasher.identity() }
    }

    pub(super) fn options(&self) -> &FilterOptions {
        &self.options
    }

    /// Returns the hasher of the keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the trailer of a block with these settings, without the record of a range filter.
    pub(super) fn trailer(
        &self,
        num_keys: u64,
        payload_len_bytes: u64,
        header: Option<Header<'static>>,
    ) -> Trailer<'_> {
        Trailer {
            table_id: self.options.table_id,
            hash: self.hasher.identity(),
            num_keys,
            payload_len_bytes,
            partition_number: self.partition_number,
            header,
            added: self.options.added(),
            extractor: self.options.extractor().map(Cow::Borrowed),
            ranges: None,
        }
    }

    /// Reserves memory for `keys` more keys. If there is not enough memory, the call reserves less
    /// or nothing.
    pub fn reserve(&mut self, keys: usize) {
        if let Some(of_ranges) = &mut self.keys {
            of_ranges.reserve(keys);
        }
        if !self.options.spec.is_for_ranges() {
            let _ = self.hashes.try_reserve(keys);
        }
    }

    /// Adds a key, and its prefixes if the options have an extractor
    /// ([`FilterOptions::prefixes`]). In a filter of prefixes alone, only the prefixes are added.
    ///
    /// The key must come from [`hasher`](Self::hasher) or an equal hasher; debug builds panic
    /// otherwise. If there is not enough memory, [`finish`](FilterBuilder::finish) returns an error.
    pub fn add(&mut self, key: Key<'_>) {
        self.has_whole_key = true;
        self.adding(|builder| {
            builder.hasher.debug_check(key.hash());
            if let Some(keys) = &mut builder.keys {
                builder.is_short_of_memory |= keys.add(key.bytes()).is_err();
            }
            if builder.options.added().whole_keys() {
                builder.put_hash(key.hash());
            }
            builder.add_prefixes_of(key.bytes());
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

    /// Adds the prefixes of a key, if the builder takes prefixes itself.
    fn add_prefixes_of(&mut self, key: &[u8]) {
        if let Some(mut taker) = self.taker.take() {
            taker.take(key, |prefix| self.put_hash(self.hasher.of(prefix)));
            self.taker = Some(taker);
        }
    }

    /// Adds a prefix that the host took: see [`FilterOptions::prefixes_by_host`]. The prefix goes into
    /// the filter but not into the range filter beside it.
    ///
    /// A whole key that was added by this method would be missing in the range filter. So with a
    /// range filter, [`finish`](Self::finish) returns an error if the last key did not begin with
    /// `prefix`, or if the options name no extractor.
    ///
    /// ```
    /// use filterblock::{FilterOptions, HashSeed, KeyHasher, WholeKeys};
    ///
    /// // The host's own extractor: the first five bytes.
    /// let hasher = KeyHasher::xxh3(HashSeed(42));
    /// let options = FilterOptions::new("bloom:10".parse()?).prefixes_by_host("first-5", WholeKeys::Too);
    /// let mut builder = options.builder(&hasher)?;
    /// for key in [b"user1/name", b"user2/name", b"user2/town"] {
    ///     builder.add(hasher.key(key));
    ///     builder.add_prefix(hasher.key(&key[..5]));
    /// }
    /// let built = builder.finish()?.bytes;
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    pub fn add_prefix(&mut self, prefix: Key<'_>) {
        self.has_prefix = true;
        self.adding(|builder| {
            if let Some(keys) = &builder.keys {
                let has_prefixes = builder.options.prefixes.is_some();
                builder.has_hash_alone |= !has_prefixes || !keys.last_begins_with(prefix.bytes());
            }
            if !builder.options.spec.is_for_ranges() {
                builder.put_hash(prefix.hash());
            }
        });
    }

    /// Adds a key by its hash alone, or a prefix that the host took. In a filter of prefixes alone, the
    /// hash must be that of a prefix. A range filter and an extractor need the bytes of the keys. With
    /// one of them, [`finish`](Self::finish) returns an error after a call of this method.
    ///
    /// The hash must come from the builder's hasher or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[inline]
    pub fn add_hash(&mut self, hash: KeyHash) {
        self.adding(|builder| {
            builder.has_hash_alone |= builder.keys.is_some() || builder.taker.is_some();
            builder.put_hash(hash);
        });
    }

    /// Adds keys by their hashes alone: see [`add_hash`](Self::add_hash).
    pub fn add_hashes(&mut self, hashes: &[KeyHash]) {
        self.reserve(hashes.len());
        hashes.iter().for_each(|&hash| self.add_hash(hash));
    }

    #[inline]
    fn put_hash(&mut self, hash: KeyHash) {
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

    /// Returns whether a filter of prefixes alone got keys but no prefix. The host may have given its
    /// prefixes to [`add`](Self::add), and the filter would deny them.
    pub(super) fn lacks_prefixes(&self) -> bool {
        let is_of_prefixes = matches!(self.options.prefixes, Some((PrefixSource::Host(_), WholeKeys::Not)));
        is_of_prefixes && self.has_whole_key && !self.has_prefix
    }

    /// Encodes the block. Unless [`FilterOptions::self_check`] is off, asks the new filter for every
    /// key.
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
    pub fn finish(mut self) -> Result<Built> {
        if self.has_hash_alone {
            let reason = "a range filter or an extractor needs the bytes of each key; add keys by their bytes; declare \
                          the extractor of prefixes, and add each prefix after a key that begins with it";
            return Err(Error::invalid("keys", "added without their bytes", reason));
        }
        self.check_calls()?;
        match self.keys.take() {
            Some(keys) => self.finish_with_ranges(*keys),
            None => self.finish_hashes(None),
        }
    }

    /// Returns an error if a call that adds keys panicked.
    fn check_calls(&self) -> Result<()> {
        match (self.num_unfinished, self.options.extractor()) {
            (0, _) => Ok(()),
            (_, Some(extractor)) => Err(Error::invalid("extractor", extractor, PANICKED)),
            (_, None) => Err(Error::invalid("keys", "added by a call that panicked", PANICKED)),
        }
    }

    /// Encodes the block of the added hashes. `ranges` describes the range filter that will lie in
    /// front of the block.
    pub(super) fn finish_hashes(mut self, ranges: Option<RangesRecord>) -> Result<Built> {
        let Filled { num_keys, header, payload: mut bytes } = self.encode(Rounding::Words)?;
        let trailer = Trailer { ranges, ..self.trailer(num_keys, bytes.len() as u64, Some(header)) };
        let checksum = trailer.append_to(&mut bytes).map_err(|_| spec::no_memory(self.options.spec))?;
        Ok(self.built(bytes, checksum, num_keys))
    }

    /// Encodes the filter in the compact form: see [`compact`](super::compact). The compact form is
    /// bound to the hasher, but not to the table id.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBuilder::finish`]. Returns [`Error::Invalid`] if the kind has
    /// no compact form, or if the options have prefixes or a range filter.
    pub fn finish_compact(mut self) -> Result<Vec<u8>> {
        let FilterOptions { spec, ranges, .. } = self.options;
        if self.keys.is_some() {
            let reason = "the compact form has no range filter; leave out the range filter, or call finish";
            return Err(Error::invalid("range filter", ranges.unwrap_or(spec), reason));
        }
        // The compact form cannot record which parts of keys a filter holds. A reader would deny
        // whole keys that are not in a filter of prefixes.
        if let Some(extractor) = self.options.extractor() {
            let reason = "the compact form does not record prefixes; leave out the extractor, or call finish";
            return Err(Error::invalid("extractor", extractor, reason));
        }
        self.check_calls()?;
        let Filled { header, mut payload, .. } = self.encode(Rounding::Bytes)?;
        payload.try_reserve(super::compact::TRAILER_LEN_BYTES).map_err(|_| spec::no_memory(spec))?;
        if !super::compact::append_trailer(&mut payload, &header, &self.hasher) {
            return Err(Error::invalid("filter", spec, NO_COMPACT_FORM));
        }
        // Hosts keep many small filters in memory. The spare capacity of the vector could be larger
        // than the filter itself.
        let exact = try_collect(payload.iter().copied());
        Ok(exact.unwrap_or(payload))
    }

    fn encode(&mut self, rounding: Rounding) -> Result<Filled> {
        let spec = if self.lacks_prefixes() { FilterSpec::ALWAYS_MAYBE } else { self.options.spec };
        let no_memory = || spec::no_memory(spec);
        if self.is_short_of_memory {
            return Err(no_memory());
        }
        let mut hashes = std::mem::take(&mut self.hashes);
        let effort = Effort { rounding, threads: self.options.threads };
        let filled = filters::build(spec.kind(), spec.budget(), &mut hashes, effort).map_err(|_| no_memory())?;
        spec.check_keys(filled.num_keys)?;
        let Filled { header, mut payload, num_keys } = filled;
        #[cfg(test)]
        (self.spoil)(&mut payload);
        let len = payload.len();
        // Readers would reject a block that fails this check.
        let params = Params::new(&header, num_keys, len as u64)?;
        if self.options.self_check {
            // Vector loads may read beyond the payload. In a block they would read the checksums
            // and the trailer, so this check needs padding.
            payload.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| no_memory())?;
            payload.resize(len + LOAD_LEN_BYTES, 0);
            check(&FilterView::new(&params, Kernel::of(&params), &payload, len), &hashes)?;
            payload.truncate(len);
        }
        Ok(Filled { header, payload, num_keys })
    }
}

/// Encodes a block from a payload that other code built. The payload holds `num_keys` keys that were
/// hashed with `hasher`, and `param` is the only parameter of its filter.
///
/// # Errors
/// Returns an error if no reader would accept the block, or if there is no memory for it.
pub fn seal(
    hasher: impl Into<KeyHasher>,
    kind: FilterKind,
    param: u8,
    num_keys: u64,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>> {
    let (header, len) = (Header::plain(kind, param), payload.len() as u64);
    Params::new(&header, num_keys, len)?;
    let builder = FilterBuilder::new(FilterOptions::new(FilterSpec::default()), hasher.into());
    let trailer = builder.trailer(num_keys, len, Some(header));
    trailer.append_to(&mut payload).map_err(crate::error::too_large("a filter block"))?;
    Ok(payload)
}

/// Asks the filter for each hash. Returns an error if the filter denies one.
fn check(view: &FilterView<'_>, hashes: &[KeyHash]) -> Result<()> {
    let mut answers = [false; 256];
    let denied: usize = hashes
        .chunks(answers.len())
        .map(|hashes| {
            // If a query wrote no answer, the answer of the previous chunk would count.
            answers.fill(false);
            view.may_contain_batch(hashes, &mut answers);
            answers.iter().zip(hashes).filter(|(answer, _)| !**answer).count()
        })
        .sum();
    if denied == 0 { Ok(()) } else { Err(Error::SelfCheckFailed { denied: denied as u64 }) }
}

const NO_COMPACT_FORM: &str = "only the kinds bloom, blocked-bloom and always-maybe have a compact form; try bloom:10";
const PANICKED: &str = "a call that adds keys panicked, so keys or prefixes are missing; correct the extractor's function \
                        or the call, and build the filter again";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashSeed;

    /// Clears the second half of the payload.
    fn lose(payload: &mut [u8]) {
        let half = payload.len() / 2;
        payload.iter_mut().skip(half).for_each(|byte| *byte = 0);
    }

    #[test]
    fn a_filter_that_denies_its_keys_fails_the_self_check() {
        for kind in ["bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "bumped-ribbon:8", "binary-fuse:8"] {
            let finish = |spoil: fn(&mut [u8]), self_check| {
                let options = FilterOptions::new(kind.parse().unwrap()).self_check(self_check);
                let mut builder = options.builder(HashSeed(1)).unwrap();
                builder.spoil = spoil;
                (0..1_000u32).for_each(|i| builder.add_hash(KeyHash::of(&i.to_le_bytes(), HashSeed(1))));
                builder.finish().map(|built| built.bytes)
            };
            let valid = finish(|_| (), true).unwrap();
            assert!(valid == finish(|_| (), false).unwrap(), "{kind}");
            let error = finish(lose, true).unwrap_err();
            let Error::SelfCheckFailed { denied } = error else { panic!("{kind}: {error}") };
            assert!((400..=1_000).contains(&denied), "{kind}: {denied}");
            assert_eq!(finish(lose, false).unwrap().len(), valid.len(), "{kind}");
        }
    }
}
