//! RocksDB's older Bloom filter, of tables of `format_version` 4 and less; Pebble writes it as well.
//!
//! All bits of a key lie in one line, the cache line of the machine that wrote it. The hash has 32 bits, and chooses the line
//! as well as the bits: at 15 million keys that doubles the rate.

use super::kind::RocksDbFilterKind;
use crate::codec::{put_u32, u32_from};
use crate::foreign::ForeignFilterInfo;
use crate::foreign::hash32::{Remainder, probe_sequence};
use crate::simd::prefetch;

/// Bytes of a line that is written: a cache line of nearly all machines.
const LINE_LEN_BYTES: usize = 64;
const LINE_BITS: u64 = LINE_LEN_BYTES as u64 * 8;
/// Bits of the longest filter that RocksDB builds.
const MAX_BITS: u64 = 0xffff_0000;
const MAX_PROBES: u8 = 30;
/// Probes for each bit per key: ln 2, as RocksDB rounds it.
const PROBES_PER_BIT: f64 = 0.69;

#[derive(Debug, Clone, Copy)]
pub(super) struct LegacyBloom<'a> {
    payload: &'a [u8],
    line: Remainder,
    line_len: usize,
    probes: u8,
}

impl<'a> LegacyBloom<'a> {
    /// `None` where the payload is no whole lines of a power of two of bytes.
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

    /// Where the line of a key begins.
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
        // A line has a power of two of bits, and so the mask is a remainder.
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
        // The hash that chooses both line and bits has 32 bits.
        let expected_rate = of_lines.max((info.estimated_keys.unwrap_or_default() * (-32f64).exp2()).min(1.0));
        ForeignFilterInfo { expected_rate, ..info }
    }

    /// The rate of a line, which is far from that of bits at random where bits per key are many: at 18 of them, 0.28 % and not
    /// 0.03 %.
    ///
    /// A step that is a multiple of `2^j` comes back to its first bit after `m / 2^j` probes of `m` bits, and a key has only as
    /// many. And a line of `m` bits tells apart no more than `m^2` pairs of first bit and step: to the pair of a present key
    /// comes that which goes through its bits from the end, and of both those that begin a few steps away, whose other bits
    /// are set by chance.
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

/// The probes at whole bits per key.
pub(super) fn probes(bits_per_key: u32) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 69, for at most 100 bits")]
    let probes = (f64::from(bits_per_key) * PROBES_PER_BIT) as u8;
    probes.clamp(1, MAX_PROBES)
}

/// The filter of `hashes`, with its trailer.
pub(super) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let probes = probes(bits_per_key);
    let bits = (hashes.len() as u64).saturating_mul(bits_per_key.into()).min(MAX_BITS);
    // Odd, so that the remainder looks at all bits of the hash. Of no keys there is no line.
    let lines = if hashes.is_empty() { 0 } else { bits.div_ceil(LINE_BITS) | 1 };
    #[expect(clippy::cast_possible_truncation, reason = "MAX_BITS has fewer than 2^23 lines")]
    let lines = lines as u32;
    let mut filter = vec![0; lines as usize * LINE_LEN_BYTES];
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
