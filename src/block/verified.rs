//! Opens filters in bytes that the host has verified, for one query or a few. A host may keep the
//! trailer of a filter, so that it can query the same bytes again faster.

use std::borrow::Cow;
use std::ops::Bound;

use super::expected::Expected;
use super::layout::Added;
use super::layout::{Located, Trailer};
use super::part::Answer;
use super::ranges;
use crate::error::{Error, Field, Result};
use crate::filters::{InlineParams, Kernel, Params, is_empty_range};
use crate::hash::{Key, KeyHash, KeyHasher};

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
/// use filterblock::{Error, Expected, FilterOptions, HashSeed, KeyHasher, VerifiedFilter};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = builder.finish()?.bytes;
///
/// // A callback of the host gets bytes and a key. It cannot return errors, so it answers "maybe".
/// let key_may_match = |key: &[u8], filter: &[u8]| {
///     VerifiedFilter::open(filter, &Expected::of_any_table(&hasher)).map_or(true, |filter| filter.may_contain(hasher.key(key)))
/// };
/// assert!(key_may_match(b"apple", &bytes) && !key_may_match(b"pear", &bytes));
/// assert!(key_may_match(b"pear", &bytes[1..]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct VerifiedFilter<'a> {
    filter: Inline<'a>,
    hasher: &'a KeyHasher,
    added: Added,
    extractor: Option<Cow<'a, str>>,
    /// The range filter in front of the filter.
    beside: Option<Inline<'a>>,
}

/// A filter without heap memory.
#[derive(Debug, Clone)]
struct Inline<'a> {
    params: InlineParams<'a>,
    padded: &'a [u8],
    len: usize,
}

impl Inline<'_> {
    #[inline]
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.params.may_contain(self.padded, self.len, hash)
    }
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
        let found = read_trailer(bytes, expected)?;
        let beside = found.trailer.ranges.filter(|_| found.payload_start > 0).and_then(|record| {
            // A range filter that cannot be used leaves the filter of keys usable.
            inline(ranges::beside(bytes, &found.trailer, record).ok()?).ok()
        });
        let (added, extractor) = (found.trailer.added, found.trailer.extractor.clone());
        Ok(Self { filter: inline(found)?, hasher: expected.hasher(), added, extractor, beside })
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been. A range
    /// filter is asked for the range of this key alone. If the filter holds only prefixes, the
    /// function returns `true`.
    ///
    /// The key must come from [`VerifiedFilter::hasher`] or an equal hasher. Debug builds panic
    /// otherwise.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        self.hasher.debug_check(key.hash());
        if self.added == Added::Ranges {
            return self.may_contain_range(Bound::Included(key.bytes()), Bound::Included(key.bytes()));
        }
        !self.added.whole_keys() || self.filter.may_contain(key.hash())
    }

    /// Returns `false` if certainly no added key lies between the bounds, and `true` if one may:
    /// see [`FilterBlock::may_contain_range`](super::FilterBlock::may_contain_range). Without a
    /// usable range filter, returns `true` for every range that is not empty.
    #[must_use]
    pub fn may_contain_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let Inline { params, padded, len } = match &self.beside {
            None if self.added == Added::Ranges => &self.filter,
            None => return !is_empty_range(lower, upper),
            Some(beside) => beside,
        };
        params.may_contain_range(self.hasher, padded, *len, lower, upper)
    }

    /// Answers like [`VerifiedFilter::may_contain`] for a key with this hash. A range filter
    /// answers "maybe" for every hash. The hash must come from [`VerifiedFilter::hasher`] or an
    /// equal hasher. Debug builds panic otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        !self.added.whole_keys() || self.filter.may_contain(hash)
    }

    /// Returns `false` if certainly no added key has this prefix. `extractor` is the name of the
    /// extractor that took the prefix from a key. Returns `true` if a key may have the prefix, or
    /// if the filter has no prefixes or prefixes of another extractor. The prefix must come from
    /// [`VerifiedFilter::hasher`] or an equal hasher.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: Key<'_>) -> bool {
        self.hasher.debug_check(prefix.hash());
        self.extractor.as_deref() != Some(extractor) || self.filter.may_contain(prefix.hash())
    }

    /// Returns the hasher of the expectations. Hash keys with this hasher or an equal hasher.
    #[must_use]
    pub fn hasher(&self) -> &'a KeyHasher {
        self.hasher
    }
}

fn read_trailer<'a>(bytes: &'a [u8], expected: &Expected<'_>) -> Result<Located<'a>> {
    let found = Located::read(bytes)?;
    // A partition denies the keys of other partitions.
    if found.trailer.partition_number != 0 {
        return Err(found.corrupt(Field::PartitionNumber));
    }
    if found.trailer.header.is_none() {
        return Err(partition_index());
    }
    expected.check_verified(&found.trailer, found.checksum)?;
    Ok(found)
}

/// Reads the parameters of a filter without heap memory.
fn inline<'a>(found: Located<'a>) -> Result<Inline<'a>> {
    let Trailer { num_keys, payload_len_bytes, .. } = found.trailer;
    let header = found.trailer.header.clone().ok_or_else(partition_index)?;
    let params = InlineParams::new(header, num_keys, payload_len_bytes).map_err(|error| found.located(error))?;
    Ok(Inline { params, padded: found.padded(), len: found.payload_len })
}

fn partition_index() -> Error {
    Error::unexpected(Field::Kind, "partition index", "a filter in one piece")
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
/// use filterblock::{Answer, Error, Expected, FilterOptions, HashSeed, KeyHasher, VerifiedTrailer};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = builder.finish()?.bytes;
///
/// let trailer = VerifiedTrailer::read(&bytes, &Expected::of_any_table(&hasher))?;
/// // In a later query:
/// assert_eq!(trailer.ask_hash(&bytes, hasher.of(b"apple")), Answer::Maybe);
/// assert_eq!(trailer.ask_hash(&bytes, hasher.of(b"pear")), Answer::No);
/// assert_eq!(trailer.ask_hash(&bytes[1..], hasher.of(b"pear")), Answer::Unfiltered); // other bytes: read their trailer
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
    params: Params,
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
        let found = read_trailer(bytes, expected)?;
        let added = found.trailer.added;
        if !added.whole_keys() {
            return Err(Error::unexpected(Field::Flags, added.described(), "whole keys for queries by hash"));
        }
        let params = found.params()?.ok_or_else(partition_index)?;
        let (kernel, tail, block_len) = (Kernel::of(&params), found.tail().into(), bytes.len());
        Ok(Self { tail, block_len, payload_start: found.payload_start, payload_len: found.payload_len, params, kernel })
    }

    /// Asks the filter in `bytes` for the key with this hash. Returns [`Answer::Unfiltered`] unless
    /// `bytes` have the same length, extension and trailer as the bytes from which this trailer was
    /// read: read the trailer of these bytes.
    ///
    /// The hash must come from the hasher of the expectations or an equal hasher.
    #[must_use]
    #[inline]
    pub fn ask_hash(&self, bytes: &[u8], hash: KeyHash) -> Answer {
        // All checks of `read` depend only on extension, trailer and length. All of these are the
        // same here, so the checks need no repetition.
        let is_same = bytes.len() == self.block_len && bytes.ends_with(&self.tail);
        match bytes.get(self.payload_start..).filter(|_| is_same) {
            Some(padded) => self.kernel.may_contain(&self.params, padded, self.payload_len, hash).into(),
            None => Answer::Unfiltered,
        }
    }
}
