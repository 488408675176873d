//! Reads and queries partitioned filters. A partitioned filter is split by key range. It has one
//! filter block for each partition, and then a block whose payload is the partition index.
//!
//! ```text
//! | partition 0 | partition 1 | ... | index: length, checksum, last key of each | checksums, trailer of the index |
//! ```
//! Each partition is padded with zeros to a multiple of 64 bytes, so that the next payload stays
//! aligned. A partition can be loaded and checked alone: its pages and its trailer are bound to the
//! SST and to the partition's number.
//!
//! The index holds the checksum of each partition's trailer. So the checksum of the index
//! identifies the whole filter, and a stale partition is detected.

use crate::error::too_large;
use std::ops::Bound;

use super::layout::{ALIGN_BYTES, Located, Trailer};
use super::part::{Bounds, Part, RangeQuery, Verify};
use crate::codec::Cursor;
use crate::error::{Error, Field, Result};
use crate::filters::is_reversed_range;
use crate::hash::KeyHash;
use crate::simd::try_push;

#[derive(Debug)]
pub(super) struct Partitions {
    entries: Vec<Entry>,
    /// The offset of the index within the bytes.
    index: usize,
    /// The offset of the end of the index. If the bytes became shorter after the open, the index
    /// cannot tell which partition may deny a key, so the answer is "maybe".
    index_end: usize,
    payload_len_bytes: u64,
    expected_fpr: f64,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    /// The offset of the partition's last key within the index, and the length of the key.
    last_key: (u32, u32),
}

/// A partition takes at least 64 bytes on disk, and at least six bytes more in the index. Its
/// `Entry` in memory must not take more than 64 bytes.
const _: () = assert!(size_of::<Entry>() <= 64);

impl Entry {
    fn last_key<'a>(&self, bytes: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let (from, len) = (self.last_key.0 as usize, self.last_key.1 as usize);
        bytes.get(index..)?.get(from..)?.get(..len)
    }
}

/// An entry of the index, as the index stores it.
pub(super) struct IndexEntry<'a> {
    pub(super) len_bytes: u64,
    pub(super) checksum: u32,
    pub(super) last_key: &'a [u8],
}

impl<'a> IndexEntry<'a> {
    pub(super) fn take(index: &mut Cursor<'a>) -> Result<Self> {
        let field = Field::PartitionIndex;
        let (len_bytes, checksum) = (index.take_varint(field)?, index.take_u32(field)?);
        Ok(Self { len_bytes, checksum, last_key: index.take_bytes(field)? })
    }
}

impl Partitions {
    /// Reads the index, whose pages have been verified, and the trailer of each partition. With
    /// [`Verify::AtOpen`], also verifies the pages of each partition.
    ///
    /// Checks that the partitions and their padding exactly fill the bytes before the index. Also
    /// checks that they agree with the index and with its trailer `outer`.
    pub(super) fn read(bytes: &[u8], index: &Part, outer: &Trailer<'_>, verify: Verify) -> Result<Self> {
        let mut cursor = Cursor::new(index.payload(bytes), index.start as u64);
        // Even with a hostile index, this vector takes no more memory than the block has bytes. It
        // would take more if it grew by doubling, or if it had an element for each tiny index
        // entry.
        let most_partitions = index.start / ALIGN_BYTES;
        let mut entries: Vec<Entry> = Vec::new();
        let num_entries = count_entries(cursor.clone())?.min(most_partitions);
        entries.try_reserve_exact(num_entries).map_err(|_| Error::TooLarge { what: "a partition index" })?;
        let (mut start, mut num_keys, mut payload_len_bytes, mut weighted_rate) = (0usize, 0u64, 0u64, 0.0);
        while !cursor.is_empty() {
            let IndexEntry { len_bytes, checksum: stored, last_key: key } = IndexEntry::take(&mut cursor)?;
            let key_end = cursor.offset() - index.start as u64;
            let in_index = |value: u64| u32::try_from(value).map_err(|_| cursor.corrupt(Field::PartitionIndex));
            let last_key = (in_index(key_end - key.len() as u64)?, in_index(key.len() as u64)?);
            let corrupt = || Error::Corrupt { field: Field::Partition, offset: start as u64 };
            let len = usize::try_from(len_bytes).map_err(|_| corrupt())?;
            let end = start.checked_add(len).filter(|&end| end <= index.start).ok_or_else(corrupt)?;
            let next =
                end.checked_next_multiple_of(ALIGN_BYTES).filter(|&next| next <= index.start).ok_or_else(corrupt)?;
            let padding = bytes.get(end..next).unwrap_or_default();
            let block = bytes.get(start..end).unwrap_or_default();
            let moved = |error: Error| error.moved_by(start as u64);
            let found =
                Located::read(block).and_then(|found| found.check_page_checksums().map(|()| found)).map_err(moved)?;
            let trailer = &found.trailer;
            let partition_number = u32::try_from(entries.len() + 1).map_err(|_| corrupt())?;
            let agrees = trailer.header.is_some()
                && trailer.partition_number == partition_number
                && trailer.is_like(outer)
                && padding.iter().all(|&byte| byte == 0)
                && entries.last().is_none_or(|last| last.last_key(bytes, index.start) <= Some(key));
            if !agrees {
                return Err(corrupt());
            }
            let computed = found.checksum;
            if computed != stored {
                let (field, offset) = (Field::Partition, start as u64);
                return Err(Error::ChecksumMismatch { field, offset, stored, computed });
            }
            let part = Part::new(bytes, start, &found, verify)?;
            num_keys = num_keys.checked_add(trailer.num_keys).ok_or_else(corrupt)?;
            payload_len_bytes += part.len as u64;
            weighted_rate +=
                part.params.expected_fpr(trailer.num_keys, trailer.payload_len_bytes) * trailer.num_keys as f64;
            try_push(&mut entries, Entry { part, last_key }).map_err(too_large("a partition index"))?;
            start = next;
        }
        if start != index.start || num_keys != outer.num_keys {
            return Err(Error::Corrupt { field: Field::PartitionIndex, offset: index.start as u64 });
        }
        let expected_fpr = weighted_rate / num_keys.max(1) as f64;
        Ok(Self { entries, index: index.start, index_end: index.start + index.len, payload_len_bytes, expected_fpr })
    }

    /// Returns whether bytes of the index are missing.
    fn is_cut(&self, bytes: &[u8]) -> bool {
        bytes.len() < self.index_end
    }

    /// Asks the partition whose range holds `key`. A key above the last range belongs to the last
    /// partition.
    pub(super) fn may_contain(&self, bytes: &[u8], key: &[u8], hash: KeyHash) -> bool {
        if self.is_cut(bytes) {
            return true;
        }
        let below =
            self.entries.partition_point(|entry| entry.last_key(bytes, self.index).is_some_and(|last| last < key));
        let entry = self.entries.get(below).or_else(|| self.entries.last());
        entry.is_some_and(|entry| entry.part.may_contain(bytes, hash))
    }

    /// Asks the partition whose range holds all keys that begin with `prefix`. `hash` is the hash
    /// of `prefix`.
    ///
    /// Keys that begin with `prefix` lie in several partitions only if the last key of a partition
    /// begins with `prefix`. Then the answer is "maybe", and no partition is asked.
    pub(super) fn may_contain_prefix(&self, bytes: &[u8], prefix: &[u8], hash: KeyHash) -> bool {
        if self.is_cut(bytes) {
            return true;
        }
        let below =
            self.entries.partition_point(|entry| entry.last_key(bytes, self.index).is_some_and(|last| last < prefix));
        match self.entries.get(below) {
            Some(entry) => {
                let last_key = entry.last_key(bytes, self.index);
                last_key.is_none_or(|last| last.starts_with(prefix)) || entry.part.may_contain(bytes, hash)
            }
            None => self.entries.last().is_some_and(|entry| entry.part.may_contain(bytes, hash)),
        }
    }

    /// Asks the partitions one by one, from the partition of the lower bound to the partition of
    /// the upper bound, until one answers "maybe". The key range of the last partition has no upper
    /// bound. Answers "maybe" for a reversed range.
    pub(super) fn may_contain_range(&self, bytes: &[u8], query: &RangeQuery, bounds: Bounds<'_>) -> bool {
        if self.is_cut(bytes) || is_reversed_range(bounds.0, bounds.1) {
            return true;
        }
        let last_key = |entry: &Entry| entry.last_key(bytes, self.index);
        let first = match bounds.0 {
            Bound::Unbounded => 0,
            Bound::Included(lower) | Bound::Excluded(lower) => {
                self.entries.partition_point(|entry| last_key(entry).is_some_and(|last| last < lower))
            }
        };
        let first = first.min(self.entries.len().saturating_sub(1));
        let mut after = None;
        for entry in self.entries.iter().skip(first) {
            let is_above = match (after, bounds.1) {
                (None, _) | (_, Bound::Unbounded) => false,
                (Some(after), Bound::Included(upper) | Bound::Excluded(upper)) => after >= upper,
            };
            if is_above {
                return false;
            }
            if entry.part.may_contain_range(bytes, query, bounds) {
                return true;
            }
            after = last_key(entry);
        }
        false
    }

    pub(super) fn any_may_contain(&self, bytes: &[u8], hash: KeyHash) -> bool {
        self.entries.iter().any(|entry| entry.part.may_contain(bytes, hash))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.entries.iter().map(|entry| &entry.part)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn payload_len_bytes(&self) -> u64 {
        self.payload_len_bytes
    }

    /// Returns the mean of the expected FPRs of the partitions, weighted by their numbers of keys.
    pub(super) fn expected_fpr(&self) -> f64 {
        self.expected_fpr
    }

    pub(super) fn verify_pages(&self, bytes: &[u8], outer: &Trailer<'_>) -> Result<()> {
        (1u32..)
            .zip(self.parts())
            .try_for_each(|(partition_number, part)| part.check_pages(bytes, &outer.table_id, partition_number))
    }
}

fn count_entries(mut index: Cursor<'_>) -> Result<usize> {
    let mut count = 0;
    while !index.is_empty() {
        IndexEntry::take(&mut index)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layout::checksum_of;
    use crate::block::{Added, FilterBlock, FilterOptions, PartitionedBuilder};
    use crate::codec;
    use crate::filters::{FilterKind, Header};
    use crate::hash::{HashSeed, KeyHasher};

    #[test]
    fn an_index_used_as_a_partition_is_refused() {
        let hasher = KeyHasher::xxh3(HashSeed(1));
        let mut builder = PartitionedBuilder::new(
            &FilterOptions::new("bloom:10".parse().unwrap()).self_check(true),
            hasher.clone(),
            4,
        )
        .unwrap();
        (b'0'..=b'9').for_each(|key| builder.add(builder.hasher().key(&[key])).unwrap());
        let inner = builder.finish().unwrap().bytes;
        assert!(FilterBlock::open_any(inner.as_slice(), Verify::AtOpen).is_ok());
        let outer = trailer(10);
        let error = FilterBlock::open_any(indexed(&[inner], outer), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Partition, offset: 0 }), "{error}");
    }

    #[test]
    fn partitions_whose_key_counts_overflow_are_refused() {
        let partition = |partition_number| {
            let (header, mut bytes) = (Some(Header::plain(FilterKind::AlwaysMaybe, 0)), Vec::new());
            Trailer { partition_number, header, ..trailer(1 << 47) }.append_to(&mut bytes).unwrap();
            bytes
        };
        // The numbers of keys add up to 0 in the 48 bits of the field.
        let outer = trailer(0);
        let error = FilterBlock::open_any(indexed(&[partition(1), partition(2)], outer), Verify::AtOpen).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::PartitionIndex, offset: 128 }), "{error}");
    }

    fn trailer(num_keys: u64) -> Trailer<'static> {
        Trailer {
            table_id: [0; 16],
            hash: KeyHasher::xxh3(HashSeed(1)).identity(),
            num_keys,
            payload_len_bytes: 0,
            partition_number: 0,
            header: None,
            added: Added::WholeKeys,
            extractor: None,
            ranges: None,
        }
    }

    /// Returns the `blocks`, followed by an index. Each index entry has the last key "9".
    fn indexed(blocks: &[Vec<u8>], outer: Trailer<'_>) -> Vec<u8> {
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        for block in blocks {
            codec::put_varint(&mut index, block.len() as u64);
            codec::put_u32(&mut index, checksum_of(block).unwrap());
            codec::put_bytes(&mut index, b"9");
            bytes.extend_from_slice(block);
            bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
        }
        Trailer { payload_len_bytes: index.len() as u64, ..outer }.append_to(&mut index).unwrap();
        bytes.extend(index);
        bytes
    }
}
