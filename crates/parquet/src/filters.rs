//! Computes the sizes and FPRs of filters, and builds the filter of a chunk in bounded memory.

use crate::bloom::{BLOCK_LEN_BYTES, Block, ParquetBloomBuilder};
use crate::distinct;
use crate::error::{Error, Result, check_rate};

const BLOCK_BITS: f64 = 256.0;
const MAX_BITS_PER_VALUE: f64 = 100.0;
/// The number of lanes of a block. A value sets one of the 32 bits of each lane.
const LANES: i32 = 8;
/// The share of a lane's bits that stay 0 after one value.
const CLEAR: f64 = 31.0 / 32.0;
/// The maximum length of a filter's bits. Arrow C++ rejects longer filters.
pub const MAX_LEN_BYTES: u64 = (MAX_BLOCKS * BLOCK_LEN_BYTES) as u64;
const MAX_BLOCKS: usize = (128 << 20) / BLOCK_LEN_BYTES;
/// The maximum number of hashes that a [`Collector`] keeps. They take 96 MiB.
const MAX_HASHES: usize = 12 << 20;

/// The budget that determines the length of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// The false-positive rate, above 0 and below 1.
    Fpr(f64),
    /// The number of bits for each distinct value, from 1 to 100.
    BitsPerValue(f64),
}

/// The rule for the length of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    values_per_block: f64,
    is_exact: bool,
}

impl Sizing {
    /// Returns the rule for a budget. Unless `is_exact` is true, the number of blocks is rounded up
    /// to a power of two, which all known readers accept. Arrow C++ and Velox reject other numbers.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a rate that is not above 0 and below 1, for a rate that needs more
    /// than 100 bits per value, and for less than 1 or more than 100 bits per value.
    pub fn new(budget: Budget, is_exact: bool) -> Result<Self> {
        let values_per_block = match budget {
            Budget::Fpr(rate) => {
                check_rate(rate)?;
                let lowest = fpr_at(BLOCK_BITS / MAX_BITS_PER_VALUE);
                if rate < lowest {
                    let reason = format!("a filter would take more than 100 bits per value; try {lowest:.1e}");
                    return Err(Error::Invalid { what: "false-positive rate", given: rate.to_string(), reason });
                }
                values_per_block(rate)
            }
            Budget::BitsPerValue(bits) if !(1.0..=MAX_BITS_PER_VALUE).contains(&bits) => {
                let reason = "expected 1 to 100; try 10.5 for a false-positive rate of 1 %".to_owned();
                return Err(Error::Invalid { what: "bits per value", given: bits.to_string(), reason });
            }
            Budget::BitsPerValue(bits) => BLOCK_BITS / bits,
        };
        Ok(Self { values_per_block, is_exact })
    }

    /// Returns the number of blocks of a filter for `distinct` distinct values. It is at least 1
    /// and at most 4,194,304 (128 MiB).
    #[must_use]
    pub fn num_blocks(&self, distinct: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number out of range is clamped")]
        let blocks = ((distinct as f64 / self.values_per_block).ceil() as usize).clamp(1, MAX_BLOCKS);
        if self.is_exact { blocks } else { blocks.next_power_of_two() }
    }
}

/// Returns the expected false-positive rate of a filter with `distinct` values in `num_blocks`
/// blocks.
///
/// For two or more blocks, the formula takes the number of values in a block from a Poisson
/// distribution. This distribution is close to the exact binomial one if there are many blocks.
///
/// ```
/// use filterblock_parquet::filters::expected_fpr;
///
/// assert!((expected_fpr(1_000_000, 41_000) - 0.01).abs() < 0.0005);
/// ```
#[must_use]
pub fn expected_fpr(distinct: u64, num_blocks: u64) -> f64 {
    match num_blocks {
        _ if distinct == 0 => 0.0,
        0 | 1 => covered(distinct as f64),
        _ => fpr_at(distinct as f64 / num_blocks as f64),
    }
}

fn covered(values: f64) -> f64 {
    (1.0 - CLEAR.powf(values)).powi(LANES)
}

fn fpr_at(mean: f64) -> f64 {
    // With a mean of more than 600 values per block, nearly all bits are set.
    if mean > 600.0 {
        return 1.0;
    }
    let (mut weight, mut fpr, mut sum) = ((-mean).exp(), 0.0, 0.0);
    let last = mean + 12.0 * mean.sqrt() + 40.0;
    let mut in_block = 0.0;
    while in_block <= last {
        fpr += weight * covered(in_block);
        sum += weight;
        in_block += 1.0;
        weight *= mean / in_block;
    }
    (fpr + (1.0 - sum).max(0.0)).min(1.0)
}

/// Returns the FPR of a filter for random absent keys, computed from the set bits of its blocks.
/// Returns 0 if there are no blocks.
#[must_use]
pub fn measured_fpr(blocks: &[Block]) -> f64 {
    let of_block = |block: &Block| -> f64 {
        let lanes = block.as_chunks::<4>().0;
        lanes.iter().map(|lane| f64::from(u32::from_le_bytes(*lane).count_ones()) / 32.0).product()
    };
    blocks.iter().map(of_block).sum::<f64>() / blocks.len().max(1) as f64
}

fn values_per_block(rate: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1e4);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if fpr_at(middle) > rate { high = middle } else { low = middle }
    }
    low
}

/// Estimates the number of distinct values in a filter from the share of its bits that are set.
#[must_use]
pub fn estimated_distinct(bits: &[u8]) -> u64 {
    let ones: u64 = bits.as_chunks::<8>().0.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    let all = bits.len() as f64 * 8.0;
    let clear = ((all - ones as f64) / all).max(0.5 / all);
    // With a mean of L values per block, the share exp(-L / 32) of all bits stays 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is at least zero")]
    let distinct = (-clear.ln() * 32.0 * all / BLOCK_BITS).round() as u64;
    distinct
}

/// The distinct hashes of a chunk, in bounded memory.
///
/// Up to 12 Mi hashes are kept and counted. If a chunk has more hashes, and more than about 9 Mi
/// are distinct, all hashes go into a filter of at most 128 MiB. The number of distinct values is
/// then estimated from the bits of the filter. A sketch such as `HyperLogLog` was rejected, because
/// it cannot be turned into a filter.
#[derive(Debug)]
pub struct Collector {
    hashes: Vec<u64>,
    max_hashes: usize,
    large: Option<ParquetBloomBuilder>,
    sizing: Sizing,
    most: u64,
}

/// The filter of a chunk.
#[derive(Debug)]
pub struct Filter {
    /// The filter.
    pub builder: ParquetBloomBuilder,
    /// The number of distinct values.
    pub distinct: u64,
    /// The distinct hashes, or `None` if there are too many to keep. `distinct` is then an
    /// estimate.
    pub hashes: Option<Vec<u64>>,
}

impl Collector {
    /// Returns an empty collector. `most` is an upper bound on the number of distinct values.
    #[must_use]
    pub fn new(sizing: Sizing, most: u64) -> Self {
        Self::with_max_hashes(sizing, most, MAX_HASHES)
    }

    /// Returns an empty collector as [`Self::new`] does, but with another maximum number of kept
    /// hashes. Tests use it to exceed the maximum with few hashes.
    #[must_use]
    pub fn with_max_hashes(sizing: Sizing, most: u64, max_hashes: usize) -> Self {
        Self { hashes: Vec::new(), max_hashes, large: None, sizing, most }
    }

    /// Adds hashes, which may repeat.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the filter cannot be built.
    pub fn add(&mut self, hashes: &[u64]) -> Result<()> {
        if let Some(large) = &mut self.large {
            large.add_hashes(hashes);
            return Ok(());
        }
        if self.hashes.len() + hashes.len() > self.max_hashes {
            distinct::retain(&mut self.hashes);
            // At least a quarter of the maximum must be free, or the next calls would remove
            // duplicates again and again.
            if self.hashes.len() + hashes.len() > self.max_hashes / 4 * 3 {
                self.enlarge()?;
                return self.add(hashes);
            }
        }
        let len = self.hashes.len() + hashes.len();
        if len > self.hashes.capacity() {
            // `most` comes from the file and may be false, so it must not decide how much memory is
            // reserved.
            self.hashes.reserve_exact((len * 2).min(self.max_hashes) - self.hashes.len());
        }
        self.hashes.extend_from_slice(hashes);
        Ok(())
    }

    /// Moves the hashes into a filter for `most` values, of at most 128 MiB.
    fn enlarge(&mut self) -> Result<()> {
        let powers = Sizing { is_exact: false, ..self.sizing };
        let mut large = ParquetBloomBuilder::with_blocks(powers.num_blocks(self.most))?;
        // The hashes are roughly in the order of their blocks, so the loop fills the filter from
        // its end while it frees the last hashes. If the system provides zeroed memory at the first
        // write, the hashes and the whole filter are never in memory together.
        while !self.hashes.is_empty() {
            let keep = self.hashes.len().saturating_sub(self.max_hashes / 16 + 1);
            large.add_hashes(self.hashes.get(keep..).unwrap_or_default());
            self.hashes.truncate(keep);
            self.hashes.shrink_to_fit();
        }
        self.large = Some(large);
        Ok(())
    }

    /// Returns the number of distinct hashes, and whether it is an estimate.
    #[must_use]
    pub fn count(mut self) -> (u64, bool) {
        if let Some(large) = self.large {
            return (estimated_distinct(large.bits()), true);
        }
        distinct::retain(&mut self.hashes);
        (self.hashes.len() as u64, false)
    }

    /// Returns the filter of the hashes. If there were too many hashes to keep, the number of
    /// blocks is a power of two even if the sizing is exact: see [`Filter::exact_blocks`].
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the filter cannot be built.
    pub fn finish(mut self) -> Result<Filter> {
        if let Some(mut builder) = self.large {
            let distinct = estimated_distinct(builder.bits());
            let powers = Sizing { is_exact: false, ..self.sizing };
            builder.fold_to(powers.num_blocks(distinct).min(builder.num_blocks()))?;
            return Ok(Filter { builder, distinct, hashes: None });
        }
        distinct::retain(&mut self.hashes);
        let distinct = self.hashes.len() as u64;
        let mut builder = ParquetBloomBuilder::with_blocks(self.sizing.num_blocks(distinct))?;
        builder.add_hashes(&self.hashes);
        Ok(Filter { builder, distinct, hashes: Some(self.hashes) })
    }
}

impl Filter {
    /// Returns the number of blocks that an exact sizing needs. Returns `None` if the filter has
    /// this number, if the sizing is not exact, or if the hashes were kept. For `Some`, the caller
    /// reads the values again and adds them to a builder of this size.
    #[must_use]
    pub fn exact_blocks(&self, sizing: &Sizing) -> Option<usize> {
        let blocks = sizing.num_blocks(self.distinct);
        (self.hashes.is_none() && sizing.is_exact && blocks != self.builder.num_blocks()).then_some(blocks)
    }
}
