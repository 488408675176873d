//! Opens a filter block and answers queries from its bytes in place.

use std::fmt;

use std::ops::Bound;

use super::layout::{Added, Content, TRAILER_LEN_BYTES, Trailer, offset_of};
use super::pages::DamageHandler;
use super::part::{Part, Verify};
use super::partition::Partitions;
use super::range_query::RangeQuery;
use super::ranges::{RangeFilter, Ranges};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::kinds::FilterView;

/// A filter block that is read in place from any bytes: a slice, a vector or a memory map.
///
/// Opening checks everything that queries rely on, so a query cannot fail. With
/// [`Verify::OnFirstTouch`], queries verify the pages.
///
/// The bytes must not change while the block is open, because the block verifies each page only
/// once. A memory map shows later changes of the file. It also reads a page from the file again if
/// the kernel has evicted the page. [`AlignedBytes`](super::AlignedBytes) keep a private copy.
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
// A store has thousands of blocks, and most of them are not in the processor's cache. The first
// cache line of this struct holds everything that most queries for a hash need, except the bytes
// and the pointer to them.
#[repr(C, align(64))]
pub struct FilterBlock<D> {
    pub(super) filter: Part,
    pub(super) rare: Option<Box<Rare>>,
    pub(super) data: D,
    pub(super) trailer: Box<Trailer>,
    pub(super) hasher: KeyHasher,
    pub(super) ranges: Option<Box<Ranges>>,
    /// The offset of the block in the host's file, in bytes.
    pub(super) offset: u64,
}

const _: () = assert!(size_of::<Part>() + size_of::<Option<Box<Rare>>>() <= 64);

/// State that few blocks need. It is boxed, so that a query of a common block only checks one
/// pointer.
#[derive(Debug)]
pub(super) struct Rare {
    partitions: Option<Partitions>,
    /// Whether the block holds only prefixes. Such a block never denies a whole key.
    is_of_prefixes_only: bool,
    /// Whether the block is a range filter. A range filter stores no hashes, so it never denies a
    /// hash. It answers for a key as for the range of this key alone.
    is_of_ranges_only: bool,
    /// Whether the block is a partition without its index. Such a block does not know which keys
    /// belong to it, so it never denies a key.
    is_partition: bool,
}

impl Rare {
    /// Returns whether the block must answer "maybe" for every whole key.
    fn never_denies_keys(&self) -> bool {
        self.is_of_prefixes_only || self.is_partition
    }

    /// Returns whether the block must answer "maybe" for the hash of every whole key.
    fn never_denies_hashes(&self) -> bool {
        self.never_denies_keys() || self.is_of_ranges_only
    }
}

/// Omits the bytes, which may be gigabytes.
impl<D> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block whose trailer has this partition number. The result hashes keys without
    /// a secret, even if the trailer names a hash function with a secret. So the caller must check
    /// the hasher and replace it.
    ///
    /// Another partition number is an error: a partition denies the keys of other partitions, so it
    /// must not open as a whole filter.
    pub(super) fn open_at(data: D, partition_number: u32, verify: Verify) -> Result<Self> {
        let bytes = data.as_ref();
        let (trailer, start) = Trailer::read(bytes)?;
        if trailer.partition_number != partition_number {
            let offset = bytes.len() - TRAILER_LEN_BYTES + offset_of(Field::PartitionNumber);
            return Err(Error::Corrupt { field: Field::PartitionNumber, offset: offset as u64 });
        }
        let (filter, partitions) = match &trailer.content {
            Content::Filter { .. } => (Part::new(bytes, start, &trailer, verify)?, None),
            // The index is always verified whole, because it decides which partition answers.
            Content::PartitionIndex => {
                let index = Part::new(bytes, start, &trailer, Verify::AtOpen)?;
                let partitions = Partitions::read(bytes, &index, &trailer, verify)?;
                (index, Some(partitions))
            }
        };
        let hasher = KeyHasher::xxh3(trailer.hash.seed);
        let is_of_prefixes_only = trailer.added == Added::Prefixes;
        let is_of_ranges_only = trailer.added == Added::Ranges;
        let is_partition = trailer.partition_number != 0;
        let is_rare = partitions.is_some() || is_of_prefixes_only || is_of_ranges_only || is_partition;
        let rare = is_rare.then(|| Box::new(Rare { partitions, is_of_prefixes_only, is_of_ranges_only, is_partition }));
        let ranges = Ranges::open(bytes, start, &trailer, verify, &hasher).map(Box::new);
        Ok(Self { filter, data, trailer: Box::new(trailer), hasher, rare, ranges, offset: 0 })
    }

    /// Returns the bytes and the position of the filter within them. Returns `None` unless a query
    /// needs nothing else: the filter must hold whole keys in one piece, and no page may need
    /// verification.
    pub(super) fn whole_filter(&self) -> Option<(&D, &Part)> {
        let is_whole = self.rare.is_none() && self.filter.states.is_none();
        is_whole.then_some((&self.data, &self.filter))
    }

    pub(super) fn partitions(&self) -> Option<&Partitions> {
        self.rare.as_ref()?.partitions.as_ref()
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been.
    ///
    /// `key` is a whole key, which the function hashes with the block's hasher. A range filter is
    /// asked for the range of this key alone. If the block holds only prefixes, or is a partition
    /// without its index, the function returns `true`.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hashed_key(key, self.hasher.of(key))
    }

    /// Returns `false` if the whole key with this hash was certainly not added, and `true` if it
    /// may have been. This method is for hosts that hash a key once and ask many filters.
    ///
    /// The hash must come from [`FilterBlock::hasher`] or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash. If the block holds only prefixes, is
    /// a range filter, or is a partition without its index, the function returns `true`. If the
    /// filter has partitions, the function asks them one by one until one answers "maybe".
    /// [`FilterBlock::may_contain_hashed_key`] asks only one.
    // Always inlined, so that a common query makes only one call, to the code for the processor's
    // instruction set.
    #[must_use]
    #[inline(always)]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        match &self.rare {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(rare) => rare.never_denies_hashes() || self.any_may_contain(rare, hash),
        }
    }

    #[inline(never)]
    fn any_may_contain(&self, rare: &Rare, hash: KeyHash) -> bool {
        match &rare.partitions {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(partitions) => partitions.any_may_contain(self.data.as_ref(), hash),
        }
    }

    /// Answers like [`FilterBlock::may_contain`] for a whole key whose hash is known. If the filter
    /// has partitions, `key` chooses the partition.
    ///
    /// The hash must be the hash of `key` by [`FilterBlock::hasher`] or an equal hasher. Debug
    /// builds panic otherwise, unless [`KeyHash::from_raw`] made the hash. `key` has the form of
    /// the added keys, without any suffix that the host appends: a longer key may choose another
    /// partition. If the block holds only prefixes, or is a partition without its index, the
    /// function returns `true`.
    #[must_use]
    #[inline]
    pub fn may_contain_hashed_key(&self, key: &[u8], hash: KeyHash) -> bool {
        self.hasher.debug_check_of(key, hash);
        let Some(rare) = &self.rare else { return self.filter.may_contain(self.data.as_ref(), hash) };
        if rare.is_of_ranges_only {
            return self.may_contain_range(Bound::Included(key), Bound::Included(key));
        }
        rare.never_denies_keys()
            || match &rare.partitions {
                None => self.filter.may_contain(self.data.as_ref(), hash),
                Some(partitions) => partitions.may_contain(self.data.as_ref(), key, hash),
            }
    }

    /// Returns `false` if certainly no added key has this prefix. `extractor` is the name of the
    /// extractor that took `prefix` from a key. Hashes `prefix` with the block's hasher.
    ///
    /// Returns `true` if a key may have the prefix, or if the block is a partition without its
    /// index. Also returns `true` if the block holds no prefixes, or prefixes of another extractor.
    /// If the filter has partitions, the function asks at most one of them. If keys of several
    /// partitions may begin with the prefix, it asks none and returns `true`.
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

    /// Returns whether the block answers "maybe" for every whole key, because it holds only
    /// prefixes or is a partition without its index.
    pub(super) fn never_denies_keys(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.never_denies_keys())
    }

    /// Returns whether the block answers "maybe" for the hash of every whole key. This is so if it
    /// answers "maybe" for every whole key, or if it is a range filter.
    pub(super) fn never_denies_hashes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.never_denies_hashes())
    }

    pub(super) fn knows_prefixes_of(&self, extractor: &str) -> bool {
        self.trailer.extractor.as_deref() == Some(extractor)
    }

    /// Answers like [`FilterBlock::may_contain_prefix`] for a prefix with this hash. If the filter
    /// has partitions, the function asks them one by one until one answers "maybe".
    ///
    /// The hash must come from [`FilterBlock::hasher`] or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash.
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

    /// Sets `answers[i]` to the result of [`FilterBlock::may_contain_hash`] for `hashes[i]`. If the
    /// slices differ in length, the answers beyond the shorter slice do not change.
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

    /// Prefetches the first cache lines that a query of `hash` will read. Does nothing for a filter
    /// in partitions.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        if self.partitions().is_none() {
            self.filter.view(self.data.as_ref()).prefetch(hash);
        }
    }

    /// Returns a borrowed, copyable view of the filter of whole keys. Returns `None` if the block
    /// holds only prefixes, is a range filter, or verifies its pages on first touch. Also returns
    /// `None` if the block has partitions or is a partition without its index.
    ///
    /// Hashes must come from [`FilterBlock::hasher`] or an equal hasher: a view cannot check them.
    #[must_use]
    pub fn view(&self) -> Option<FilterView<'_>> {
        (self.rare.is_none() && self.filter.states.is_none()).then(|| self.filter.view(self.data.as_ref()))
    }

    /// Returns the hasher that keys must be hashed with to ask this filter.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the expected false-positive rate: the share of absent keys for which the filter
    /// answers "maybe". For a filter of prefixes only, it is the share of absent prefixes. For a
    /// range filter, it is the share of ranges without a key: see
    /// [`FilterBlock::expected_range_fpr`].
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        match self.partitions() {
            None => self.filter.geometry.expected_fpr(self.trailer.num_keys, self.trailer.payload_len_bytes),
            Some(partitions) => partitions.expected_fpr(),
        }
    }

    /// Returns the number of pages that queries found damaged so far. It stays 0 if all pages were
    /// verified at open.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        let bad = |part: &Part| part.states.as_ref().map_or(0, |states| states.num_bad());
        let own = self.partitions().map_or_else(|| bad(&self.filter), |all| all.parts().map(bad).sum());
        own + self.part_beside().map_or(0, bad)
    }

    /// Makes later queries report damaged pages to `handler`, once for each page. They do not
    /// report pages that earlier queries found damaged. Queries find damaged pages only where pages
    /// are verified on first touch ([`Verify::OnFirstTouch`]).
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
            Some(partitions) => partitions.parts_mut().for_each(&report),
        }
        if let Some(RangeFilter::Beside(part)) = self.ranges.as_mut().map(|ranges| &mut ranges.filter) {
            report(part);
        }
        self
    }

    /// Compares all pages with their checksums, including the pages of a range filter beside the
    /// filter. Does not read the pages that hold only columns that were dropped in place.
    ///
    /// # Errors
    /// Returns [`Error::ChecksumMismatch`] for the first page that fails its checksum. If the
    /// other pages are sound, returns the error of a range filter that cannot be used.
    pub fn verify_pages(&self) -> Result<()> {
        self.verify_own_pages()?;
        if let Some(error) = self.ranges_error() {
            return Err(error.duplicate().moved_by(self.offset));
        }
        let beside = self.part_beside().map(|part| part.check_pages(self.data.as_ref(), &self.trailer.table_id, 0));
        beside.unwrap_or(Ok(())).map_err(|error| error.moved_by(self.offset))
    }

    /// Compares all pages with their checksums, but not the pages of a range filter beside the
    /// filter.
    pub(super) fn verify_own_pages(&self) -> Result<()> {
        let bytes = self.data.as_ref();
        let own = self.filter.check_pages(bytes, &self.trailer.table_id, self.trailer.partition_number);
        let all = own.and_then(|()| self.partitions().map_or(Ok(()), |parts| parts.verify_pages(bytes, &self.trailer)));
        all.map_err(|error| error.moved_by(self.offset))
    }

    /// Replaces the hasher. The caller has checked that the keys were hashed with `hasher`.
    pub(super) fn with_hasher(mut self, hasher: KeyHasher) -> Self {
        if let Some(ranges) = &mut self.ranges {
            ranges.query = RangeQuery::of(&hasher);
        }
        Self { hasher, ..self }
    }

    /// Makes queries of the filter skip the verification of pages, because the caller knows that
    /// all pages that queries read are sound. A range filter beside the filter does not change.
    pub(super) fn without_page_states(mut self) -> Self {
        match self.rare.as_mut().and_then(|rare| rare.partitions.as_mut()) {
            None => self.filter.states = None,
            Some(partitions) => partitions.parts_mut().for_each(|part| part.states = None),
        }
        self
    }

    /// Returns the bytes that were opened: the whole block. They include the range filter, if there
    /// is one, and columns that were dropped in place.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }
}
