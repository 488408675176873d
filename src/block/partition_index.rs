//! Opens the index of a partitioned filter alone, and single partitions through the index.

use crate::error::too_large;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, Range};

use super::expected::Expected;
use super::layout::{ALIGN_BYTES, Located, Trailer};
use super::layout::{Added, TRAILER_LEN_BYTES};
use super::parsed::ParsedBlock;
use super::part::{Part, Verify};
use super::partition::IndexEntry;
use super::reader::FilterBlock;
use crate::codec::Cursor;
use crate::error::{Error, Field, Result};
use crate::filters::is_empty_range;
use crate::hash::{Key, KeyHash, KeyHasher};
use crate::simd::{try_collect, try_push};

/// The number of index entries from one [`Restart`] to the next. A restart takes 16 bytes of
/// memory, and 16 entries take at least 96 bytes of the index.
const RESTART_ENTRIES: u32 = 16;
const _: () = assert!(size_of::<Restart>() <= 16);

const INDEX: &str = "a partition index";

/// The index of a partitioned filter. A host keeps the index in memory and loads partitions on
/// demand.
///
/// The index is the last block that [`PartitionedBuilder`](super::PartitionedBuilder) writes.
/// [`layout::stated_len_bytes`](super::layout::stated_len_bytes) reads the length of the index from
/// the last 60 bytes of the filter. In memory the index takes at most 4 KiB plus 1.5 times its
/// length on disk, however many partitions it has.
///
/// A [`Partition`] knows which keys belong to it, and answers "maybe" for all other keys. So a
/// query of the wrong partition never denies a present key.
///
/// ```
/// use filterblock::partitions::{PartitionIndex, PartitionedBuilder};
/// use filterblock::{Expected, FilterOptions, HashSeed, KeyHasher, Verify, layout};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(42)));
/// let options = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id);
/// let mut builder = PartitionedBuilder::new(&options, &hasher, 2)?;
/// for key in [b"apple", b"grape", b"lemon", b"mango", b"peach"] {
///     builder.add(hasher.key(key))?;
/// }
/// let file = builder.finish()?.bytes;
///
/// // Read the trailer, then the index, and keep the index.
/// let index_len = layout::stated_len_bytes(&file[file.len() - layout::TRAILER_LEN_BYTES..]).unwrap() as usize;
/// let index_start = file.len() - index_len;
/// let expected = Expected::of_table(table_id, &hasher).at_offset(index_start as u64);
/// let index = PartitionIndex::open(&file[index_start..], &expected)?;
///
/// // For a key, read one partition.
/// let number = index.find(b"mango").unwrap();
/// let range = index.get(number).unwrap().byte_range;
/// let bytes = &file[range.start as usize..range.end as usize];
/// let partition = index.open_partition(number, bytes, Verify::AtOpen)?;
/// assert!(partition.may_contain(hasher.key(b"mango")));
/// // The partition answers "maybe" for keys of other partitions.
/// assert!(!partition.covers(b"apple") && partition.may_contain(hasher.key(b"apple")));
/// # Ok::<(), filterblock::Error>(())
/// ```
pub struct PartitionIndex<D> {
    data: D,
    payload_len: usize,
    /// One restart for every [`RESTART_ENTRIES`]th entry, from entry 0 on.
    restarts: Vec<Restart>,
    len: u32,
    trailer: Box<Trailer<'static>>,
    hasher: KeyHasher,
    /// The offset of partition 0 in the host's file, in bytes.
    offset: u64,
}

/// A point at which a walk over the entries can begin. It holds the offset of an entry within the
/// index, and the offset of that entry's partition within the filter.
#[derive(Debug, Clone, Copy)]
struct Restart {
    entry: u32,
    partition: u64,
}

/// The index entry of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionEntry<'a> {
    /// The number of the partition, from 0.
    pub number: u32,
    /// The byte range of the partition, counted from the start of the whole filter.
    pub byte_range: Range<u64>,
    /// The last key of the previous partition. All keys of this partition are greater. It is `None`
    /// for the first partition.
    pub after: Option<&'a [u8]>,
    /// The last key of this partition. Greater keys belong to later partitions, or to this
    /// partition if there is no later one.
    pub last_key: &'a [u8],
    /// The checksum of the partition's block.
    pub checksum: u32,
}

/// Shows the trailer, but not the bytes of the index.
impl<D> fmt::Debug for PartitionIndex<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionIndex").field("len", &self.len).field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> PartitionIndex<D> {
    /// Opens an index that must meet the host's expectations: see [`Expected`]. Reads and verifies
    /// the whole index.
    ///
    /// `index` holds the bytes of the index block alone. Give the offset of the index in the host's
    /// file with [`Expected::at_offset`]. Give the checksum of the index, which identifies the
    /// whole filter, with [`Expected::with_checksum`].
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open`]. Returns [`Error::Unexpected`] with
    /// [`Field::Kind`] if the block is not an index.
    pub fn open(index: D, expected: &Expected<'_>) -> Result<Self> {
        Self::read(index, expected).map_err(|error| error.moved_by(expected.offset()))
    }

    fn read(data: D, expected: &Expected<'_>) -> Result<Self> {
        let bytes = data.as_ref();
        let found = Located::read(bytes)?;
        found.check_page_checksums()?;
        if let Some(header) = &found.trailer.header {
            return Err(Error::unexpected(Field::Kind, header.kind, INDEX));
        }
        if found.payload_start != 0 {
            return Err(Error::corrupt(Field::Length));
        }
        let part = Part::new(bytes, 0, &found, Verify::AtOpen)?;
        expected.check(&found.trailer, found.checksum)?;
        let payload = part.payload(bytes);
        let (restarts, end) = restarts(payload)?;
        Ok(Self {
            payload_len: payload.len(),
            restarts,
            len: end.number,
            trailer: Box::new(found.trailer.into_owned()),
            hasher: expected.hasher().clone(),
            offset: expected.offset().saturating_sub(end.start),
            data,
        })
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the filter has no partition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of distinct keys of all partitions together. Prefixes count as keys, once
    /// in each partition that has them.
    #[must_use]
    pub fn num_keys(&self) -> u64 {
        self.trailer.num_keys
    }

    /// Returns the hasher that keys must be hashed with to ask the partitions.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the entries of all partitions, in ascending order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = PartitionEntry<'_>> {
        self.walk_from(0)
    }

    /// Returns the entry of partition `number`, or `None` if there is no such partition. Reads at
    /// most 17 entries of the index.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<PartitionEntry<'_>> {
        // The walk must include the entry before `number`, because `after` is its last key.
        self.walk_from(number.saturating_sub(1)).find(|entry| entry.number == number)
    }

    /// Returns the number of the partition that `key` belongs to, or `None` if the filter has no
    /// partition.
    ///
    /// The function takes time logarithmic in the number of partitions. If `key` is a prefix, the
    /// result is the only partition that can deny the prefix.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        // Counts the restarts whose first entry has a last key below `key`. The key's partition
        // comes after the entry of the last of these restarts.
        let below = self.restarts.partition_point(|restart| {
            self.walk_at(*restart, 0).next().is_some_and(|entry| entry.last_key.cmp(key) == Ordering::Less)
        });
        #[expect(clippy::cast_possible_truncation, reason = "there are at most as many restarts as partitions")]
        let from = below.saturating_sub(1) as u32 * RESTART_ENTRIES;
        Some(self.walk_from(from).find(|entry| entry.last_key >= key).map_or(last, |entry| entry.number))
    }

    /// Opens partition `number` from the partition's own bytes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the index has no partition `number`. Returns the errors of
    /// [`FilterBlock::open`] if `bytes` are damaged or are not the partition that the index
    /// describes.
    pub fn open_partition<P: AsRef<[u8]>>(&self, number: u32, bytes: P, verify: Verify) -> Result<Partition<P>> {
        let Some(entry) = self.get(number) else {
            let noun = if self.len == 1 { "partition" } else { "partitions" };
            let reason = format!(
                "the index has {} {noun}, numbered from 0; ask the index for the number of a key's partition",
                self.len
            );
            return Err(Error::invalid("partition number", number, reason));
        };
        let offset = self.offset.saturating_add(entry.byte_range.start);
        let block = ParsedBlock::open_partition(bytes, number, verify).map_err(|error| error.moved_by(offset))?;
        self.check(&block, &entry)?;
        let copy = |key: &[u8]| try_collect(key.iter().copied()).map_err(too_large("a key of a partition"));
        // The range of the last partition has no upper bound.
        let is_last = number + 1 == self.len;
        Ok(Partition {
            number,
            after: entry.after.map(copy).transpose()?,
            last_key: (!is_last).then(|| copy(entry.last_key)).transpose()?,
            block: ParsedBlock { offset, ..block }.with_hasher(self.hasher.clone()),
        })
    }

    fn check<P: AsRef<[u8]>>(&self, block: &ParsedBlock<P>, entry: &PartitionEntry<'_>) -> Result<()> {
        let (found, len) = (block.as_bytes().len() as u64, entry.byte_range.end - entry.byte_range.start);
        if found != len {
            return Err(Error::unexpected(Field::Length, found, len));
        }
        let mut expected = Expected::of_table(self.trailer.table_id, &self.hasher);
        if self.trailer.table_id == [0; 16] {
            // An id of zeros names no SST, so only the checksum identifies the partition.
            expected = expected.with_checksum(entry.checksum);
        }
        if let Some(extractor) = &self.trailer.extractor {
            expected = expected.with_prefixes(extractor);
        }
        expected.check(&block.trailer, block.checksum())?;
        if !block.trailer.is_like(&self.trailer) {
            let offset = self.offset.saturating_add(entry.byte_range.start);
            return Err(Error::Corrupt { field: Field::Partition, offset });
        }
        expected.with_checksum(entry.checksum).check(&block.trailer, block.checksum())
    }

    fn payload(&self) -> &[u8] {
        self.data.as_ref().get(..self.payload_len).unwrap_or_default()
    }

    /// Returns an iterator that begins at entry `number`, rounded down to a multiple of
    /// [`RESTART_ENTRIES`]. The first entry of the iterator has no `after`. If the index has no
    /// entry at this multiple, the iterator is empty.
    fn walk_from(&self, number: u32) -> Walk<'_> {
        let restart = number / RESTART_ENTRIES;
        match self.restarts.get(restart as usize) {
            Some(found) => self.walk_at(*found, restart * RESTART_ENTRIES),
            None => Walk::new(&[]),
        }
    }

    fn walk_at(&self, restart: Restart, number: u32) -> Walk<'_> {
        let entries = self.payload().get(restart.entry as usize..).unwrap_or_default();
        Walk { number, start: restart.partition, ..Walk::new(entries) }
    }
}

#[derive(Debug, Clone)]
struct Walk<'a> {
    cursor: Cursor<'a>,
    /// The number of the next entry.
    number: u32,
    /// The offset of the next entry's partition.
    start: u64,
    after: Option<&'a [u8]>,
}

impl<'a> Walk<'a> {
    fn new(entries: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(entries, 0), number: 0, start: 0, after: None }
    }

    fn take_entry(&mut self) -> Result<Option<PartitionEntry<'a>>> {
        if self.cursor.is_empty() {
            return Ok(None);
        }
        let corrupt = self.cursor.corrupt(Field::PartitionIndex);
        let IndexEntry { len_bytes: len, checksum, last_key } = IndexEntry::take(&mut self.cursor)?;
        let is_ascending = self.after.is_none_or(|after| after <= last_key);
        let end = self.start.checked_add(len).filter(|_| len >= TRAILER_LEN_BYTES as u64 && is_ascending);
        let next = end.and_then(|end| end.checked_next_multiple_of(ALIGN_BYTES as u64)).zip(self.number.checked_add(1));
        let (Some(end), Some((start, number))) = (end, next) else { return Err(corrupt.into()) };
        let byte_range = self.start..end;
        let entry = PartitionEntry { number: self.number, byte_range, after: self.after, last_key, checksum };
        (self.number, self.start, self.after) = (number, start, Some(last_key));
        Ok(Some(entry))
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = PartitionEntry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // Opening has checked all entries, so reading an entry does not fail.
        self.take_entry().ok().flatten()
    }
}

/// Checks all entries. Returns the restarts, and the state of the walk after the last entry. The
/// first pass only checks and counts the entries, so that the restarts are allocated exactly.
fn restarts(payload: &[u8]) -> Result<(Vec<Restart>, Walk<'_>)> {
    let exceeds = || Error::corrupt(Field::PartitionIndex);
    u32::try_from(payload.len()).map_err(|_| exceeds())?;
    let mut walk = Walk::new(payload);
    while walk.take_entry()?.is_some() {}
    let mut found = Vec::new();
    let room = found.try_reserve_exact(walk.number.div_ceil(RESTART_ENTRIES) as usize);
    room.map_err(|_| Error::TooLarge { what: INDEX })?;
    let mut again = Walk::new(payload);
    while !again.cursor.is_empty() {
        let (number, partition) = (again.number, again.start);
        let entry = u32::try_from(again.cursor.offset()).map_err(|_| exceeds())?;
        if number.is_multiple_of(RESTART_ENTRIES) {
            try_push(&mut found, Restart { entry, partition }).map_err(too_large(INDEX))?;
        }
        again.take_entry()?;
    }
    Ok((found, walk))
}

/// One partition, opened by [`PartitionIndex::open_partition`]. It answers for the keys of its
/// range, and "maybe" for all other keys.
pub struct Partition<D> {
    block: FilterBlock<D>,
    number: u32,
    /// The last key of the previous partition. All keys of this partition are greater. It is `None`
    /// for the first partition.
    after: Option<Vec<u8>>,
    /// The last key of this partition. It is `None` for the last partition, whose range has no
    /// upper bound.
    last_key: Option<Vec<u8>>,
}

/// Shows neither the bytes of the partition nor its bounds.
impl<D> fmt::Debug for Partition<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").field("number", &self.number).field("block", &self.block).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> Partition<D> {
    /// Returns the number of the partition, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether `key` belongs to this partition. For other keys the partition always answers
    /// "maybe".
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.after.as_ref().is_none_or(|after| after.as_slice() < key)
            && self.last_key.as_ref().is_none_or(|last| key <= last.as_slice())
    }

    /// Returns whether this partition alone can answer for `prefix`, because no key of another
    /// partition begins with `prefix`.
    fn covers_prefix(&self, prefix: &[u8]) -> bool {
        // If the last key begins with the prefix, keys of the next partition may begin with it,
        // too.
        self.covers(prefix) && self.last_key.as_ref().is_none_or(|last| !last.starts_with(prefix))
    }

    /// Returns `false` if the key was certainly not added. Returns `true` if the key may have been
    /// added or belongs to another partition, or if the filter holds only prefixes.
    #[must_use]
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        self.block.hasher.debug_check(key.hash());
        let bytes = key.bytes();
        if self.block.trailer.added == Added::Ranges {
            return self.may_contain_range(Bound::Included(bytes), Bound::Included(bytes));
        }
        !self.block.trailer.added.whole_keys() || !self.covers(bytes) || self.asks(key.hash())
    }

    /// Returns `false` if certainly no added key has this prefix. `extractor` is the name of the
    /// extractor that took `prefix` from the front of a key.
    ///
    /// Returns `true` if an added key may have the prefix, or if keys of other partitions may begin
    /// with `prefix`. Also returns `true` if the filter has no prefixes, or prefixes of another
    /// extractor. [`PartitionIndex::find`] returns the only partition that can deny a prefix.
    #[must_use]
    pub fn may_contain_prefix(&self, extractor: &str, prefix: Key<'_>) -> bool {
        self.block.hasher.debug_check(prefix.hash());
        let is_known = self.block.knows_prefixes_of(extractor) && self.covers_prefix(prefix.bytes());
        !is_known || self.asks(prefix.hash())
    }

    fn asks(&self, hash: KeyHash) -> bool {
        self.block.filter.may_contain(self.block.as_bytes(), hash)
    }

    /// Returns `false` if certainly no added key lies between the bounds: see
    /// [`FilterBlock::may_contain_range`]. Returns `true` if keys of this partition or of another
    /// partition may lie between them. If the partition is not a range filter, returns `true` for
    /// every range that is not empty.
    #[must_use]
    pub fn may_contain_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        if is_empty_range(lower, upper) {
            return false;
        }
        let is_covered = match lower {
            Bound::Unbounded => self.after.is_none(),
            Bound::Included(key) => self.covers(key),
            // The range holds only keys above the bound, so the bound may be the last key of the
            // previous partition.
            Bound::Excluded(key) => self.after.as_ref().is_none_or(|after| after.as_slice() <= key),
        } && match upper {
            Bound::Unbounded => self.last_key.is_none(),
            Bound::Included(key) | Bound::Excluded(key) => {
                self.last_key.as_ref().is_none_or(|last| key <= last.as_slice())
            }
        };
        self.block.ranges.is_none() || !is_covered || self.block.own_may_contain_range((lower, upper))
    }

    /// Returns the block of the partition, for its metadata, statistics and pages. The block itself
    /// answers "maybe" for every key.
    #[must_use]
    pub fn block(&self) -> &FilterBlock<D> {
        &self.block
    }
}
