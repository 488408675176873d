//! Opens a filter block and answers queries from its bytes in place. Holds the filter of one SST in any
//! state: ready, degraded or absent.

use std::error::Error;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use super::expected::Expected;
use super::parsed::{ParsedBlock, Rare};
use super::part::{Answer, Bounds, Part, RangeQuery, Verify};
use super::ranges::RangeFilter;
use crate::error::Result;
use crate::filters::is_empty_range;
use crate::hash::{Key, KeyHash, KeyHasher, Secret};

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
/// use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// builder.add(hasher.key(b"pear"));
/// let bytes = builder.finish()?.bytes;
///
/// let block = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
/// assert!(block.may_contain(hasher.key(b"apple")));
/// assert!(block.may_contain_hash(hasher.of(b"pear")));
/// # Ok::<(), filterblock::Error>(())
/// ```
pub struct FilterBlock<D> {
    pub(super) parsed: ParsedBlock<D>,
    pub(super) hasher: KeyHasher,
    range_query: RangeQuery,
}

/// Omits the bytes, which may be gigabytes.
impl<D> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block that must meet the host's expectations: see [`Expected`].
    ///
    /// # Errors
    /// Returns:
    ///
    /// * [`Error::Corrupt`](crate::Error::Corrupt) or [`Error::ChecksumMismatch`](crate::Error::ChecksumMismatch) if the bytes are damaged or not a whole
    ///   filter block. With [`Verify::OnFirstTouch`] a damaged page is an error only in a partition
    ///   index. Damage of a range filter beside the filter is never an error: see
    ///   [`ParsedBlock::ranges_error`].
    /// * [`Error::Unsupported`](crate::Error::Unsupported) for a newer version, or for an unknown kind, hash function, flag or
    ///   extension record.
    /// * [`Error::Unexpected`](crate::Error::Unexpected) for a sound block that differs from the expectations in table id,
    ///   checksum, number of keys, parts of keys ([`Added`](super::Added)), extractor, hash function or seed.
    /// * [`Error::Secret`](crate::Error::Secret) if the keys were hashed with another secret.
    /// * [`Error::Invalid`](crate::Error::Invalid) if the expectations name no SST: [`Expected::of_any_table`], or a
    ///   table id of zeros without a checksum.
    /// * [`Error::TooLarge`](crate::Error::TooLarge) if there is not enough memory.
    pub fn open(data: D, expected: &Expected<'_>, verify: Verify) -> Result<Self> {
        let block = ParsedBlock::open(data, verify).map_err(|error| error.moved_by(expected.offset()))?;
        block.bind(expected)
    }

    /// Opens a block of any SST, and trusts its table id and its hasher. This function is for tools
    /// that inspect files.
    ///
    /// A store must use [`FilterBlock::open`]: a sound block of another SST can deny present keys.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open`] that do not depend on expectations, and
    /// [`Error::Secret`](crate::Error::Secret) if the keys were hashed with a secret. Open such a block with
    /// [`ParsedBlock::bind_any`].
    pub fn open_any(data: D, verify: Verify) -> Result<Self> {
        ParsedBlock::open(data, verify)?.bind_any(None)
    }

    /// Returns the bytes and the position of the filter within them. Returns `None` unless a query
    /// needs nothing else: the filter must hold whole keys in one piece, and no page may need
    /// verification.
    pub(super) fn whole_filter(&self) -> Option<(&D, &Part)> {
        let is_whole = self.rare.is_none() && self.filter.states.is_none();
        is_whole.then_some((&self.data, &self.filter))
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been.
    ///
    /// A range filter is asked for the range of this key alone. If the filter has partitions, the key
    /// chooses the partition, so `key` has the form of the added keys, without any suffix that the
    /// host appends. If the block holds only prefixes, or is a partition without its index, the
    /// function returns `true`.
    ///
    /// The key must come from [`FilterBlock::hasher`] or an equal hasher. Debug builds panic
    /// otherwise.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        self.hasher.debug_check(key.hash());
        match &self.rare {
            None => self.filter.may_contain(self.data.as_ref(), key.hash()),
            Some(rare) => self.rare_may_contain(rare, key),
        }
    }

    #[inline(never)]
    fn rare_may_contain(&self, rare: &Rare, key: Key<'_>) -> bool {
        if rare.is_of_ranges_only {
            return self.may_contain_range(Bound::Included(key.bytes()), Bound::Included(key.bytes()));
        }
        rare.never_denies_keys()
            || match &rare.partitions {
                None => self.filter.may_contain(self.data.as_ref(), key.hash()),
                Some(partitions) => partitions.may_contain(self.data.as_ref(), key.bytes(), key.hash()),
            }
    }

    /// Returns `false` if the whole key with this hash was certainly not added, and `true` if it
    /// may have been. This method is for hosts that hash a key once and ask many filters.
    ///
    /// The hash must come from [`FilterBlock::hasher`] or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash. If the block holds only prefixes, is
    /// a range filter, or is a partition without its index, the function returns `true`. If the
    /// filter has partitions, the function asks them one by one until one answers "maybe".
    /// [`FilterBlock::may_contain`] asks only one.
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

    /// Returns `false` if certainly no added key has this prefix. `extractor` is the name of the
    /// extractor that took `prefix` from a key.
    ///
    /// Returns `true` if a key may have the prefix, or if the block is a partition without its
    /// index. Also returns `true` if the block holds no prefixes, or prefixes of another extractor.
    /// If the filter has partitions, the function asks at most one of them. If keys of several
    /// partitions may begin with the prefix, it asks none and returns `true`.
    ///
    /// The prefix must come from [`FilterBlock::hasher`] or an equal hasher. Debug builds panic
    /// otherwise.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: Key<'_>) -> bool {
        self.hasher.debug_check(prefix.hash());
        let (data, hash) = (self.data.as_ref(), prefix.hash());
        match &self.rare {
            _ if !self.knows_prefixes_of(extractor) => true,
            None => self.filter.may_contain(data, hash),
            Some(rare) if rare.is_partition => true,
            Some(rare) => match &rare.partitions {
                None => self.filter.may_contain(data, hash),
                Some(partitions) => partitions.may_contain_prefix(data, prefix.bytes(), hash),
            },
        }
    }

    pub(super) fn never_denies_keys(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.never_denies_keys())
    }

    pub(super) fn never_denies_hashes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.never_denies_hashes())
    }

    pub(super) fn knows_prefixes_of(&self, extractor: &str) -> bool {
        self.trailer.extractor.as_deref() == Some(extractor)
    }

    /// Sets `answers[i]` to the result of [`FilterBlock::may_contain_hash`] for `hashes[i]`. If the
    /// slices differ in length, the answers beyond the shorter slice do not change.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        hashes.iter().for_each(|&hash| self.hasher.debug_check(hash));
        if let Some((data, filter)) = self.whole_filter() {
            return filter.view(data.as_ref()).may_contain_batch(hashes, answers);
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

    /// Returns the hasher that keys must be hashed with to ask this filter.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns `false` if certainly no added key lies between the bounds, and `true` if one may.
    ///
    /// Keys are compared as byte strings. Bounds may have any length, and may be included, excluded
    /// or unbounded. The function returns `true` if the lower bound is above the upper bound: the
    /// caller may have exchanged them. It returns `false` for an empty range: if an excluded bound
    /// equals the other bound, or if the upper bound excludes the empty key. For any other range,
    /// the function returns `true` if the block has no usable range filter
    /// ([`has_ranges`](ParsedBlock::has_ranges)).
    ///
    /// ```
    /// use std::ops::Bound::{Excluded, Included, Unbounded};
    /// use filterblock::{Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};
    ///
    /// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
    /// let mut builder = FilterOptions::new("grafite:fpr=0.01".parse()?).table_id(table_id).builder(&hasher)?;
    /// for key in [b"user0100", b"user0200", b"user0300"] {
    ///     builder.add(hasher.key(key));
    /// }
    /// let block = FilterBlock::open(builder.finish()?.bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
    /// assert!(block.may_contain_range(Included(b"user0150"), Included(b"user0200")));
    /// assert!(!block.may_contain_range(Included(b"user0400"), Unbounded));
    /// assert!(!block.may_contain_range(Excluded(b"user0300"), Excluded(b"user0400")));
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn may_contain_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        match self.ranges.as_deref() {
            Some(RangeFilter::Beside(part)) => {
                part.may_contain_range(self.data.as_ref(), &self.range_query, (lower, upper))
            }
            Some(RangeFilter::Own) if self.trailer.partition_number == 0 => self.own_may_contain_range((lower, upper)),
            Some(RangeFilter::Own | RangeFilter::Unusable(_)) | None => !is_empty_range(lower, upper),
        }
    }

    /// Returns the answer of the block's own filter or partitions. If the block is a partition,
    /// `false` says nothing about the keys of other partitions. So the caller first checks that the
    /// range lies within the partition.
    pub(super) fn own_may_contain_range(&self, bounds: Bounds<'_>) -> bool {
        match self.partitions() {
            None => self.filter.may_contain_range(self.data.as_ref(), &self.range_query, bounds),
            Some(partitions) => partitions.may_contain_range(self.data.as_ref(), &self.range_query, bounds),
        }
    }
}

/// A block that answers queries also has everything that needs no hasher.
impl<D> Deref for FilterBlock<D> {
    type Target = ParsedBlock<D>;

    #[inline(always)]
    fn deref(&self) -> &ParsedBlock<D> {
        &self.parsed
    }
}

/// Binds blocks to a hasher. Only these functions make a [`FilterBlock`].
impl<D: AsRef<[u8]>> ParsedBlock<D> {
    /// Returns the block, ready for queries, if it meets the expectations. Offsets in later errors
    /// count from the start of the host's file: see [`Expected::at_offset`].
    ///
    /// # Errors
    /// Returns [`Error::Unexpected`](crate::Error::Unexpected), [`Error::Secret`](crate::Error::Secret) or [`Error::Invalid`](crate::Error::Invalid) as
    /// [`FilterBlock::open`] does.
    pub fn bind(self, expected: &Expected<'_>) -> Result<FilterBlock<D>> {
        expected.check(&self.trailer, self.checksum())?;
        Ok(Self { offset: expected.offset(), ..self }.with_hasher(expected.hasher().clone()))
    }

    /// Returns the block, ready for queries. Does not check the block's SST. This method is for
    /// tools that inspect files. A store must use [`ParsedBlock::bind`], because a valid block of
    /// another SST can deny present keys.
    ///
    /// # Errors
    /// Returns [`Error::Secret`](crate::Error::Secret) if the secret is missing or wrong, and [`Error::Invalid`](crate::Error::Invalid) if a
    /// secret is given but the block needs none.
    pub fn bind_any(self, secret: Option<&Secret>) -> Result<FilterBlock<D>> {
        let hasher = self.trailer.hash.hasher(secret)?;
        Ok(self.with_hasher(hasher))
    }

    /// Returns the block, ready for queries with hashes of `hasher`. Does not check the block's
    /// SST, so this method is for tools, like [`ParsedBlock::bind_any`].
    ///
    /// # Errors
    /// Returns [`Error::Unexpected`](crate::Error::Unexpected) if the block has another hash function or seed than `hasher`,
    /// and [`Error::Secret`](crate::Error::Secret) if it has another secret.
    pub fn bind_to(self, hasher: &KeyHasher) -> Result<FilterBlock<D>> {
        self.trailer.hash.check(hasher)?;
        Ok(self.with_hasher(hasher.clone()))
    }

    /// The caller has checked that the keys were hashed with `hasher`.
    pub(super) fn with_hasher(self, hasher: KeyHasher) -> FilterBlock<D> {
        let range_query = RangeQuery::of(&hasher);
        FilterBlock { parsed: self, hasher, range_query }
    }
}

/// The filter of an SST in any state: usable, unusable or missing. Only [`TableFilter::Ready`]
/// ever answers [`Answer::No`].
///
/// A host makes a `TableFilter` from the result of [`FilterBlock::open`]. If opening failed, the
/// host logs the [`reason`](Self::reason) once and reads the SST without a filter.
///
/// ```
/// use filterblock::{Answer, Expected, FilterBlock, HashSeed, KeyHasher, TableFilter, Verify};
///
/// let hasher = KeyHasher::xxh3(HashSeed(1));
/// let expected = Expected::of_table(*b"table 0000000012", &hasher);
/// let damaged = [0; 100];
/// let filter = TableFilter::from(FilterBlock::open(&damaged, &expected, Verify::AtOpen));
/// assert!(matches!(filter, TableFilter::Degraded(_)));
/// assert_eq!(filter.ask(hasher.key(b"apple")), Answer::Unfiltered);
/// ```
#[derive(Debug)]
pub enum TableFilter<D> {
    /// The SST has a filter, and the filter meets the host's expectations.
    Ready(FilterBlock<D>),
    /// The SST has a filter that cannot be used, for this reason. Every answer is
    /// [`Answer::Unfiltered`].
    Degraded(Arc<dyn Error + Send + Sync>),
    /// The host wrote the SST without a filter. Every answer is [`Answer::Unfiltered`].
    Absent,
}

impl<D: AsRef<[u8]>> TableFilter<D> {
    /// Asks the filter whether the SST may hold a whole key. Returns [`Answer::Unfiltered`] if there
    /// is no usable filter, or if the filter holds only prefixes or is a partition without its
    /// index. The key must come from the filter's hasher or an equal hasher: see
    /// [`FilterBlock::may_contain`].
    #[must_use]
    #[inline]
    pub fn ask(&self, key: Key<'_>) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_keys() => filter.may_contain(key).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Answers like [`ask`](Self::ask) for a key with this hash. A range filter stores no hashes.
    pub(super) fn ask_hash(&self, hash: KeyHash) -> Answer {
        match self {
            Self::Ready(filter) if !filter.never_denies_hashes() => filter.may_contain_hash(hash).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Asks a usable range filter whether the SST may hold a key between two bounds.
    pub(super) fn ask_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Answer {
        match self {
            Self::Ready(filter) if filter.has_ranges() => filter.may_contain_range(lower, upper).into(),
            Self::Ready(_) | Self::Degraded(_) | Self::Absent => Answer::Unfiltered,
        }
    }

    /// Returns the filter if it is usable, and `None` if it is degraded or absent.
    #[must_use]
    pub fn ready(&self) -> Option<&FilterBlock<D>> {
        match self {
            Self::Ready(filter) => Some(filter),
            Self::Degraded(_) | Self::Absent => None,
        }
    }

    /// Returns the reason why the filter cannot be used, or `None` if it is usable or absent.
    #[must_use]
    pub fn reason(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Degraded(reason) => Some(reason.as_ref()),
            Self::Ready(_) | Self::Absent => None,
        }
    }
}

impl<D, E: Error + Send + Sync + 'static> From<Result<FilterBlock<D>, E>> for TableFilter<D> {
    fn from(opened: Result<FilterBlock<D>, E>) -> Self {
        opened.map(Some).into()
    }
}

impl<D, E: Error + Send + Sync + 'static> From<Result<Option<FilterBlock<D>>, E>> for TableFilter<D> {
    fn from(opened: Result<Option<FilterBlock<D>>, E>) -> Self {
        match opened {
            Ok(Some(filter)) => Self::Ready(filter),
            Ok(None) => Self::Absent,
            Err(reason) => Self::Degraded(Arc::new(reason)),
        }
    }
}
