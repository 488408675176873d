//! Opens a filter block and answers from it, in place.

use std::fmt;

use super::layout::{Added, Content, PAGE_CHECKSUM_LEN_BYTES, TRAILER_LEN_BYTES, Trailer, offset_of, page_count};
use super::locked::LockedBlock;
use super::pages::{self, FirstTouch, PageStates};
use super::partition::Partitions;
use crate::error::{Error, Field, Result};
use crate::hash::{HashSeed, KeyHash, KeyHasher, Secret};
use crate::kinds::{Ask, Columns, FilterKind, FilterView, Geometry, Isa};

/// When the pages of a filter are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Verify {
    /// All at open: a damaged filter is an error there, and queries ask nothing more.
    #[default]
    AtOpen,
    /// Each on its first touch: opening reads the trailer and the page sums only (a thousandth of the filter). A
    /// damaged page then answers "maybe", and is counted ([`FilterBlock::damaged_pages`]).
    OnFirstTouch,
}

/// A filter block read in place from any bytes: a slice, a vector, a memory map.
///
/// Opening checks everything that queries rely on, so a query cannot fail.
///
/// ```
/// use filterblock::{FilterBlock, FilterBuilder, FilterSpec, HashSeed, KeyHash};
///
/// let seed = HashSeed(42);
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, seed);
/// builder.add(b"apple");
/// builder.add(b"pear");
/// let block = FilterBlock::open(builder.finish()?)?;
/// assert!(block.may_contain(KeyHash::of(b"apple", seed)));
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
}

const _: () = assert!(size_of::<Part>() + size_of::<Option<Box<Rare>>>() <= 64);

/// What few blocks have, so that the query of one without it decides nothing more.
#[derive(Debug)]
pub(super) struct Rare {
    partitions: Option<Partitions>,
    /// Whole keys are unknown, and so never absent.
    is_of_prefixes_only: bool,
}

/// Where one filter lies within the bytes of a block, and how it is asked.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) geometry: Geometry,
    ask: Ask,
    /// `None` when all pages were checked at open.
    states: Option<Box<PageStates>>,
}

/// What a block says about itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilterInfo {
    /// The kind of filter; of the first partition, if there are any. A partition may be of another kind than its
    /// neighbours, where its keys could not be placed in a filter of the kind that was asked for.
    pub kind: FilterKind,
    /// Distinct keys.
    pub num_keys: u64,
    /// Bytes of the filters themselves.
    pub payload_len_bytes: u64,
    /// Bytes of the whole block, sums and trailer included.
    pub block_len_bytes: u64,
    /// Bits of the whole block per distinct key; 0 without keys.
    pub bits_per_key: f64,
    /// Bits asked per query; in the first partition, if there are any.
    pub probes: u32,
    /// The share of absent keys that is expected to be answered "maybe", by the exact formula of the kind.
    pub expected_false_positive_rate: f64,
    /// The share of bits that are set.
    pub fill: f64,
    /// The number of distinct keys, guessed from the fill alone; `None` where the bits do not tell, or partitions are of
    /// several kinds.
    pub estimated_keys: Option<f64>,
    /// The number of partitions; 0 for a filter in one piece.
    pub partitions: usize,
}

/// Without the bytes, which may be gigabytes.
impl<D> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block and compares all its pages with their checksums.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::ChecksumMismatch`] for damaged, cut, extended or foreign bytes,
    /// [`Error::Unsupported`] for a newer version or an unknown kind, hash function, flag or extension;
    /// [`Error::Secret`] for a sound block whose keys were hashed under a secret.
    pub fn open(data: D) -> Result<Self> {
        Self::open_with(data, Verify::AtOpen)
    }

    /// Opens a block and compares its pages with their checksums when `verify` says.
    ///
    /// # Errors
    /// As [`FilterBlock::open`], but with [`Verify::OnFirstTouch`] a damaged page is no error.
    pub fn open_with(data: D, verify: Verify) -> Result<Self> {
        LockedBlock::open(data, verify)?.unlock(None)
    }

    /// Opens a block whose keys were hashed under a secret.
    ///
    /// # Errors
    /// As [`FilterBlock::open_with`]; [`Error::Secret`] for another secret, [`Error::Invalid`] for a block that
    /// was made without one.
    pub fn open_with_secret(data: D, verify: Verify, secret: &Secret) -> Result<Self> {
        LockedBlock::open(data, verify)?.unlock(Some(secret))
    }

    /// Opens one partition of a filter that is split by key range, alone, from its bytes: the `number`-th, from 0.
    ///
    /// # Errors
    /// As [`FilterBlock::open_with`]; another partition, or a block that is none, is `Corrupt`.
    pub fn open_partition(data: D, number: u32, verify: Verify) -> Result<Self> {
        LockedBlock::open_partition(data, number, verify)?.unlock(None)
    }

    /// Hashes keys without a secret, whatever the trailer says: nobody but [`LockedBlock`] may have it like that.
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
        let is_rare = partitions.is_some() || is_of_prefixes_only;
        let rare = is_rare.then(|| Box::new(Rare { partitions, is_of_prefixes_only }));
        Ok(Self { filter, data, trailer: Box::new(trailer), hasher, rare })
    }

    fn partitions(&self) -> Option<&Partitions> {
        self.rare.as_ref()?.partitions.as_ref()
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    ///
    /// A filter in partitions is asked in all of them; [`FilterBlock::may_contain_key`] asks the right one.
    ///
    /// The hash must be made by the block's hasher, of what was added: a hash does not tell whether it is that of a key or of a
    /// prefix. [`FilterBlock::may_contain_key`] and [`FilterBlock::may_contain_prefix`] cannot be mixed up.
    ///
    /// Caution: in a block of prefixes only ([`FilterBlock::added`]), the hash of a whole key is "absent" although the key was
    /// there. Ask by [`FilterBlock::may_contain_key`] and [`FilterBlock::may_contain_prefix`], or by their `hashed` forms.
    ///
    /// Inlined always: a query of a line takes less time than a call.
    #[must_use]
    #[inline(always)]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match &self.rare {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(rare) => self.any_may_contain(rare, hash),
        }
    }

    #[inline(never)]
    fn any_may_contain(&self, rare: &Rare, hash: KeyHash) -> bool {
        match &rare.partitions {
            None => self.filter.may_contain(self.data.as_ref(), hash),
            Some(partitions) => partitions.any_may_contain(self.data.as_ref(), hash),
        }
    }

    /// Like [`FilterBlock::may_contain`], from some of the filter's columns: those of a bumped ribbon lie in groups of eight,
    /// one after the other, and with [`Columns::First`] a query touches nothing of the second and later groups. Other
    /// kinds have no columns, and are asked as a whole.
    ///
    /// Caution: in a block of prefixes only ([`FilterBlock::added`]), the hash of a whole key is "absent" although the key was
    /// there. Ask by [`FilterBlock::may_contain_key`] and [`FilterBlock::may_contain_prefix`], or by their `hashed` forms.
    #[must_use]
    #[inline]
    pub fn may_contain_with(&self, hash: KeyHash, columns: Columns) -> bool {
        match self.partitions() {
            None => self.filter.may_contain_with(self.data.as_ref(), hash, columns),
            Some(partitions) => partitions.parts().any(|part| part.may_contain_with(self.data.as_ref(), hash, columns)),
        }
    }

    /// Hashes `key`, a whole key, by the block's hasher and asks for it; `true` where only prefixes were added. A prefix is
    /// asked for by its hash.
    #[must_use]
    pub fn may_contain_key(&self, key: &[u8]) -> bool {
        self.may_contain_hashed_key(key, self.hasher.of(key))
    }

    /// Asks for a whole key whose hash is at hand; the key itself chooses the partition, where there are any. `true` where only
    /// prefixes were added.
    #[must_use]
    #[inline]
    pub fn may_contain_hashed_key(&self, key: &[u8], hash: KeyHash) -> bool {
        let Some(rare) = &self.rare else { return self.filter.may_contain(self.data.as_ref(), hash) };
        rare.is_of_prefixes_only
            || match &rare.partitions {
                None => self.filter.may_contain(self.data.as_ref(), hash),
                Some(partitions) => partitions.may_contain(self.data.as_ref(), key, hash),
            }
    }

    /// Hashes `prefix`, which the function of that name took of a key, by the block's hasher and asks for it; `true` where no
    /// prefixes were added, or another function took them.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> bool {
        self.may_contain_hashed_prefix(extractor, self.hasher.of(prefix))
    }

    /// The same of a prefix whose hash is at hand.
    #[must_use]
    pub fn may_contain_hashed_prefix(&self, extractor: &str, hash: KeyHash) -> bool {
        self.extractor() != Some(extractor) || self.may_contain(hash)
    }

    /// Answers for many keys at once: `answers[i]` belongs to `hashes[i]`; those beyond the shorter slice are left.
    ///
    /// Caution: in a block of prefixes only ([`FilterBlock::added`]), the hash of a whole key is "absent" although the key was
    /// there. Ask by [`FilterBlock::may_contain_key`] and [`FilterBlock::may_contain_prefix`], or by their `hashed` forms.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        if let Some(view) = self.view() {
            return view.may_contain_batch(hashes, answers);
        }
        for &hash in hashes {
            self.prefetch(hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = self.may_contain(hash);
        }
    }

    /// Starts to bring what a query of `hash` will read into the processor's cache.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        if self.partitions().is_none() {
            self.filter.view(self.data.as_ref()).prefetch(hash);
        }
    }

    /// The filter as a borrow that can be copied; `None` if it is in partitions or its pages are checked on first
    /// touch.
    ///
    /// Caution: in a block of prefixes only ([`FilterBlock::added`]), the hash of a whole key is "absent" although the key was
    /// there. Ask by [`FilterBlock::may_contain_key`] and [`FilterBlock::may_contain_prefix`], or by their `hashed` forms.
    #[must_use]
    pub fn view(&self) -> Option<FilterView<'_>> {
        (self.partitions().is_none() && self.filter.states.is_none()).then(|| self.filter.view(self.data.as_ref()))
    }

    /// What keys must be hashed by to ask this filter.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The seed under which keys must be hashed to ask this filter; where they were hashed under a secret too, it takes
    /// [`FilterBlock::hasher`] to hash them.
    #[must_use]
    pub fn seed(&self) -> HashSeed {
        self.trailer.hash.seed
    }

    /// The table that the writer said the filter belongs to; zeros if it said none.
    #[must_use]
    pub fn table_id(&self) -> [u8; 16] {
        self.trailer.table_id
    }

    /// What was hashed into the filter, and so what may be asked.
    #[must_use]
    pub fn added(&self) -> Added {
        self.trailer.added
    }

    /// The name of the function that took the prefixes, if prefixes were added.
    #[must_use]
    pub fn extractor(&self) -> Option<&str> {
        self.trailer.extractor.as_deref()
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

    /// Compares all pages with their checksums, now.
    ///
    /// # Errors
    /// [`Error::ChecksumMismatch`] for the first page that differs.
    pub fn verify_pages(&self) -> Result<()> {
        let bytes = self.data.as_ref();
        self.filter.check_pages(bytes, &self.trailer.table_id, self.trailer.place)?;
        self.partitions().map_or(Ok(()), |partitions| partitions.verify_pages(bytes, &self.trailer))
    }

    /// Everything the block says about itself. Counts the bits that are set, so it reads the whole filter.
    #[must_use]
    pub fn info(&self) -> FilterInfo {
        let bytes = self.data.as_ref();
        let parts: Vec<&Part> = match self.partitions() {
            None => vec![&self.filter],
            Some(partitions) => partitions.parts().collect(),
        };
        let payload_len_bytes: u64 = parts.iter().map(|part| part.len as u64).sum();
        let set_bits: u64 = parts.iter().map(|part| count_ones(part.payload(bytes))).sum();
        let first = parts.first();
        let bits = payload_len_bytes.saturating_mul(8);
        let num_keys = self.trailer.num_keys;
        FilterInfo {
            kind: first.map_or(FilterKind::Empty, |part| part.geometry.kind()),
            num_keys,
            payload_len_bytes,
            block_len_bytes: bytes.len() as u64,
            bits_per_key: if num_keys == 0 { 0.0 } else { bytes.len() as f64 * 8.0 / num_keys as f64 },
            probes: first.map_or(0, |part| part.geometry.probes()),
            expected_false_positive_rate: self.expected_false_positive_rate(),
            fill: if bits == 0 { 0.0 } else { set_bits as f64 / bits as f64 },
            estimated_keys: match first {
                None => Some(0.0),
                Some(first) if parts.iter().any(|part| part.geometry.kind() != first.geometry.kind()) => None,
                Some(first) => first.geometry.estimated_keys(set_bits, bits),
            },
            partitions: self.partitions().map_or(0, |partitions| partitions.parts().count()),
        }
    }

    /// The bytes of the whole block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }
}

impl Part {
    /// The filter whose payload begins at `start` of `bytes`, as `trailer` describes it.
    pub(super) fn new(bytes: &[u8], start: usize, trailer: &Trailer, verify: Verify) -> Result<Self> {
        // Trailer::read has shown that the payload lies within the bytes.
        let len = usize::try_from(trailer.payload_len_bytes)
            .map_err(|_| Error::Corrupt { field: Field::PayloadLen, offset: 0 })?;
        let geometry = match &trailer.content {
            Content::Filter { geometry, .. } => geometry.clone(),
            Content::PartitionIndex => Geometry::Full,
        };
        let ask = Ask::new(&geometry, Isa::detect());
        let mut part = Self { start, len, geometry, ask, states: None };
        match verify {
            Verify::AtOpen => part.check_pages(bytes, &trailer.table_id, trailer.place)?,
            // Nothing to look at, so nothing to remember: a million constants in partitions cost no memory.
            Verify::OnFirstTouch if len == 0 => {}
            Verify::OnFirstTouch => {
                part.states = Some(Box::new(PageStates::new(&trailer.table_id, trailer.place, len)?));
            }
        }
        Ok(part)
    }

    pub(super) fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// The payload and what lies behind it.
    #[inline(always)]
    fn padded<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..).unwrap_or_default()
    }

    fn sums<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let from = self.start + self.len;
        bytes.get(from..from + page_count(self.len) * PAGE_CHECKSUM_LEN_BYTES).unwrap_or_default()
    }

    #[inline]
    fn view<'a>(&'a self, bytes: &'a [u8]) -> FilterView<'a> {
        FilterView::new(&self.geometry, self.ask, Isa::detect(), self.padded(bytes), self.len)
    }

    #[inline(always)]
    pub(super) fn may_contain(&self, bytes: &[u8], hash: KeyHash) -> bool {
        match &self.states {
            None => self.ask.may_contain(&self.geometry, self.padded(bytes), self.len, hash),
            Some(states) => self.may_contain_on_first_touch(bytes, hash, states),
        }
    }

    /// A call of its own: what it needs would otherwise take registers from the loops of those who need none of it.
    #[inline(never)]
    fn may_contain_on_first_touch(&self, bytes: &[u8], hash: KeyHash, states: &PageStates) -> bool {
        let payload = self.payload(bytes);
        self.view(bytes).may_contain_guarded(hash, &FirstTouch { states, payload, sums: self.sums(bytes) })
    }

    #[inline]
    pub(super) fn may_contain_with(&self, bytes: &[u8], hash: KeyHash, columns: Columns) -> bool {
        let view = self.view(bytes);
        match &self.states {
            None => view.may_contain_with(hash, columns),
            Some(states) => {
                let payload = self.payload(bytes);
                let guard = FirstTouch { states, payload, sums: self.sums(bytes) };
                view.may_contain_with_guarded(hash, columns, &guard)
            }
        }
    }

    pub(super) fn check_pages(&self, bytes: &[u8], table_id: &[u8; 16], place: u32) -> Result<()> {
        pages::check_all(table_id, place, self.payload(bytes), self.sums(bytes))
            .map_err(|error| error.moved_by(self.start as u64))
    }
}

fn count_ones(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}
