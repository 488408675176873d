//! A filter in bytes that the host has verified: opened for one query, or a few.

use super::expected::{Expected, Found};
use super::layout::{Added, BorrowedTrailer};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::kinds::InlineGeometry;

/// A filter block in bytes of any alignment whose pages the host has verified, for hosts that hand
/// raw bytes to every probe.
///
/// Opening takes constant time and nothing from the heap: it verifies the trailer and the extension
/// (60 to 315 bytes). A damaged trailer is an error. **A damaged page goes unnoticed and can deny
/// keys**: the host must have verified the bytes by a checksum of its own. A host that cannot
/// promise that opens a [`FilterBlock`](super::FilterBlock).
///
/// Every kind of filter works. A query of a bumped ribbon reads the ribbon's geometry anew (at most
/// 12 layers), and answers "maybe" if the geometry is not valid, which no writer makes. A filter in
/// partitions is refused: open its index as a [`PartitionIndex`](super::PartitionIndex).
///
/// ```
/// use filterblock::{Error, Expected, FilterBuilder, HashSeed, KeyHasher, VerifiedFilter};
///
/// let hasher = KeyHasher::xxh3(HashSeed(42));
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher);
/// builder.add(b"apple");
/// let bytes = builder.finish()?;
///
/// // The host's callback: it gets bytes and a key, and cannot return an error. Doubt answers "maybe".
/// let key_may_match = |key: &[u8], filter: &[u8]| {
///     VerifiedFilter::open(filter, &Expected::of_any_table(&hasher)).map_or(true, |filter| filter.may_contain(key))
/// };
/// assert!(key_may_match(b"apple", &bytes) && !key_may_match(b"pear", &bytes));
/// assert!(key_may_match(b"pear", &bytes[1..]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct VerifiedFilter<'a> {
    /// The payload and what lies behind it.
    padded: &'a [u8],
    len: usize,
    geometry: InlineGeometry<'a>,
    hasher: &'a KeyHasher,
    added: Added,
    extractor: Option<&'a str>,
}

impl<'a> VerifiedFilter<'a> {
    /// Opens a filter that must be what the host expects: see [`Expected`].
    /// [`Expected::of_any_table`] is enough where the host does not tell which table the filter
    /// belongs to; the hasher is always compared.
    ///
    /// Only an error takes memory from the heap, and the first filter of the process, which looks
    /// which vector instructions there are.
    ///
    /// # Errors
    /// As [`FilterBlock::open`](super::FilterBlock::open), but for damaged pages.
    /// [`Error::Unexpected`] naming the kind for a filter in partitions; [`Error::Corrupt`] naming
    /// the partition number for one of its partitions.
    #[inline]
    pub fn open(bytes: &'a [u8], expected: &Expected<'a>) -> Result<Self> {
        Self::read(bytes, expected).map_err(|error| error.moved_by(expected.offset()))
    }

    fn read(bytes: &'a [u8], expected: &Expected<'a>) -> Result<Self> {
        let trailer = BorrowedTrailer::read(bytes)?;
        // A partition denies the keys of its neighbours.
        if trailer.place != 0 {
            return Err(trailer.corrupt(Field::PartitionNumber));
        }
        let Some(geometry) = trailer.inline_geometry()? else {
            let (found, expected) = ("partition index".to_owned(), "a filter in one piece".to_owned());
            return Err(Error::Unexpected { field: Field::Kind, found, expected });
        };
        expected.check_verified(&Found::from(&trailer))?;
        // The trailer was found behind a payload of this length.
        let len = usize::try_from(trailer.payload_len_bytes).map_err(|_| trailer.corrupt(Field::PayloadLen))?;
        let (added, extractor) = (trailer.added, trailer.extractor);
        Ok(Self { padded: bytes, len, geometry, hasher: expected.hasher(), added, extractor })
    }

    /// `false` if the key was certainly not added; `true` if it may have been. A filter of prefixes
    /// only answers `true`.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(self.hasher.of(key))
    }

    /// Asks for a whole key by its hash. The hash must come from [`VerifiedFilter::hasher`] or an
    /// equal hasher; debug builds check it and panic. A filter of prefixes only answers `true`.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        !self.added.whole_keys() || self.geometry.may_contain(self.padded, self.len, hash)
    }

    /// Hashes `prefix`, which the extractor of that name took from a key, and asks for it. `true`
    /// if the filter has no prefixes, or those of another extractor.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> bool {
        self.may_contain_hashed_prefix(extractor, self.hasher.of(prefix))
    }

    /// Asks for a prefix by its hash; otherwise like [`VerifiedFilter::may_contain_prefix`]. The
    /// hash must come from [`VerifiedFilter::hasher`] or an equal hasher; debug builds check it and
    /// panic.
    #[must_use]
    pub fn may_contain_hashed_prefix(&self, extractor: &str, hash: KeyHash) -> bool {
        self.hasher.debug_check(hash);
        self.extractor != Some(extractor) || self.geometry.may_contain(self.padded, self.len, hash)
    }

    /// What keys must be hashed by to ask this filter: the hasher that the host expects.
    #[must_use]
    pub fn hasher(&self) -> &'a KeyHasher {
        self.hasher
    }
}
