//! Opens a filter block and answers from it, in place.

use std::fmt;

use super::layout::{Content, TRAILER_LEN_BYTES, Trailer, offset_of};
use super::pages::DamageHandler;
use super::part::{Part, Verify};
use super::partition::Partitions;
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::kinds::{Columns, FilterView};

/// A filter block read in place from any bytes: a slice, a vector, a memory map.
///
/// Opening checks everything that queries rely on, so a query cannot fail.
///
/// The bytes must stay as they are while the block is open: what was verified once is not verified again. A map of a file shows
/// what becomes of the file, and reads a page anew after the memory was taken back. [`AlignedBytes`](super::AlignedBytes) keep a
/// copy of what was verified.
///
/// ```
/// use filterblock::{Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher).with_table_id(table_id);
/// builder.add(b"apple");
/// builder.add(b"pear");
/// let bytes = builder.finish()?;
///
/// let block = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
/// assert!(block.may_contain(b"apple"));
/// assert!(block.may_contain_hash(hasher.of(b"pear")));
/// # Ok::<(), filterblock::Error>(())
/// ```
// A store has thousands, none of which is in the processor's cache: what a query needs is in the first line, but for where
// the bytes are.
#[repr(C, align(64))]
pub struct FilterBlock<D> {
    pub(super) filter: Part,
    pub(super) rare: Option<Box<Rare>>,
    pub(super) data: D,
    pub(super) trailer: Box<Trailer>,
    pub(super) hasher: KeyHasher,
    /// Where the block begins in the host's file.
    pub(super) offset: u64,
}

const _: () = assert!(size_of::<Part>() + size_of::<Option<Box<Rare>>>() <= 64);

/// What few blocks have, so that the query of one without it decides nothing more.
#[derive(Debug)]
pub(super) struct Rare {
    partitions: Option<Partitions>,
    /// Whole keys are unknown, and so never absent.
    is_of_prefixes_only: bool,
    /// A partition without its index: nobody knows which keys belong to it, and so nothing is absent.
    is_partition: bool,
}

impl Rare {
    /// Whether no whole key may be called absent.
    fn knows_no_key(&self) -> bool {
        self.is_of_prefixes_only || self.is_partition
    }
}

/// Without the bytes, which may be gigabytes.
impl<D> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Hashes keys without a secret, whatever the trailer says: only `LockedBlock` may construct this.
    ///
    /// A partition denies the keys of its neighbours. So it must never pass for the whole filter, which it would
    /// where a filter in partitions was cut behind the first.
    pub(super) fn open_at(data: D, place: u32, verify: Verify) -> Result<Self> {
        let bytes = data.as_ref();
        let (trailer, start) = Trailer::read(bytes)?;
        if trailer.place != place {
            let offset = bytes.len() - TRAILER_LEN_BYTES + offset_of(Field::PartitionNumber);
            return Err(Error::Corrupt { field: Field::PartitionNumber, offset: offset as u64 });
        }
        let (filter, partitions) = match &trailer.content {
            Content::Filter { .. } => (Part::new(bytes, start, &trailer, verify)?, None),
            // The index itself is always checked whole: it decides which partition answers.
            Content::PartitionIndex => {
                let index = Part::new(bytes, start, &trailer, Verify::AtOpen)?;
                let partitions = Partitions::read(bytes, &index, &trailer, verify)?;
                (index, Some(partitions))
            }
        };
        let hasher = KeyHasher::xxh3(trailer.hash.seed);
        let is_of_prefixes_only = !trailer.added.whole_keys();
        let is_partition = trailer.place != 0;
        let is_rare = partitions.is_some() || is_of_prefixes_only || is_partition;
        let rare = is_rare.then(|| Box::new(Rare { partitions, is_of_prefixes_only, is_partition }));
        Ok(Self { filter, data, trailer: Box::new(trailer), hasher, rare, offset: 0 })
    }

    /// The bytes and the filter at their start, if a query needs nothing else: the filter is of whole keys, in one piece and
    /// verified.
    pub(super) fn whole_filter(&self) -> Option<(&D, &Part)> {
        let is_whole = self.rare.is_none() && self.filter.states.is_none() && self.filter.start == 0;
        is_whole.then_some((&self.data, &self.filter))
    }

    pub(super) fn partitions(&self) -> Option<&Partitions> {
        self.rare.as_ref()?.partitions.as_ref()
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    ///
    /// Hashes `key`, a whole key, by the block's hasher. A block of prefixes only answers `true`.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hashed_key(key, self.hasher.of(key))
    }

    /// Asks for a whole key by its hash, for hosts that hash a key once and ask many filters.
    ///
    /// The hash must come from [`FilterBlock::hasher`] or an equal hasher; debug builds check it and panic. A block of prefixes
    /// only answers `true`. A filter in partitions is asked in all of them; [`FilterBlock::may_contain_hashed_key`] asks one.
    ///
    /// Inlined always: a query of a line takes less time than a call.
    #[must_use]
    #[inline(always)]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        match &self.rare {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(rare) => rare.knows_no_key() || self.any_may_contain(rare, hash),
        }
    }

    #[inline(never)]
    fn any_may_contain(&self, rare: &Rare, hash: KeyHash) -> bool {
        match &rare.partitions {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(partitions) => partitions.any_may_contain(self.data.as_ref(), hash),
        }
    }

    /// Asks for a whole key whose hash is at hand; `key` chooses the partition, if the filter has partitions.
    ///
    /// The hash must be that of `key`, by [`FilterBlock::hasher`] or an equal hasher; debug builds check it and panic. `key` is the
    /// user's key, without what a host appends to it: another key chooses another partition. A block of prefixes only answers
    /// `true`.
    #[must_use]
    #[inline]
    pub fn may_contain_hashed_key(&self, key: &[u8], hash: KeyHash) -> bool {
        self.hasher.debug_check_of(key, hash);
        let Some(rare) = &self.rare else { return self.filter.may_contain(self.data.as_ref(), hash) };
        rare.knows_no_key()
            || match &rare.partitions {
                None => self.filter.may_contain(self.data.as_ref(), hash),
                Some(partitions) => partitions.may_contain(self.data.as_ref(), key, hash),
            }
    }

    /// Asks for a whole key by its hash in some of the filter's columns. The columns of a bumped ribbon lie in groups of eight,
    /// one after the other: with [`Columns::First`] a query touches nothing of the second and later groups. Other kinds have no
    /// columns, and are asked as a whole. Otherwise like [`FilterBlock::may_contain_hash`].
    #[must_use]
    #[inline]
    pub fn may_contain_with(&self, hash: KeyHash, columns: Columns) -> bool {
        self.hasher.debug_check(hash);
        let data = self.data.as_ref();
        match &self.rare {
            None => self.filter.may_contain_with(data, hash, columns),
            Some(rare) if rare.knows_no_key() => true,
            Some(rare) => match &rare.partitions {
                None => self.filter.may_contain_with(data, hash, columns),
                Some(partitions) => partitions.parts().any(|part| part.may_contain_with(data, hash, columns)),
            },
        }
    }

    /// Hashes `prefix`, which the extractor of that name took from a key, and asks for it. `true` if the block holds no
    /// prefixes, or those of another extractor. A filter in partitions is asked in one of them.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> bool {
        let hash = self.hasher.of(prefix);
        match self.partitions() {
            None => self.may_contain_hashed_prefix(extractor, hash),
            Some(partitions) => {
                !self.knows_prefixes_of(extractor) || partitions.may_contain_prefix(self.data.as_ref(), prefix, hash)
            }
        }
    }

    /// Whether no whole key can be denied: the block holds prefixes only, or is a partition without its index.
    pub(super) fn knows_no_key(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.knows_no_key())
    }

    pub(super) fn knows_prefixes_of(&self, extractor: &str) -> bool {
        self.trailer.extractor.as_deref() == Some(extractor)
    }

    /// Asks for a prefix by its hash; otherwise like [`FilterBlock::may_contain_prefix`]. A filter in partitions is asked in
    /// all of them.
    ///
    /// The hash must come from [`FilterBlock::hasher`] or an equal hasher; debug builds check it and panic.
    #[must_use]
    pub fn may_contain_hashed_prefix(&self, extractor: &str, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        if !self.knows_prefixes_of(extractor) {
            return true;
        }
        match &self.rare {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(rare) if rare.is_partition => true,
            Some(rare) => self.any_may_contain(rare, hash),
        }
    }

    /// Asks for many whole keys by their hashes: `answers[i]` belongs to `hashes[i]`. Answers beyond the shorter slice stay as
    /// they are. Otherwise like [`FilterBlock::may_contain_hash`].
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        hashes.iter().for_each(|&hash| self.hasher.debug_check(hash));
        if let Some(view) = self.view() {
            return view.may_contain_batch(hashes, answers);
        }
        for &hash in hashes {
            self.prefetch(hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = self.may_contain_hash(hash);
        }
    }

    /// Starts to bring what a query of `hash` will read into the processor's cache.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        if self.partitions().is_none() {
            self.filter.view(self.data.as_ref()).prefetch(hash);
        }
    }

    /// The filter of whole keys as a borrow that can be copied. `None` if the block holds prefixes only, is in partitions, or
    /// verifies its pages on first touch.
    ///
    /// Hashes must come from [`FilterBlock::hasher`] or an equal hasher: a view cannot check it.
    #[must_use]
    pub fn view(&self) -> Option<FilterView<'_>> {
        (self.rare.is_none() && self.filter.states.is_none()).then(|| self.filter.view(self.data.as_ref()))
    }

    /// What keys must be hashed by to ask this filter.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The share of absent keys that is expected to be answered "maybe".
    #[must_use]
    pub fn expected_false_positive_rate(&self) -> f64 {
        match self.partitions() {
            None => self.filter.geometry.expected_rate(self.trailer.num_keys, self.trailer.payload_len_bytes),
            Some(partitions) => partitions.expected_rate(),
        }
    }

    /// Pages found damaged so far; those of [`Verify::AtOpen`] were found sound before the block opened.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        let bad = |part: &Part| part.states.as_ref().map_or(0, |states| states.num_bad());
        self.partitions().map_or_else(|| bad(&self.filter), |all| all.parts().map(bad).sum())
    }

    /// From now on tells `handler` of each page that a query finds damaged, once a page. Only pages of
    /// [`Verify::OnFirstTouch`] can be found damaged by a query.
    #[must_use]
    pub fn on_damage(mut self, handler: &DamageHandler) -> Self {
        let offset = self.offset;
        let report = |part: &mut Part| {
            if let Some(states) = &mut part.states {
                states.report_to(handler.clone(), offset.saturating_add(part.start as u64));
            }
        };
        match self.rare.as_mut().and_then(|rare| rare.partitions.as_mut()) {
            None => report(&mut self.filter),
            Some(partitions) => partitions.parts_mut().for_each(report),
        }
        self
    }

    /// Compares all pages with their checksums, now.
    ///
    /// # Errors
    /// [`Error::ChecksumMismatch`] for the first page that differs.
    pub fn verify_pages(&self) -> Result<()> {
        let bytes = self.data.as_ref();
        let own = self.filter.check_pages(bytes, &self.trailer.table_id, self.trailer.place);
        let all = own.and_then(|()| self.partitions().map_or(Ok(()), |parts| parts.verify_pages(bytes, &self.trailer)));
        all.map_err(|error| error.moved_by(self.offset))
    }

    /// The bytes of the whole block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }
}
