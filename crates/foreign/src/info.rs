//! Reads the properties of a filter in a file of another engine from the filter's bytes.

use filterblock::FilterKind;
use filterblock::{ParsedBlock, Verify, compact};

/// The length of a line of a blocked Bloom filter of this crate.
const LINE_LEN_BYTES: usize = 64;

/// The properties of a filter in a file of another engine, read from the filter's bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ForeignFilterInfo {
    /// The name of the layout, as the command prints it, for example `rocksdb-ribbon`.
    pub kind: &'static str,
    /// The length of the filter in bytes, with its trailer or header.
    pub len_bytes: u64,
    /// The length of the filter in bytes, without its trailer or header. It is 0 for always-maybe
    /// filters.
    pub payload_len_bytes: u64,
    /// The number of probes per key. It is the length of a fingerprint in bits for binary fuse
    /// filters, and 0 for range filters. It is `None` for ribbon filters, for always-maybe filters
    /// and for filters without payload.
    pub probes: Option<u32>,
    /// The number of lines or blocks of a blocked Bloom filter, or of blocks of a ribbon filter. It
    /// is `None` for other filters and for filter blocks of this crate.
    pub blocks: Option<u64>,
    /// The length in bytes of a line or block of a blocked Bloom filter. It is `None` for other
    /// filters and for filter blocks of this crate.
    pub block_len_bytes: Option<u64>,
    /// The mean number of columns per block of a RocksDB ribbon filter, or the maximum number of
    /// columns of a ribbon filter of this crate. It is `None` for other filters.
    pub columns: Option<f64>,
    /// The seed number in the trailer of a RocksDB ribbon filter, or `None` for other filters.
    pub seed: Option<u32>,
    /// The fill ratio: the share of bits that are set. It is `None` for ribbon filters, for
    /// always-maybe filters and for filters without payload.
    pub fill: Option<f64>,
    /// The number of distinct keys. A filter block of this crate stores it. For a RocksDB ribbon
    /// filter, it is estimated from the size, and for other filters from the set bits. The estimate
    /// is infinite if all bits are set, and `None` for an always-maybe filter.
    pub estimated_keys: Option<f64>,
    /// The expected false-positive rate (FPR) for absent keys with random hashes. LevelDB's hashes
    /// are not random for keys that differ in few places.
    pub expected_fpr: f64,
}

impl ForeignFilterInfo {
    /// Returns the properties of a filter of `len` bytes with an FPR of `rate` and without payload.
    #[doc(hidden)]
    #[must_use]
    pub fn constant(kind: &'static str, len: usize, rate: f64) -> Self {
        Self {
            kind,
            len_bytes: len as u64,
            payload_len_bytes: 0,
            probes: None,
            blocks: None,
            block_len_bytes: None,
            columns: None,
            seed: None,
            fill: None,
            estimated_keys: (rate == 0.0).then_some(0.0),
            expected_fpr: rate,
        }
    }

    /// Returns the properties of a filter block of this crate. For invalid bytes, the properties
    /// are those of an always-maybe filter.
    pub(super) fn native(bytes: &[u8]) -> Self {
        let Ok(block) = ParsedBlock::open(bytes, Verify::OnFirstTouch) else {
            return Self::constant("filterblock", bytes.len(), 1.0);
        };
        let found = block.metadata();
        let is_ribbon = matches!(found.kind, FilterKind::Ribbon | FilterKind::BumpedRibbon);
        let is_constant = matches!(found.kind, FilterKind::Empty | FilterKind::AlwaysMaybe);
        let has_bits = !is_ribbon && !is_constant;
        Self {
            payload_len_bytes: if is_constant { 0 } else { found.payload_len_bytes },
            probes: has_bits.then_some(found.probes),
            columns: is_ribbon.then(|| f64::from(found.probes)),
            fill: has_bits.then(|| block.statistics().fill_ratio),
            estimated_keys: Some(found.num_keys as f64),
            ..Self::constant(found.kind.name(), bytes.len(), block.expected_fpr())
        }
    }

    /// Returns the properties of a filter of this crate in the compact form. If the bytes state no
    /// kind that has a compact form, the properties are those of an always-maybe filter.
    pub(super) fn compact(bytes: &[u8]) -> Self {
        let maybe = |kind| Self::constant(kind, bytes.len(), 1.0);
        match compact::header(bytes) {
            Some((kind @ FilterKind::Bloom, probes, payload)) => Self {
                blocks: None,
                block_len_bytes: None,
                ..Self::blocked(kind.name(), bytes.len(), payload, payload.len(), 1, probes)
            },
            Some((kind @ FilterKind::BlockedBloom, probes, payload)) => {
                Self::blocked(kind.name(), bytes.len(), payload, LINE_LEN_BYTES, 1, probes)
            }
            Some((kind @ FilterKind::Empty, ..)) => Self::constant(kind.name(), bytes.len(), 0.0),
            Some((kind, ..)) => maybe(kind.name()),
            None => maybe("filterblock"),
        }
    }

    /// Returns the properties of a filter of `len` bytes. Its payload consists of blocks of
    /// `block_len` bytes with `lanes` lanes each. A key sets `probes` bits in one block, the same
    /// number in each lane.
    ///
    /// Keys fall into blocks at random. Let `l` be the mean number of keys per block. If a lane has
    /// `m` bits, and a key sets `k` of them, a bit stays clear with probability
    /// `exp(-l (1 - (1 - 1/m)^k))`. Solving for `l` gives the number of keys per block.
    #[doc(hidden)]
    #[must_use]
    pub fn blocked(kind: &'static str, len: usize, payload: &[u8], block_len: usize, lanes: u32, probes: u32) -> Self {
        let lane_len = (block_len / lanes as usize).max(1);
        let lane_bits = lane_len as f64 * 8.0;
        let of_lane = probes / lanes;
        let blocks = payload.chunks_exact(block_len.max(1));
        let num_blocks = blocks.len() as f64;
        let (mut set, mut rate) = (0.0, 0.0);
        for block in blocks {
            let mut of_block = 1.0;
            for lane in block.chunks_exact(lane_len) {
                let ones = lane.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>() as f64;
                set += ones;
                of_block *= (ones / lane_bits).powi(of_lane.cast_signed());
            }
            rate += of_block;
        }
        let fill = set / (num_blocks * lane_bits * f64::from(lanes)).max(1.0);
        let share_of_key = -(f64::from(of_lane) * (-1.0 / lane_bits).ln_1p()).exp_m1();
        let keys = num_blocks * -(-fill).ln_1p() / share_of_key;
        let of_bits = rate / num_blocks.max(1.0);
        // The bits within a block follow from 32 bits of the hash. An absent key passes if these 32
        // bits equal those of a present key in the same block. Only the compact form of `bloom`
        // uses all 64 bits, so its FPR is estimated slightly too high.
        let of_equal_hashes = (keys / num_blocks.max(1.0) * (-32f64).exp2()).min(1.0);
        Self {
            payload_len_bytes: payload.len() as u64,
            probes: Some(probes),
            blocks: Some((payload.len() / block_len.max(1)) as u64),
            block_len_bytes: Some(block_len as u64),
            fill: Some(fill),
            estimated_keys: Some(keys),
            ..Self::constant(kind, len, of_bits + (1.0 - of_bits) * of_equal_hashes)
        }
    }
}
