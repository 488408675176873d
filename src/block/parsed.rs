//! Reads, checks and describes a block without its hasher. The block cannot answer queries yet: with
//! another hash function, seed or secret than the writer's, a filter would deny present keys.

use std::fmt;

use super::layout::{Added, Located, Trailer, checksum_of};
use super::part::{Part, Verify};
use super::partition::Partitions;
use super::ranges::RangeFilter;
use crate::error::{Error, Field, Result};
use crate::filters::{FilterKind, Header};
use crate::hash::HashIdentity;

/// A checked filter block without its hasher. It gives access to metadata, pages and bytes, but
/// answers no queries: [`bind`](ParsedBlock::bind) it first.
// A store has thousands of blocks, and most of them are not in the processor's cache. The first
// cache line of this struct holds everything that most queries for a hash need, except the bytes
// and the pointer to them.
#[repr(C, align(64))]
pub struct ParsedBlock<D> {
    pub(super) filter: Part,
    pub(super) rare: Option<Box<Rare>>,
    pub(super) data: D,
    pub(super) trailer: Box<Trailer<'static>>,
    pub(super) ranges: Option<Box<RangeFilter>>,
    /// The offset of the block in the host's file, in bytes.
    pub(super) offset: u64,
}

const _: () = assert!(size_of::<Part>() + size_of::<Option<Box<Rare>>>() <= 64);

/// State that few blocks need. It is boxed, so that a query of a common block only checks one
/// pointer.
#[derive(Debug)]
pub(super) struct Rare {
    pub(super) partitions: Option<Partitions>,
    /// Whether the block holds only prefixes. Such a block never denies a whole key.
    is_of_prefixes_only: bool,
    /// Whether the block is a range filter. A range filter stores no hashes, so it never denies a
    /// hash. It answers for a key as for the range of this key alone.
    pub(super) is_of_ranges_only: bool,
    /// Whether the block is a partition without its index. Such a block does not know which keys
    /// belong to it, so it never denies a key.
    pub(super) is_partition: bool,
}

impl Rare {
    pub(super) fn never_denies_keys(&self) -> bool {
        self.is_of_prefixes_only || self.is_partition
    }

    pub(super) fn never_denies_hashes(&self) -> bool {
        self.never_denies_keys() || self.is_of_ranges_only
    }
}

/// Omits the bytes, which may be gigabytes.
impl<D> fmt::Debug for ParsedBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedBlock").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> ParsedBlock<D> {
    /// Reads and checks a block. With [`Verify::AtOpen`], the check includes the pages.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open_any`](super::FilterBlock::open_any), except for a missing secret.
    pub fn open(data: D, verify: Verify) -> Result<Self> {
        Self::open_at(data, 0, verify)
    }

    /// Reads and checks partition `number` of a partitioned filter from the partition's own bytes.
    /// Numbers start at 0. This function is for tools that inspect files.
    ///
    /// The partition never denies a key or prefix, because only the index knows which keys belong
    /// to it. To query a partition, use
    /// [`PartitionIndex::open_partition`](super::PartitionIndex::open_partition).
    ///
    /// # Errors
    /// Returns the errors of [`ParsedBlock::open`], and [`Error::Corrupt`] if the bytes are another
    /// partition or no partition.
    pub fn open_partition(data: D, number: u32, verify: Verify) -> Result<Self> {
        let partition_number = number.checked_add(1).ok_or(Error::corrupt(Field::PartitionNumber))?;
        Self::open_at(data, partition_number, verify)
    }

    /// Reads a block whose trailer has this partition number. Another number is an error: a
    /// partition denies the keys of other partitions, so it must not open as a whole filter.
    fn open_at(data: D, partition_number: u32, verify: Verify) -> Result<Self> {
        let bytes = data.as_ref();
        let found = Located::read(bytes)?;
        found.check_page_checksums()?;
        // The index is always verified whole, because it decides which partition answers.
        let is_index = found.trailer.header.is_none();
        let filter = Part::new(bytes, 0, &found, if is_index { Verify::AtOpen } else { verify })?;
        if found.trailer.partition_number != partition_number {
            return Err(found.corrupt(Field::PartitionNumber));
        }
        let partitions = is_index.then(|| Partitions::read(bytes, &filter, &found.trailer, verify)).transpose()?;
        let ranges = RangeFilter::open(bytes, &found, verify).map(Box::new);
        let added = found.trailer.added;
        let (is_of_prefixes_only, is_of_ranges_only) = (added == Added::Prefixes, added == Added::Ranges);
        let is_partition = partition_number != 0;
        let is_rare = partitions.is_some() || is_of_prefixes_only || is_of_ranges_only || is_partition;
        let rare = is_rare.then(|| Box::new(Rare { partitions, is_of_prefixes_only, is_of_ranges_only, is_partition }));
        let trailer = Box::new(found.trailer.into_owned());
        Ok(Self { filter, rare, data, trailer, ranges, offset: 0 })
    }

    pub(super) fn checksum(&self) -> u32 {
        // A block with a trailer has a checksum, so the default is never used.
        checksum_of(self.as_bytes()).unwrap_or_default()
    }

    pub(super) fn partitions(&self) -> Option<&Partitions> {
        self.rare.as_ref()?.partitions.as_ref()
    }

    /// Returns the parameters of the filter as one line of text. Returns `None` for a partition
    /// index, which has no parameters.
    #[must_use]
    pub fn parameters(&self) -> Option<String> {
        self.header().map(|_| self.filter.params.to_string())
    }

    /// Returns whether the extension holds parameters of the filter: the record of a ribbon or of a
    /// range filter.
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.header().is_some_and(|header| !header.record.is_empty())
    }

    /// Returns the header of the filter, or `None` for a partition index.
    #[doc(hidden)]
    #[must_use]
    pub fn header(&self) -> Option<&Header<'static>> {
        self.trailer.header.as_ref()
    }

    /// Returns the bytes of the filter itself, without page checksums, extension and trailer. For a
    /// filter in partitions, returns the bytes of the partition index.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.filter.payload(self.as_bytes())
    }

    /// Returns the partition number in the trailer: 0 for a whole filter or a partition index, and
    /// `i + 1` for partition `i`, counted from 0.
    #[doc(hidden)]
    #[must_use]
    pub fn partition_number(&self) -> u32 {
        self.trailer.partition_number
    }

    /// Returns a block with another payload and number of keys, and without table id and range
    /// filter. All other fields are those of this block.
    ///
    /// # Errors
    /// Returns an error if no reader would accept the block, or if there is no memory for it.
    #[doc(hidden)]
    pub fn with_payload(&self, num_keys: u64, mut payload: Vec<u8>) -> Result<Vec<u8>> {
        let payload_len_bytes = payload.len() as u64;
        if let Some(header) = self.header() {
            crate::filters::Params::new(header, num_keys, payload_len_bytes)?;
        }
        let trailer =
            Trailer { table_id: [0; 16], num_keys, payload_len_bytes, ranges: None, ..Trailer::clone(&self.trailer) };
        trailer.append_to(&mut payload).map_err(crate::error::too_large("a filter block"))?;
        Ok(payload)
    }

    /// Returns the expected false-positive rate: the share of absent keys for which the filter
    /// answers "maybe". For a filter of prefixes only, it is the share of absent prefixes. For a
    /// range filter, it is the share of ranges without a key: see
    /// [`ParsedBlock::expected_range_fpr`].
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        match self.partitions() {
            None => self.filter.params.expected_fpr(self.trailer.num_keys, self.trailer.payload_len_bytes),
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

    /// Compares all pages with their checksums, including the pages of a range filter beside the
    /// filter.
    ///
    /// # Errors
    /// Returns [`Error::ChecksumMismatch`] for the first page that fails its checksum. If the
    /// other pages are valid, returns the error of a range filter that cannot be used.
    pub fn verify_pages(&self) -> Result<()> {
        let (bytes, trailer) = (self.as_bytes(), &self.trailer);
        let own = self.filter.check_pages(bytes, &trailer.table_id, trailer.partition_number);
        let all = own.and_then(|()| self.partitions().map_or(Ok(()), |parts| parts.verify_pages(bytes, trailer)));
        all.map_err(|error| error.moved_by(self.offset))?;
        if let Some(error) = self.ranges_error() {
            return Err(error.duplicate().moved_by(self.offset));
        }
        let beside = self.part_beside().map(|part| part.check_pages(bytes, &trailer.table_id, 0));
        beside.unwrap_or(Ok(())).map_err(|error| error.moved_by(self.offset))
    }

    /// Returns the bytes that were opened: the whole block, and the range filter if there is one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Returns whether the block has a usable range filter. It has none if it is a partition
    /// without its index.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        let is_usable = |ranges: &RangeFilter| !matches!(ranges, RangeFilter::Unusable(_));
        self.trailer.partition_number == 0 && self.ranges.as_deref().is_some_and(is_usable)
    }

    /// Returns the expected false-positive rate for ranges: the share of ranges without a key for
    /// which the answer is "maybe". It is an upper bound for ranges of at most the length for which
    /// the filter was built. For a filter without a range length, it is an upper bound for scans
    /// that span at most 16 cells of the filter. Returns `None` if there is no usable range filter.
    #[must_use]
    pub fn expected_range_fpr(&self) -> Option<f64> {
        if !self.has_ranges() {
            return None;
        }
        let of_part = |part: &Part| part.params.expected_fpr(0, 0);
        Some(self.part_beside().map_or_else(|| self.expected_fpr(), of_part))
    }

    /// Returns the reason why the range filter beside the block's filter cannot be used. The
    /// block's filter is usable nevertheless. Returns `None` if the range filter is usable, or if
    /// the bytes of the block hold none.
    #[must_use]
    pub fn ranges_error(&self) -> Option<&Error> {
        match self.ranges.as_deref()? {
            RangeFilter::Unusable(error) => Some(error),
            RangeFilter::Own | RangeFilter::Beside(_) => None,
        }
    }

    fn part_beside(&self) -> Option<&Part> {
        match self.ranges.as_deref()? {
            RangeFilter::Beside(part) => Some(part),
            RangeFilter::Own | RangeFilter::Unusable(_) => None,
        }
    }
}

/// A description of a block: the fields of its trailer, its lengths and its number of partitions.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Metadata<'a> {
    /// The kind of the filter, or of its first partition. It is [`FilterKind::Empty`] for an index
    /// without partitions. It is the kind of the fallback if the requested kind could not build the
    /// filter.
    pub kind: FilterKind,
    /// The number of distinct keys. Prefixes count as keys, once in each partition that has them.
    pub num_keys: u64,
    /// The table id that the writer set. It is all zeros if the writer set none.
    pub table_id: [u8; 16],
    /// Hash function, seed and fingerprint of the secret.
    pub hash: HashIdentity,
    /// The parts of keys that were added. A filter that has only prefixes answers "maybe" for every
    /// whole key. A filter that has only whole keys answers "maybe" for every prefix.
    pub added: Added,
    /// The name of the prefix extractor, if prefixes were added.
    pub extractor: Option<&'a str>,
    /// The number of partitions. It is 0 for a filter in one piece, and for an index without
    /// partitions.
    pub num_partitions: usize,
    /// The length of the payload in bytes. For a filter in partitions, it is the sum over all
    /// partitions.
    pub payload_len_bytes: u64,
    /// The length of the whole block in bytes, with page checksums, extension and trailer.
    pub block_len_bytes: u64,
    /// The length in bytes of the range filter beside the filter. It is 0 if there is none, or if
    /// the filter was opened without the bytes of its range filter. [`Metadata::block_len_bytes`]
    /// includes this length.
    pub ranges_len_bytes: u64,
    /// The maximum number of bits that must match for "maybe". It is 0 for filters without such
    /// bits, for example range filters. For a filter in partitions, it is the maximum of the first
    /// partition, or 0 if there are no partitions.
    pub probes: u32,
}

impl Metadata<'_> {
    /// Returns the bits of the whole block per distinct key, or 0 if there are no keys.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        if self.num_keys == 0 { 0.0 } else { self.block_len_bytes as f64 * 8.0 / self.num_keys as f64 }
    }
}

/// Statistics of the bits of a filter: see [`ParsedBlock::statistics`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The fill ratio: the share of bits that are 1, from 0 to 1.
    pub fill_ratio: f64,
    /// The number of distinct keys, estimated from the fill ratio and not read from the trailer. It
    /// is `None` if the kind allows no estimate, or if partitions have several kinds.
    pub estimated_keys: Option<f64>,
    /// The expected FPR of the filter with `estimated_keys` keys. It is `None` if there is no
    /// estimate, or for a filter in partitions. If a merge counted keys several times, the recorded
    /// number of keys and [`ParsedBlock::expected_fpr`] are too high, and this estimate is not.
    pub estimated_fpr: Option<f64>,
}

impl<D: AsRef<[u8]>> ParsedBlock<D> {
    /// Returns a description of the block in constant time. Reads no page of the filter.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        let trailer = &self.trailer;
        let (first, num_partitions, payload_len_bytes) = match self.partitions() {
            None => (Some(&self.filter), 0, trailer.payload_len_bytes),
            Some(partitions) => (partitions.parts().next(), partitions.len(), partitions.payload_len_bytes()),
        };
        Metadata {
            kind: first.map_or(FilterKind::Empty, |part| part.params.kind()),
            num_keys: trailer.num_keys,
            table_id: trailer.table_id,
            hash: trailer.hash,
            added: trailer.added,
            extractor: trailer.extractor.as_deref(),
            num_partitions,
            payload_len_bytes,
            block_len_bytes: self.as_bytes().len() as u64,
            ranges_len_bytes: trailer.ranges.filter(|_| self.filter.start > 0).map_or(0, |ranges| ranges.len_bytes),
            probes: first.map_or(0, |part| part.params.probes()),
        }
    }

    /// Returns the fill ratio, and the number of keys estimated from it. Reads the whole filter.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let bytes = self.as_bytes();
        let parts: Vec<&Part> = match self.partitions() {
            None => vec![&self.filter],
            Some(partitions) => partitions.parts().collect(),
        };
        let set_bits: u64 = parts.iter().map(|part| count_ones(part.payload(bytes))).sum();
        let bits = self.metadata().payload_len_bytes.saturating_mul(8);
        let estimated_keys = match parts.first() {
            None => Some(0.0),
            Some(first) if parts.iter().any(|part| part.params.kind() != first.params.kind()) => None,
            Some(first) => first.params.estimated_keys(set_bits, bits),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the number of bits")]
        let rate = |keys: f64| self.filter.params.expected_fpr(keys.round().min(bits as f64) as u64, bits / 8);
        Statistics {
            fill_ratio: if bits == 0 { 0.0 } else { set_bits as f64 / bits as f64 },
            estimated_keys,
            estimated_fpr: estimated_keys.filter(|_| self.partitions().is_none()).map(rate),
        }
    }
}

fn count_ones(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{FilterOptions, PartitionedBuilder};
    use crate::hash::{HashSeed, KeyHasher};

    #[test]
    fn parameters_exist_for_a_filter_but_not_for_an_index() {
        let mut builder = FilterOptions::new("bloom:10".parse().unwrap()).builder(HashSeed(1)).unwrap();
        builder.add(builder.hasher().key(b"key"));
        let filter = builder.finish().unwrap().bytes;
        let filter = ParsedBlock::open(filter.as_slice(), Verify::AtOpen).unwrap();
        assert!(filter.parameters().unwrap().contains("bits tested"));
        let mut builder =
            PartitionedBuilder::new(&FilterOptions::new("bloom:10".parse().unwrap()), KeyHasher::xxh3(HashSeed(1)), 4)
                .unwrap();
        builder.add(builder.hasher().key(b"key")).unwrap();
        let index = builder.finish().unwrap().bytes;
        assert_eq!(ParsedBlock::open(index.as_slice(), Verify::AtOpen).unwrap().parameters(), None);
    }
}
