//! Measures false-positive rates, and computes their intervals and FPR lower bounds.

use filterblock_testkit::measure::keys::{Mix, Ranges, hash_of, key};

use crate::contender::{Asked, Contender, Mode};

/// The maximum number of questions that are in memory at a time.
const CHUNK: usize = 1 << 17;
/// The distance from 0 within which 99 % of a standard normal distribution lie.
const Z99: f64 = 2.575_829_303_548_901;

/// A share, and its 99 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Rate {
    /// Returns the share of `hits` in `asked` with its interval (Wilson, "Probable inference, the
    /// law of succession, and statistical inference", 1927).
    pub fn of(hits: u64, asked: u64) -> Self {
        let n = asked.max(1) as f64;
        let share = hits as f64 / n;
        let z2 = Z99 * Z99;
        let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let reach = Z99 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
        Self { share, low: (middle - reach).max(0.0), high: middle + reach }
    }

    /// Returns the FPR lower bound in bits per key, which is infinite for a share of 0.
    pub fn least_bits(&self) -> f64 {
        -self.share.log2()
    }
}

/// Measures the FPR of every contender with `count` absent keys, spread over its filters.
/// Contenders that hash keys themselves are slow, so they get only every eighth chunk of the keys.
pub fn measure(contenders: &[Contender], ranges: &Ranges, count: usize) -> Vec<Rate> {
    let mut counted = vec![(0u64, 0u64); contenders.len()];
    for (chunk, start) in (0..count).step_by(CHUNK).enumerate() {
        // The timed loops ask for absent keys with lower numbers than these keys have.
        let first = (1 << 40) + start as u64;
        let numbers = ranges.questions(Mix::Negative, CHUNK.min(count - start), first);
        let keys: Vec<_> = numbers.iter().map(|&(filter, number)| (filter, key(number))).collect();
        let hashes = Asked::ManyHashes(keys.iter().map(|(filter, key)| (*filter, hash_of(key))).collect());
        let keys = Asked::ManyKeys(keys);
        for (contender, counted) in contenders.iter().zip(&mut counted) {
            if !contender.takes_hashes && chunk % 8 != 0 {
                continue;
            }
            let asked = if contender.takes_hashes { &hashes } else { &keys };
            counted.0 += contender.group.ask(asked, Mode::Single, asked.len()).1;
            counted.1 += asked.len() as u64;
        }
    }
    counted.into_iter().map(|(hits, asked)| Rate::of(hits, asked)).collect()
}

/// Returns the bits per key and the number of probes of the smallest Bloom filter with the FPR
/// `rate` and 1 to 30 probes. The formula is the common approximation
/// `FPR = (1 - e^(-probes / bits))^probes`.
pub fn bloom_for(rate: f64) -> (f64, u32) {
    let bits = |probes: u32| -f64::from(probes) / (-rate.powf(1.0 / f64::from(probes))).ln_1p();
    (1..=30)
        .map(|probes| (bits(probes), probes))
        .fold((f64::INFINITY, 1), |best, next| if next.0 < best.0 { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_wilsons() {
        // By definition, the counted share is 2.58 standard deviations away from each end of the
        // interval. The deviation is computed for the share at that end.
        let rate = Rate::of(10, 1_000);
        for end in [rate.low, rate.high] {
            let deviations = (rate.share - end).abs() / (end * (1.0 - end) / 1_000.0).sqrt();
            assert!((deviations - Z99).abs() < 1e-9, "{rate:?}");
        }
        assert_eq!(Rate::of(0, 1_000).low, 0.0);
    }

    #[test]
    fn one_per_cent_takes_seven_probes() {
        let (bits, probes) = bloom_for(0.01);
        assert_eq!(probes, 7);
        assert!((bits - 9.585).abs() < 0.01, "{bits}");
    }
}
