//! Describes a block: the fields of its trailer, its lengths and its fill ratio.

use super::layout::Added;
use super::parsed::ParsedBlock;
use super::part::Part;
use crate::filters::FilterKind;
use crate::hash::HashIdentity;

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
