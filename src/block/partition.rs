//! A filter split by key range: whole filter blocks one after the other, then a block whose payload is their index.
//!
//! ```text
//! | partition 0 | partition 1 | ... | index: per partition its length and its last key | sums, trailer of the index |
//! ```
//! A partition is padded with zeros to the next multiple of 64 bytes, so that its payload keeps its alignment. Each
//! can be loaded and checked alone: its pages and trailer are bound to the table and to its number.

use std::cmp::Ordering;

use super::layout::{Added, Content, Trailer};
use super::reader::{Part, Verify};
use super::writer::{FilterBuilder, SelfCheck};
use crate::bits::{NoMemory, try_push};
use crate::codec::{self, Cursor};
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHash, KeyHasher};
use crate::spec::{self, FilterSpec};

/// So much of a key stands in an error.
const SHOWN_LEN_BYTES: usize = 32;

/// Partitions begin at multiples of this.
const ALIGN_BYTES: usize = 64;

/// Builds a filter in partitions of a given number of keys.
#[derive(Debug)]
pub struct PartitionedBuilder {
    spec: FilterSpec,
    hasher: KeyHasher,
    table_id: [u8; 16],
    self_check: SelfCheck,
    partition_keys: usize,
    current: FilterBuilder,
    last_key: Vec<u8>,
    blocks: Vec<u8>,
    index: Vec<u8>,
    num_partitions: u32,
    num_keys: u64,
    /// Whether a key, or a whole partition of keys, was lost: a filter of the others would deny them.
    has_lost_keys: bool,
}

impl PartitionedBuilder {
    /// An empty set of keys; a partition is closed when it holds `partition_keys` of them (at least one).
    #[must_use]
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>, partition_keys: usize) -> Self {
        let hasher = hasher.into();
        Self {
            spec,
            table_id: [0; 16],
            self_check: SelfCheck::On,
            partition_keys: partition_keys.max(1),
            current: FilterBuilder::new(spec, hasher.clone()),
            hasher,
            last_key: Vec::new(),
            blocks: Vec::new(),
            index: Vec::new(),
            num_partitions: 0,
            num_keys: 0,
            has_lost_keys: false,
        }
    }

    /// See [`FilterBuilder::with_table_id`].
    #[must_use]
    pub fn with_table_id(mut self, table_id: [u8; 16]) -> Self {
        self.table_id = table_id;
        self
    }

    /// See [`FilterBuilder::with_self_check`].
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.self_check = self_check;
        self
    }

    /// Adds a key; keys come in ascending order, repetitions are allowed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key below the last one, which changes nothing; the errors of [`FilterBuilder::finish`]. After
    /// one of those, keys are lost: every later [`add`](Self::add) and [`finish`](Self::finish) are errors, too.
    pub fn add(&mut self, key: &[u8]) -> Result<()> {
        self.check_sound()?;
        let is_first = self.num_partitions == 0 && self.current.is_empty();
        // A repetition must not open the next partition: the same set of keys gives the same bytes.
        match key.cmp(&self.last_key) {
            Ordering::Less => return Err(out_of_order(key, &self.last_key)),
            Ordering::Equal if !is_first => return Ok(()),
            _ => {}
        }
        // Until the key is in, a failure loses it, or the keys of a whole partition.
        self.has_lost_keys = true;
        if self.current.len() >= self.partition_keys {
            self.close_partition()?;
        }
        let more = key.len().saturating_sub(self.last_key.len());
        self.last_key.try_reserve(more).map_err(|_| spec::no_memory(self.spec))?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.current.add(key);
        if self.current.is_short_of_memory() {
            return Err(spec::no_memory(self.spec));
        }
        self.has_lost_keys = false;
        Ok(())
    }

    /// # Errors
    /// As [`FilterBuilder::finish`] where memory ends, after an [`add`](Self::add) that lost keys.
    fn check_sound(&self) -> Result<()> {
        if self.has_lost_keys { Err(spec::no_memory(self.spec)) } else { Ok(()) }
    }

    /// Encodes partitions and index.
    ///
    /// # Errors
    /// As [`FilterBuilder::finish`]; also after an [`add`](Self::add) that was one, since its keys are lost.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.check_sound()?;
        if !self.current.is_empty() {
            self.close_partition()?;
        }
        let trailer = Trailer {
            table_id: self.table_id,
            hash: self.hasher.identity(),
            num_keys: self.num_keys,
            payload_len_bytes: self.index.len() as u64,
            place: 0,
            content: Content::PartitionIndex,
            added: Added::WholeKeys,
            extractor: None,
        };
        let too_long =
            |_| partition_size(self.partition_keys, "its index has 4 GiB or more; try more keys per partition");
        u32::try_from(self.index.len()).map_err(too_long)?;
        let mut index = self.index;
        let no_memory = |_| spec::no_memory(self.spec);
        trailer.append_to(&mut index).map_err(no_memory)?;
        self.blocks.try_reserve_exact(index.len()).map_err(|_| spec::no_memory(self.spec))?;
        self.blocks.extend_from_slice(&index);
        Ok(self.blocks)
    }

    fn close_partition(&mut self) -> Result<()> {
        self.num_partitions = self.num_partitions.checked_add(1).ok_or_else(|| {
            partition_size(self.partition_keys, "2^32 partitions or more; try more keys per partition")
        })?;
        let next = FilterBuilder::new(self.spec, self.hasher.clone());
        let full = std::mem::replace(&mut self.current, next)
            .with_table_id(self.table_id)
            .with_self_check(self.self_check)
            .with_place(self.num_partitions);
        let block = full.finish()?;
        let (trailer, _) = Trailer::read(&block)?;
        self.num_keys += trailer.num_keys;
        // Two varints of ten bytes at most.
        let room = self.index.try_reserve(self.last_key.len().saturating_add(20));
        room.and_then(|()| self.blocks.try_reserve(block.len().saturating_add(ALIGN_BYTES)))
            .map_err(|_| spec::no_memory(self.spec))?;
        codec::put_varint(&mut self.index, block.len() as u64);
        codec::put_bytes(&mut self.index, &self.last_key);
        self.blocks.extend_from_slice(&block);
        self.blocks.resize(self.blocks.len().next_multiple_of(ALIGN_BYTES), 0);
        Ok(())
    }
}

fn partition_size(partition_keys: usize, reason: &'static str) -> Error {
    Error::invalid("partition size", partition_keys, reason)
}

/// The error of a key that comes after a greater one.
fn out_of_order(key: &[u8], last_key: &[u8]) -> Error {
    let front = |key: &[u8]| String::from_utf8_lossy(key.get(..SHOWN_LEN_BYTES).unwrap_or(key)).into_owned();
    let given = format!("{} after {}", front(key), front(last_key));
    Error::invalid("order of keys", given, "a key comes before the last one; add keys in ascending order")
}

/// The partitions of an open block.
#[derive(Debug)]
pub(super) struct Partitions {
    entries: Vec<Entry>,
    /// Where the index begins.
    index: usize,
    payload_len_bytes: u64,
    expected_rate: f64,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    /// Where the partition's last key begins in the index, and its length.
    last_key: (u32, u32),
}

/// A partition is 64 bytes on disk at least, and two in the index: in memory it is to take no more.
const _: () = assert!(size_of::<Entry>() <= 64);

impl Entry {
    fn last_key<'a>(&self, bytes: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let (from, len) = (self.last_key.0 as usize, self.last_key.1 as usize);
        bytes.get(index..)?.get(from..)?.get(..len)
    }
}

impl Partitions {
    /// Reads the index, which has been checked against its sums, and the trailer of each partition.
    ///
    /// # Errors
    /// `Corrupt` unless the partitions tile the bytes before the index and agree with it and with `outer`; the errors
    /// of the partitions' own trailers and, with [`Verify::AtOpen`], pages.
    pub(super) fn read(bytes: &[u8], index: &Part, outer: &Trailer, verify: Verify) -> Result<Self> {
        let mut cursor = Cursor::new(index.payload(bytes), index.start as u64);
        // No more memory than the block has bytes, however hostile the index: a vector that doubles would take more,
        // and so would one for every two bytes that look like an entry.
        let most_partitions = index.start / ALIGN_BYTES;
        let mut entries: Vec<Entry> = Vec::new();
        let num_entries = count_entries(cursor.clone())?.min(most_partitions);
        entries.try_reserve_exact(num_entries).map_err(|_| Error::TooLarge { what: "an index of partitions" })?;
        let (mut start, mut num_keys, mut payload_len_bytes, mut weighted_rate) = (0usize, 0u64, 0u64, 0.0);
        while !cursor.is_empty() {
            let len = cursor.take_varint_usize(Field::PartitionIndex)?;
            let key = cursor.take_bytes(Field::PartitionIndex)?;
            let key_end = cursor.offset() - index.start as u64;
            let in_index = |place: u64| u32::try_from(place).map_err(|_| cursor.corrupt(Field::PartitionIndex));
            let last_key = (in_index(key_end - key.len() as u64)?, in_index(key.len() as u64)?);
            let corrupt = || Error::Corrupt { field: Field::Partition, offset: start as u64 };
            let end = start.checked_add(len).filter(|&end| end <= index.start).ok_or_else(corrupt)?;
            let next =
                end.checked_next_multiple_of(ALIGN_BYTES).filter(|&next| next <= index.start).ok_or_else(corrupt)?;
            let padding = bytes.get(end..next).unwrap_or_default();
            let trailer = Trailer::read(bytes.get(start..end).unwrap_or_default());
            let (trailer, _) = trailer.map_err(|error| error.moved_by(start as u64))?;
            let place = u32::try_from(entries.len() + 1).map_err(|_| corrupt())?;
            let Content::Filter { .. } = trailer.content else { return Err(corrupt()) };
            let agrees = trailer.place == place
                && (trailer.table_id, trailer.hash, trailer.added) == (outer.table_id, outer.hash, outer.added)
                && padding.iter().all(|&byte| byte == 0)
                && entries.last().is_none_or(|last| last.last_key(bytes, index.start) <= Some(key));
            if !agrees {
                return Err(corrupt());
            }
            // The payload of a filter begins where its block does.
            let part = Part::new(bytes, start, &trailer, verify)?;
            num_keys = num_keys.checked_add(trailer.num_keys).ok_or_else(corrupt)?;
            payload_len_bytes += part.len as u64;
            weighted_rate +=
                part.geometry.expected_rate(trailer.num_keys, trailer.payload_len_bytes) * trailer.num_keys as f64;
            try_push(&mut entries, Entry { part, last_key }).map_err(NoMemory::of("an index of partitions"))?;
            start = next;
        }
        if start != index.start || num_keys != outer.num_keys {
            return Err(Error::Corrupt { field: Field::PartitionIndex, offset: index.start as u64 });
        }
        let expected_rate = weighted_rate / num_keys.max(1) as f64;
        Ok(Self { entries, index: index.start, payload_len_bytes, expected_rate })
    }

    /// Asks the partition whose range holds `key`; a key beyond the last range asks the last.
    pub(super) fn may_contain(&self, bytes: &[u8], key: &[u8], hash: KeyHash) -> bool {
        let below =
            self.entries.partition_point(|entry| entry.last_key(bytes, self.index).is_some_and(|last| last < key));
        let entry = self.entries.get(below).or_else(|| self.entries.last());
        entry.is_some_and(|entry| entry.part.may_contain(bytes, hash))
    }

    pub(super) fn any_may_contain(&self, bytes: &[u8], hash: KeyHash) -> bool {
        self.entries.iter().any(|entry| entry.part.may_contain(bytes, hash))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.entries.iter().map(|entry| &entry.part)
    }

    pub(super) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.entries.iter_mut().map(|entry| &mut entry.part)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all filters together.
    pub(super) fn payload_len_bytes(&self) -> u64 {
        self.payload_len_bytes
    }

    /// The mean over the partitions, by keys.
    pub(super) fn expected_rate(&self) -> f64 {
        self.expected_rate
    }

    pub(super) fn verify_pages(&self, bytes: &[u8], outer: &Trailer) -> Result<()> {
        (1u32..).zip(self.parts()).try_for_each(|(place, part)| part.check_pages(bytes, &outer.table_id, place))
    }
}

/// The number of entries of an index.
fn count_entries(mut index: Cursor<'_>) -> Result<usize> {
    let mut count = 0;
    while !index.is_empty() {
        index.take_varint_usize(Field::PartitionIndex)?;
        index.take_bytes(Field::PartitionIndex)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::FilterBlock;
    use crate::hash::HashSeed;
    use crate::kinds::{FilterKind, Geometry, Shape};

    #[test]
    fn an_index_in_the_place_of_a_partition_is_refused() {
        let hasher = KeyHasher::xxh3(HashSeed(1));
        let mut builder =
            PartitionedBuilder::new("bloom:10".parse().unwrap(), hasher.clone(), 4).with_self_check(SelfCheck::On);
        (b'0'..=b'9').for_each(|key| builder.add(&[key]).unwrap());
        let inner = builder.finish().unwrap();
        assert!(FilterBlock::open_any(inner.as_slice(), Verify::AtOpen).is_ok());
        let outer = Trailer { content: Content::PartitionIndex, ..trailer(10) };
        let error = FilterBlock::open_any(indexed(&[inner], outer), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Partition, offset: 0 }), "{error}");
    }

    #[test]
    fn partitions_of_more_keys_than_can_be_counted_are_refused() {
        let partition = |place| {
            let shape = Shape { kind: FilterKind::Full, params: [0; 3], layers: Vec::new() };
            let geometry = Geometry::new(&shape, 1 << 63, 0).unwrap();
            let mut bytes = Vec::new();
            Trailer { place, content: Content::Filter { shape, geometry }, ..trailer(1 << 63) }
                .append_to(&mut bytes)
                .unwrap();
            bytes
        };
        // Their sum is 0 in 64 bits.
        let outer = Trailer { content: Content::PartitionIndex, ..trailer(0) };
        let error = FilterBlock::open_any(indexed(&[partition(1), partition(2)], outer), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Partition, offset: 64 }), "{error}");
    }

    fn trailer(num_keys: u64) -> Trailer {
        Trailer {
            table_id: [0; 16],
            hash: KeyHasher::xxh3(HashSeed(1)).identity(),
            num_keys,
            payload_len_bytes: 0,
            place: 0,
            content: Content::PartitionIndex,
            added: Added::WholeKeys,
            extractor: None,
        }
    }

    /// Blocks with an index behind them, in which each reaches to one key.
    fn indexed(blocks: &[Vec<u8>], outer: Trailer) -> Vec<u8> {
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        for block in blocks {
            codec::put_varint(&mut index, block.len() as u64);
            codec::put_bytes(&mut index, b"9");
            bytes.extend_from_slice(block);
            bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
        }
        Trailer { payload_len_bytes: index.len() as u64, ..outer }.append_to(&mut index).unwrap();
        bytes.extend(index);
        bytes
    }
}
