//! Opens filters in bytes that the host has verified, for one query or a few. A host may keep the
//! trailer of a filter, so that it can query the same bytes again faster.

use std::ops::Bound;

use super::expected::{Expected, Found};
use super::extension::RangesRecord;
use super::layout::{Added, BorrowedTrailer};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::kinds::{FilterView, Geometry, InlineGeometry, Kernel, is_empty_range};

/// A filter block in bytes of any alignment whose pages the host has verified. It is for hosts that
/// pass raw bytes to every query.
///
/// Opening takes constant time: it verifies only the trailer and the extension (60 to 315 bytes),
/// and those of a range filter beside the filter. If the host asks few filters often, it can keep
/// their trailers: see [`VerifiedTrailer`]. A damaged trailer is an error. **A damaged page goes
/// unnoticed and can deny present keys**: the host must have verified the bytes by a checksum of
/// its own. A host without such a checksum must open a [`FilterBlock`](super::FilterBlock).
///
/// Every kind of filter works. A query of a bumped ribbon answers "maybe" if the parameters in the
/// extension are invalid. A filter in partitions does not open: open its index as a
/// [`PartitionIndex`](super::PartitionIndex).
///
/// ```
/// use filterblock::{Error, Expected, FilterBuilder, HashSeed, KeyHasher, VerifiedFilter};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher);
/// builder.add(b"apple");
/// let bytes = builder.finish()?;
///
/// // A callback of the host gets bytes and a key. It cannot return errors, so it answers "maybe".
/// let key_may_match = |key: &[u8], filter: &[u8]| {
///     VerifiedFilter::open(filter, &Expected::of_any_table(&hasher)).map_or(true, |filter| filter.may_contain(key))
/// };
/// assert!(key_may_match(b"apple", &bytes) && !key_may_match(b"pear", &bytes));
/// assert!(key_may_match(b"pear", &bytes[1..]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct VerifiedFilter<'a> {
    /// The payload and the bytes after it.
    padded: &'a [u8],
    len: usize,
    geometry: InlineGeometry<'a>,
    hasher: &'a KeyHasher,
    added: Added,
    extractor: Option<&'a str>,
    /// The range filter in front of the filter: its geometry, its block, and the length of its
    /// payload.
    beside: Option<(InlineGeometry<'a>, &'a [u8], usize)>,
}

impl<'a> VerifiedFilter<'a> {
    /// Opens a filter and compares it with what the host expects: see [`Expected`]. If the host
    /// does not know the SST of the filter, use [`Expected::of_any_table`]. The hasher is always
    /// compared.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open`](super::FilterBlock::open) for the trailer and
    /// the expectations. But damaged pages, damaged page checksums and invalid parameters of a
    /// bumped ribbon are no errors here, and neither is [`Expected::of_any_table`]. Returns
    /// [`Error::Unexpected`] with [`Field::Kind`] for a filter in partitions, and
    /// [`Error::Corrupt`] with [`Field::PartitionNumber`] for a single partition.
    #[inline]
    pub fn open(bytes: &'a [u8], expected: &Expected<'a>) -> Result<Self> {
        Self::read(bytes, expected).map_err(|error| error.moved_by(expected.offset()))
    }

    fn read(bytes: &'a [u8], expected: &Expected<'a>) -> Result<Self> {
        let (trailer, len) = read_trailer(bytes, expected)?;
        let geometry = trailer.inline_geometry()?.ok_or_else(partition_index)?;
        let (added, extractor) = (trailer.added, trailer.extractor);
        let padded = bytes.get(trailer.payload_start..).unwrap_or_default();
        let beside = trailer
            .ranges
            .filter(|_| trailer.payload_start > 0)
            .and_then(|record| Self::beside(bytes, &trailer, record));
        Ok(Self { padded, len, geometry, hasher: expected.hasher(), added, extractor, beside })
    }

    /// Opens the range filter in front of a filter. Returns `None` if the range filter cannot be
    /// used.
    fn beside(
        bytes: &'a [u8],
        outer: &BorrowedTrailer<'a>,
        record: RangesRecord,
    ) -> Option<(InlineGeometry<'a>, &'a [u8], usize)> {
        let block = record.block_in(bytes)?;
        let trailer = BorrowedTrailer::read(block).ok()?;
        let is_recorded = trailer.checksum == record.checksum && trailer.added == Added::Ranges;
        let is_of_same_table =
            (trailer.table_id, trailer.hash, trailer.partition_number) == (outer.table_id, outer.hash, 0);
        let len = usize::try_from(trailer.payload_len_bytes).ok()?;
        let geometry = trailer.inline_geometry().ok()?.filter(|_| is_recorded && is_of_same_table)?;
        Some((geometry, block, len))
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been. A range
    /// filter is asked for the range of this key alone. If the filter holds only prefixes, the
    /// function returns `true`.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        if self.added == Added::Ranges {
            return self.may_contain_range(Bound::Included(key), Bound::Included(key));
        }
        self.may_contain_hash(self.hasher.of(key))
    }

    /// Returns `false` if certainly no added key lies between the bounds, and `true` if one may:
    /// see [`FilterBlock::may_contain_range`](super::FilterBlock::may_contain_range). Without a
    /// usable range filter, returns `true` for every range that is not empty.
    #[must_use]
    pub fn may_contain_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let own = (&self.geometry, self.padded, self.len);
        let (geometry, padded, len) = match &self.beside {
            None if self.added == Added::Ranges => own,
            None => return !is_empty_range(lower, upper),
            Some((geometry, padded, len)) => (geometry, *padded, *len),
        };
        geometry.may_contain_range(self.hasher, padded, len, lower, upper)
    }

    /// Answers like [`VerifiedFilter::may_contain`] for a key with this hash. A range filter
    /// answers "maybe" for every hash. The hash must come from [`VerifiedFilter::hasher`] or an
    /// equal hasher. Debug builds panic otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        !self.added.whole_keys() || self.geometry.may_contain(self.padded, self.len, hash)
    }

    /// Returns `false` if certainly no added key has this prefix. `extractor` is the name of the
    /// extractor that took the prefix from a key. Returns `true` if a key may have the prefix, or
    /// if the filter has no prefixes or prefixes of another extractor.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> bool {
        self.may_contain_hashed_prefix(extractor, self.hasher.of(prefix))
    }

    /// Answers like [`VerifiedFilter::may_contain_prefix`] for a prefix with this hash. The hash
    /// must come from [`VerifiedFilter::hasher`] or an equal hasher. Debug builds panic otherwise,
    /// unless [`KeyHash::from_raw`] made the hash.
    #[must_use]
    pub fn may_contain_hashed_prefix(&self, extractor: &str, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        self.extractor != Some(extractor) || self.geometry.may_contain(self.padded, self.len, hash)
    }

    /// Returns the hasher of the expectations. Hash keys with this hasher or an equal hasher.
    #[must_use]
    pub fn hasher(&self) -> &'a KeyHasher {
        self.hasher
    }
}

/// Reads the trailer of a filter without partitions, and compares it with the expectations. Returns
/// the trailer and the length of the payload.
fn read_trailer<'a>(bytes: &'a [u8], expected: &Expected<'_>) -> Result<(BorrowedTrailer<'a>, usize)> {
    let trailer = BorrowedTrailer::read(bytes)?;
    // A partition denies the keys of other partitions.
    if trailer.partition_number != 0 {
        return Err(trailer.corrupt(Field::PartitionNumber));
    }
    if trailer.kind.is_none() {
        return Err(partition_index());
    }
    expected.check_verified(&Found::from(&trailer))?;
    // `BorrowedTrailer::read` found room for a payload of this length.
    let len = usize::try_from(trailer.payload_len_bytes).map_err(|_| trailer.corrupt(Field::PayloadLen))?;
    Ok((trailer, len))
}

fn partition_index() -> Error {
    let (found, expected) = ("partition index".to_owned(), "a filter in one piece".to_owned());
    Error::Unexpected { field: Field::Kind, found, expected }
}

/// The trailer of a filter, read once, for many queries of the filter's bytes.
///
/// It is for hosts that pass raw bytes to every query and ask the same filters often. The host
/// keeps the trailers that it has read, for example in a map by [`layout::checksum_of`]. A query
/// then compares the trailer's bytes and does not parse them, which takes less time than
/// [`VerifiedFilter::open`]. The host may move or free the bytes of the filter, because
/// `VerifiedTrailer` keeps a copy of the trailer and no payload.
///
/// **Like [`VerifiedFilter`], it does not verify pages.**
///
/// ```
/// use filterblock::{Error, Expected, FilterBuilder, HashSeed, KeyHasher, VerifiedTrailer};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher);
/// builder.add(b"apple");
/// let bytes = builder.finish()?;
///
/// let trailer = VerifiedTrailer::read(&bytes, &Expected::of_any_table(&hasher))?;
/// // In a later query:
/// let filter = trailer.filter_in(&bytes).expect("the bytes end in this trailer");
/// assert!(filter.may_contain_hash(hasher.of(b"apple")) && !filter.may_contain_hash(hasher.of(b"pear")));
/// assert!(trailer.filter_in(&bytes[1..]).is_none()); // other bytes: read their trailer
/// # Ok::<(), Error>(())
/// ```
///
/// [`layout::checksum_of`]: super::layout::checksum_of
#[derive(Debug, Clone)]
pub struct VerifiedTrailer {
    /// The bytes of extension and trailer.
    tail: Box<[u8]>,
    block_len: usize,
    /// The offset of the payload. It is not 0 if a range filter lies in front of the payload.
    payload_start: usize,
    payload_len: usize,
    geometry: Geometry,
    kernel: Kernel,
}

impl VerifiedTrailer {
    /// Reads the trailer of a filter and compares it with what the host expects: see [`Expected`].
    ///
    /// # Errors
    /// Returns the errors of [`VerifiedFilter::open`]. Returns [`Error::Unexpected`] with
    /// [`Field::Flags`] if the filter holds only prefixes or is a range filter. Returns
    /// [`Error::Corrupt`] if the parameters of a bumped ribbon are invalid.
    pub fn read(bytes: &[u8], expected: &Expected<'_>) -> Result<Self> {
        Self::read_here(bytes, expected).map_err(|error| error.moved_by(expected.offset()))
    }

    fn read_here(bytes: &[u8], expected: &Expected<'_>) -> Result<Self> {
        let (trailer, payload_len) = read_trailer(bytes, expected)?;
        if !trailer.added.whole_keys() {
            let (found, expected) = (trailer.added.described().to_owned(), "whole keys for queries by hash".to_owned());
            return Err(Error::Unexpected { field: Field::Flags, found, expected });
        }
        let shape = trailer.shape(trailer.kind.ok_or_else(partition_index)?);
        let geometry = trailer.geometry(&shape)?;
        let kernel = Kernel::of(&geometry);
        let (tail, block_len, payload_start) = (trailer.tail(bytes).into(), bytes.len(), trailer.payload_start);
        Ok(Self { tail, block_len, payload_start, payload_len, geometry, kernel })
    }

    /// Returns the filter in `bytes`. Returns `None` unless `bytes` have the same length, extension
    /// and trailer as the bytes from which this trailer was read.
    ///
    /// Hashes for the filter must come from the hasher of the expectations or an equal hasher: a
    /// view cannot check them.
    #[must_use]
    #[inline]
    pub fn filter_in<'a>(&'a self, bytes: &'a [u8]) -> Option<FilterView<'a>> {
        // All checks of `read` depend only on extension, trailer and length. All of these are the
        // same here, so the checks need no repetition.
        let is_same = bytes.len() == self.block_len && bytes.ends_with(&self.tail);
        let padded = bytes.get(self.payload_start..).filter(|_| is_same)?;
        Some(FilterView::new(&self.geometry, self.kernel, padded, self.payload_len))
    }
}
