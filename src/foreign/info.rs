//! What a filter's bytes say of it, for whoever inspects a file.

/// A foreign filter as its bytes describe it. What is estimated is reckoned from the bits that are set.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ForeignFilterInfo {
    /// The kind: engine and layout, as the command names it.
    pub kind: &'static str,
    /// All bytes, with trailer or header.
    pub len_bytes: u64,
    /// The bytes that hold the keys.
    pub payload_len_bytes: u64,
    /// The bits that a query asks; `None` where it asks none.
    pub probes: Option<u32>,
    /// The lines or blocks that each hold all bits of a key; `None` where bits lie anywhere.
    pub blocks: Option<u64>,
    /// The length of such a block.
    pub block_len_bytes: Option<u64>,
    /// The columns of a block, on average; `None` where there are none.
    pub columns: Option<f64>,
    /// The number of the seed.
    pub seed: Option<u32>,
    /// The share of bits that are set.
    pub fill: Option<f64>,
    /// How many different keys the bits look like, or the size.
    pub estimated_keys: Option<f64>,
    /// The share of absent keys that the filter would let pass, if their hashes were random: LevelDB's are not for keys that
    /// differ in few places.
    pub expected_rate: f64,
}

impl ForeignFilterInfo {
    /// A filter of `len` bytes that asks no bits: a share `rate` of all keys passes, none or all.
    pub(super) fn constant(kind: &'static str, len: usize, rate: f64) -> Self {
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
            expected_rate: rate,
        }
    }

    /// A filter of `len` bytes, of which `payload` is in blocks of `block_len` bytes of `lanes` lanes each: a key has `probes`
    /// bits, in all lanes of one block.
    ///
    /// Keys fall in blocks at random, so a bit of a lane of `m` bits that takes `k` of them stays clear with
    /// `exp(-l (1 - (1 - 1/m)^k))` at `l` keys a block, which gives `l`. The rate is the mean of each block's own.
    pub(super) fn blocked(
        kind: &'static str,
        len: usize,
        payload: &[u8],
        block_len: usize,
        lanes: u32,
        probes: u32,
    ) -> Self {
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
        // Bits follow from 32 bits of the hash, beside those that choose the block: who has those of a key in its block passes.
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
