//! Reads and builds RocksDB's legacy Bloom filter: see [`RocksDbFilterKind::LegacyBloom`].
//!
//! All bits of a key lie in one line. A hash of 32 bits chooses both the line and the bits.

use super::kind::{RocksDbFilterKind, TRAILER_LEN_BYTES};
use crate::ForeignFilterInfo;
use crate::hash32::{Remainder, probe_sequence};
use filterblock::internals::codec::{put_u32, u32_from};
use filterblock_simd::prefetch;

/// The length of a line in written filters: the cache line of nearly all machines.
const LINE_LEN_BYTES: usize = 64;
const LINE_BITS: u64 = LINE_LEN_BYTES as u64 * 8;
/// The maximum number of bits that RocksDB computes for a filter, before it rounds up to whole
/// lines.
const MAX_BITS: u64 = 0xffff_0000;
const MAX_PROBES: u8 = 30;
/// The number of probes per bit per key: ln 2, as RocksDB rounds it.
const PROBES_PER_BIT: f64 = 0.69;

#[derive(Debug, Clone, Copy)]
pub(super) struct LegacyBloom<'a> {
    payload: &'a [u8],
    line: Remainder,
    line_len: usize,
    probes: u8,
}

impl<'a> LegacyBloom<'a> {
    /// Returns the filter in `payload`. Returns `None` for 0 lines, if the lines cannot have equal
    /// lengths, or if the length of a line in bytes is not a power of two.
    pub(super) fn new(payload: &'a [u8], probes: u8, lines: [u8; 4]) -> Option<Self> {
        let lines = u32_from(&lines);
        let line = Remainder::by(lines.into())?;
        let lines = usize::try_from(lines).ok()?;
        let line_len = payload.len() / lines;
        (payload.len().is_multiple_of(lines) && line_len.is_power_of_two()).then_some(Self {
            payload,
            line,
            line_len,
            probes,
        })
    }

    #[inline]
    fn offset(&self, hash: u32) -> usize {
        self.line.of(hash) as usize * self.line_len
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch(self.payload, self.offset(hash));
        prefetch(self.payload, self.offset(hash) + self.line_len - 1);
    }

    #[inline]
    pub(super) fn may_contain(&self, hash: u32) -> bool {
        let Some(line) = self.payload.get(self.offset(hash)..) else { return true };
        // The number of bits in a line is a power of two, so the mask gives the remainder.
        let mask = self.line_len as u64 * 8 - 1;
        probe_sequence(hash, self.probes.into()).all(|number| {
            let bit = u64::from(number) & mask;
            line.get((bit / 8) as usize).is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
        })
    }

    pub(super) fn info(&self, len: usize) -> ForeignFilterInfo {
        let kind = RocksDbFilterKind::LegacyBloom.name();
        let info = ForeignFilterInfo::blocked(kind, len, self.payload, self.line_len, 1, self.probes.into());
        let keys_per_line = info.estimated_keys.zip(info.blocks).map_or(0.0, |(keys, lines)| keys / lines as f64);
        let lines = self.payload.chunks_exact(self.line_len);
        let num_lines = lines.len() as f64;
        let of_lines = lines.map(|line| self.line_rate(line, keys_per_line)).sum::<f64>() / num_lines;
        // Line and bits follow from one hash of 32 bits, so an absent key with the hash of a
        // present key always passes.
        let expected_fpr = of_lines.max((info.estimated_keys.unwrap_or_default() * (-32f64).exp2()).min(1.0));
        ForeignFilterInfo { expected_fpr, ..info }
    }

    /// Returns the false-positive rate of a line. With many bits per key, this rate is far above
    /// the rate of independent probes: 0.28 % instead of 0.04 % at 18 bits per key. `keys` is the
    /// mean number of keys per line.
    ///
    /// There are two reasons. Let the line have `m` bits. First, the step of a key may be a
    /// multiple of `2^j`. The probes then return to the first bit after `m / 2^j` probes, so the
    /// key has at most `m / 2^j` distinct bits. Second, the line has only `m^2` pairs of first bit
    /// and step. The pair of a present key always passes, and so does the pair that visits the same
    /// bits in reverse order. A pair that begins a few steps before or after one of these two pairs
    /// passes if its other bits are set by chance.
    fn line_rate(&self, line: &[u8], keys: f64) -> f64 {
        let bits = line.len() as u64 * 8;
        let ones = line.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let fill = ones as f64 / bits as f64;
        if ones == bits {
            return 1.0;
        }
        let of_steps = |j: u32| {
            let distinct = (bits >> j).min(self.probes.into());
            let share = if bits >> j == 1 { 1.0 / (bits as f64) } else { (-f64::from(j + 1)).exp2() };
            #[expect(clippy::cast_possible_truncation, reason = "at most 127 probes")]
            {
                share * fill.powi(distinct as i32)
            }
        };
        let at_random: f64 = (0..=bits.ilog2()).map(of_steps).sum();
        let of_a_pair = keys * 2.0 * (1.0 + 2.0 * fill / (1.0 - fill)) / (bits as f64).powi(2);
        (at_random + of_a_pair).min(1.0)
    }
}

/// Returns the number of probes for a whole number of bits per key.
pub(super) fn probes(bits_per_key: u32) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 69, for at most 100 bits")]
    let probes = (f64::from(bits_per_key) * PROBES_PER_BIT) as u8;
    probes.clamp(1, MAX_PROBES)
}

/// Builds the filter of `hashes`, with its trailer.
pub(super) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let probes = probes(bits_per_key);
    let bits = (hashes.len() as u64).saturating_mul(bits_per_key.into()).min(MAX_BITS);
    // With an odd number of lines, the choice of the line depends on more bits of the hash. A
    // filter without keys has no line.
    let lines = if hashes.is_empty() { 0 } else { bits.div_ceil(LINE_BITS) | 1 };
    #[expect(clippy::cast_possible_truncation, reason = "MAX_BITS has fewer than 2^23 lines")]
    let lines = lines as u32;
    let payload_len = lines as usize * LINE_LEN_BYTES;
    // With room for the trailer, the vector does not grow to twice its size.
    let mut filter = vec![0; payload_len + TRAILER_LEN_BYTES];
    filter.truncate(payload_len);
    if let Some(line) = Remainder::by(lines.into()) {
        for &hash in hashes {
            #[expect(clippy::cast_possible_truncation, reason = "these hashes have 32 bits")]
            let hash = hash as u32;
            let start = line.of(hash) as usize * LINE_LEN_BYTES;
            for number in probe_sequence(hash, probes.into()) {
                let bit = u64::from(number) % LINE_BITS;
                if let Some(byte) = filter.get_mut(start + (bit / 8) as usize) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
    }
    filter.push(probes);
    put_u32(&mut filter, lines);
    filter
}
