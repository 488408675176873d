//! Computes sizes, probe counts, cache lines, expected false-positive rates (FPRs) and estimated
//! numbers of keys. Builders, plans and metadata use these functions; queries do not.
//!
//! The textbook FPR of a Bloom filter, `(1 - (1 - 1/m)^(kn))^k`, treats the `k` bits of a query as
//! independent. The result is too low by a relative `O(k²/m)` (Bose et al., "On the false-positive
//! rate of Bloom filters", 2008). The error is negligible in a megabit. In lines of 512 bits, it is
//! 1 % of the FPR at 10 bits per key (docs/DESIGN.md), and more at higher budgets. So lines and
//! small filters use the exact expectation ([`Coverage`]). The FPR of a blocked filter is the
//! average of this expectation over the number of keys in a line (Putze, Sanders, Singler, "Cache-,
//! hash- and space-efficient Bloom filters", 2007, eq. 3).
//!
//! A line cannot distinguish two hashes whose 32-bit folds agree ([`equal_fold`]). A filter of
//! 64-bit hashes cannot distinguish two keys with the same hash ([`equal_hash`]). Both effects are
//! negligible at a usual budget, but they can dominate the FPR at 100 bits per key.
//!
//! Sizes and probe counts use integer arithmetic on thousandths of a bit, so that every platform
//! builds the same bytes.

/// The number of bits in a line of a blocked Bloom filter. A line fills one cache line.
pub(crate) const LINE_BITS: u64 = 512;
/// The maximum number of probes of a standard Bloom filter. If half of the bits are set, 30 probes
/// have an FPR of 2^-30, which cannot be distinguished from zero in practice.
pub const MAX_BLOOM_PROBES: u32 = 30;
/// The maximum number of probes within a line: two AVX2 vectors of eight lanes.
pub(crate) const MAX_LINE_PROBES: u32 = 16;

/// The number of lanes of a split block, which is also the number of bits that a key sets.
pub(crate) const LANES: u32 = 8;

/// The maximum number of throws (bits set, with repetitions) for the exact formula. Above it, the
/// textbook formula is within 0.5 % of the exact formula at the best number of probes: 0.02 % with
/// 7 probes, 0.46 % with 30.
const EXACT_BELOW_THROWS: u64 = 20_000;

/// The budgets at which the best number of probes rises. From `BLOOM_PROBE_STEPS[i]` thousandths of
/// a bit per key on, `i + 2` probes have a lower FPR than `i + 1`.
///
/// With `x = m/n`, `k` and `k + 1` probes have the same FPR where `k ln(1 - e^(-k/x)) = (k + 1)
/// ln(1 - e^(-(k+1)/x))`.
const BLOOM_PROBE_STEPS: [u32; 29] = [
    2079, 3557, 5014, 6465, 7913, 9359, 10804, 12249, 13693, 15137, 16581, 18024, 19468, 20911, 22354, 23797, 25241,
    26684, 28127, 29570, 31013, 32456, 33899, 35341, 36784, 38227, 39670, 41113, 42556,
];

/// Like [`BLOOM_PROBE_STEPS`], but for probes in a line of 512 bits. The FPRs are those of
/// [`blocked_bloom_rate`] for many keys.
const LINE_PROBE_STEPS: [u32; 15] =
    [2082, 3585, 5104, 6674, 8318, 10058, 11921, 13933, 16124, 18528, 21185, 24140, 27445, 31162, 35361];

/// Returns the number of probes with the lowest FPR at `millibits` thousandths of a bit per key,
/// for many keys. The result is at most [`MAX_BLOOM_PROBES`].
pub(crate) fn bloom_probes(millibits: u64) -> u32 {
    probes_by(&BLOOM_PROBE_STEPS, millibits)
}

/// Returns the number of probes in a line with the lowest FPR at `millibits` thousandths of a bit
/// per key, for many keys. The result is at most [`MAX_LINE_PROBES`].
pub(crate) fn line_probes(millibits: u64) -> u32 {
    probes_by(&LINE_PROBE_STEPS, millibits)
}

fn probes_by(steps: &[u32], millibits: u64) -> u32 {
    1 + steps.iter().map(|&step| u32::from(u64::from(step) <= millibits)).sum::<u32>()
}

/// Returns how many granules of `granule_bits` bits hold `num_keys` keys at `millibits` thousandths
/// of a bit per key. The result is at least 1.
///
/// Returns `None` if the result does not fit 64 bits.
pub(crate) fn granules(num_keys: u64, millibits: u64, granule_bits: u64) -> Option<u64> {
    let millibits_wanted = u128::from(num_keys) * u128::from(millibits);
    u64::try_from(millibits_wanted.div_ceil(u128::from(granule_bits) * 1000).max(1)).ok()
}

/// Returns the thousandths of a bit per key that `bits` bits give to `num_keys` keys, rounded down
/// and at most `u64::MAX`. Zero keys count as one key.
pub(crate) fn millibits_per_key(bits: u64, num_keys: u64) -> u64 {
    u64::try_from(u128::from(bits) * 1000 / u128::from(num_keys.max(1))).unwrap_or(u64::MAX)
}

/// Returns the expected FPR of a standard Bloom filter, for absent keys whose hashes differ from
/// the hashes of all present keys. The result is 0 without keys or bits.
pub fn bloom_rate(num_keys: u64, bits: u64, probes: u32) -> f64 {
    if num_keys == 0 || bits == 0 {
        return 0.0;
    }
    let throws = num_keys.saturating_mul(u64::from(probes));
    if throws <= EXACT_BELOW_THROWS {
        let mut coverage = Coverage::new(bits, probes);
        coverage.throw(throws);
        return coverage.rate();
    }
    // ln_1p keeps the digits that 1 - 1/m loses for a large m.
    let empty_share = (throws as f64 * (-1.0 / bits as f64).ln_1p()).exp();
    (1.0 - empty_share).powi(probes.cast_signed())
}

/// Returns the expected FPR of a Bloom filter of 512-bit lines, with each key in one of `lines`
/// lines. The result is 0 without keys or lines.
pub(crate) fn blocked_bloom_rate(num_keys: u64, lines: u64, probes: u32) -> f64 {
    if num_keys == 0 || lines == 0 {
        return 0.0;
    }
    let mut coverage = Coverage::new(LINE_BITS, probes);
    let mut thrown = 0;
    average_over_lines(num_keys, lines, |keys| {
        let throws = keys.saturating_mul(u64::from(probes));
        coverage.throw(throws - thrown);
        thrown = throws;
        either(coverage.rate(), equal_fold(keys, lines))
    })
}

/// Returns the FPR of a filter of `num_keys` keys that answers "maybe" for a share `rate` of the
/// hashes that no present key has.
///
/// A filter of 64-bit hashes cannot distinguish keys with the same hash. One absent key in
/// `2^64 / num_keys` has the hash of a present key.
pub fn with_equal_hashes(rate: f64, num_keys: u64) -> f64 {
    either(rate, equal_hash(num_keys))
}

/// Returns the probability that an absent key has the 64-bit hash of one of `num_keys` keys. No
/// filter of 64-bit hashes has a lower FPR.
pub fn equal_hash(num_keys: u64) -> f64 {
    at_least_one(num_keys, (-64f64).exp2())
}

/// Returns the probability that an absent key has the same fold as one of the `keys` keys in its
/// line. The filter has `lines` lines.
///
/// The line number and the fold together use at most 64 bits of the hash. With `2^32` lines or
/// more, a line has at most `2^32` different hashes, so the function counts only equal hashes.
fn equal_fold(keys: u64, lines: u64) -> f64 {
    at_least_one(keys, (-32f64).exp2().max(lines as f64 * (-64f64).exp2()))
}

/// Returns `1 - (1 - p)^n`, without loss of digits for a tiny `p`.
fn at_least_one(n: u64, p: f64) -> f64 {
    -(n as f64 * (-p).ln_1p()).exp_m1()
}

/// Returns the probability that at least one of two independent events happens.
fn either(one: f64, other: f64) -> f64 {
    one + (1.0 - one) * other
}

/// Returns the expected FPR of a split-block Bloom filter, with each key in one of `blocks` blocks.
/// A key sets one bit in each of [`LANES`] lanes of `lane_bits` bits. The result is 0 without keys
/// or blocks.
pub(crate) fn split_block_rate(num_keys: u64, blocks: u64, lane_bits: u32) -> f64 {
    if num_keys == 0 || blocks == 0 {
        return 0.0;
    }
    let ln_other_bit = (-1.0 / f64::from(lane_bits)).ln_1p();
    average_over_lines(num_keys, blocks, |keys| {
        // exp_m1 is negative or 0 here; the even power removes the sign.
        let covered = (keys as f64 * ln_other_bit).exp_m1().powi(LANES.cast_signed());
        either(covered, equal_fold(keys, blocks))
    })
}

/// Returns the expected value of `rate(n)`, where `n` is the number of keys in one line when
/// `num_keys` keys are hashed to `lines` lines.
///
/// The function calls `rate` with ascending numbers of keys.
fn average_over_lines(num_keys: u64, lines: u64, mut rate: impl FnMut(u64) -> f64) -> f64 {
    if lines == 1 {
        return rate(num_keys);
    }
    // The number of keys in a line is binomially distributed. The weights follow the recurrence
    // p(i+1) / p(i), starting from 1 for the first number, and are normalised at the end. The
    // weight of the mode is at most 10^120, so no weight overflows.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= first <= n")]
    let mut rate = |keys: f64| rate(keys as u64);
    let (n, odds) = (num_keys as f64, 1.0 / (lines as f64 - 1.0));
    let mean = n / lines as f64;
    // On both sides of the mean, the range reaches at least twelve standard deviations plus 24
    // keys, or ends at 0 or `n`. The rest has a weight below 1e-20.
    let reach = 12.0 * mean.sqrt() + 24.0;
    let first = (mean - reach).max(0.0).floor();
    let last = (mean + reach).min(n).floor();
    let (mut i, mut weight) = (first, 1.0);
    let (mut sum, mut total) = (0.0, 0.0);
    while i <= last {
        sum += weight * rate(i);
        total += weight;
        weight *= (n - i) / (i + 1.0) * odds;
        i += 1.0;
    }
    sum / total
}

/// Estimates the number of distinct keys that set `set_bits` of `bits` bits with `probes` probes
/// each (Swamidass and Baldi, "Mathematical correction for fingerprint similarity measures", 2007).
/// The result is 0 without bits or probes.
pub fn estimated_keys(set_bits: u64, bits: u64, probes: u32) -> f64 {
    if bits == 0 || probes == 0 {
        return 0.0;
    }
    let m = bits as f64;
    // If all bits are set, the estimate would be infinite. The function then assumes that one bit
    // is zero.
    let fill = (set_bits as f64 / m).min(1.0 - 1.0 / m);
    -m / f64::from(probes) * (-fill).ln_1p()
}

/// Returns [`estimated_keys`] rounded up to a whole number. With at least one probe and two bits,
/// the result is 0 only if no bit is set.
pub fn whole_keys(set_bits: u64, bits: u64, probes: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let keys = estimated_keys(set_bits, bits, probes).ceil() as u64;
    keys
}

/// Returns the smallest number of thousandths of a bit per key in `range` at which `rate_at` is at
/// most `rate`. Returns `None` if `range` has no such number. `rate_at` must not rise with the
/// number of bits.
pub(crate) fn least_millibits(
    rate: f64,
    range: std::ops::RangeInclusive<u32>,
    rate_at: impl Fn(u32) -> f64,
) -> Option<u32> {
    let (mut low, mut high) = (*range.start(), *range.end());
    if rate_at(high) > rate {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if rate_at(middle) <= rate {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// Returns `(1 - (1 - 1/m)^(kn))^k` for `n = num_keys`, `m = num_bits` and `k = probes`. This would
/// be the FPR if the bits of a query were independent.
///
/// Without probes, the result is 1. Otherwise, the result is 0 without keys. With keys but without
/// bits, the result is 1.
#[must_use]
pub fn classical_fpr(num_keys: u64, num_bits: u64, probes: u32) -> f64 {
    let throws = num_keys as f64 * f64::from(probes);
    // ln_1p keeps the digits that 1 - 1/m loses for a large m. `max(-1.0)` treats zero bits as one
    // bit.
    raised(throws, (-1.0 / num_bits as f64).max(-1.0).ln_1p(), probes)
}

/// Returns `(1 - e^(throws * ln_other))^probes`, where `ln_other` is the logarithm of the
/// probability that a throw does not hit a given bit.
pub(crate) fn raised(throws: f64, ln_other: f64, probes: u32) -> f64 {
    // Without keys no bit is set, even if `ln_other` is infinite.
    let set_share = if throws == 0.0 { 0.0 } else { -(throws * ln_other).exp_m1() };
    set_share.powi(probes.cast_signed())
}

/// Returns the smallest number of ribbon columns whose FPR is at most `wanted`, and the FPR of
/// these columns. The number is limited to `most`. Each column halves the FPR.
pub(super) fn columns_of_rate(wanted: f64, most: u32) -> (u32, f64) {
    // Halving is exact, so every platform chooses the same number; a logarithm is not exact.
    let (mut columns, mut rate) = (1, 0.5);
    for _ in 1..most {
        if rate <= wanted {
            break;
        }
        (columns, rate) = (columns + 1, rate / 2.0);
    }
    (columns, rate)
}

/// Computes the probability that random throws set all the bits that a query tests.
///
/// `covered[r]` is the probability that `r` given bits are all set after the throws so far. One
/// more throw hits one of the `r` bits with probability `r / bits`, which leaves `r - 1` bits to
/// cover. No term is negative, so no digits are lost. The closed form has alternating signs and
/// loses digits.
struct Coverage {
    bits: f64,
    covered: [f64; MAX_BLOOM_PROBES as usize + 1],
    /// `distinct[j]` is the probability that the query's draws hit exactly `j` distinct bits.
    distinct: [f64; MAX_BLOOM_PROBES as usize + 1],
}

impl Coverage {
    fn new(bits: u64, probes: u32) -> Self {
        let bits = bits as f64;
        let mut covered = [0.0; MAX_BLOOM_PROBES as usize + 1];
        let mut distinct = covered;
        // Before the first draw, 0 distinct bits are drawn, and all of them are covered.
        (covered[0], distinct[0]) = (1.0, 1.0);
        for _ in 0..probes {
            let mut fewer = 0.0;
            for (j, share) in distinct.iter_mut().enumerate() {
                let same = *share;
                *share = same * j as f64 / bits + fewer * ((bits + 1.0 - j as f64) / bits).max(0.0);
                fewer = same;
            }
        }
        Self { bits, covered, distinct }
    }

    fn throw(&mut self, throws: u64) {
        for _ in 0..throws {
            let mut fewer = 0.0;
            for (r, probability) in self.covered.iter_mut().enumerate() {
                let hit = (r as f64 / self.bits).min(1.0);
                let same = *probability;
                *probability = if r == 0 { 1.0 } else { same * (1.0 - hit) + fewer * hit };
                fewer = same;
            }
        }
    }

    fn rate(&self) -> f64 {
        self.covered.iter().zip(&self.distinct).map(|(covered, share)| covered * share).sum()
    }
}

const LINE_LEN_BYTES: u64 = 64;

/// Returns the number of cache lines of a payload. A query reads at most this number.
pub(super) fn lines_of(len_bytes: u64) -> f64 {
    len_bytes.div_ceil(LINE_LEN_BYTES) as f64
}

/// Returns the mean number of cache lines that scattered probes read in a payload of `len_bytes`.
/// The first element is for an absent key, the second for a present key. A query of an absent key
/// stops at the first zero bit. `fill` is the fill ratio, the share of bits that are set.
pub fn scattered_lines(fill: f64, len_bytes: u64, probes: u32) -> [f64; 2] {
    // Probe i reads a new line with probability other_line^i: none of the i probes before it read
    // that line.
    let other_line = 1.0 - 1.0 / len_bytes.div_ceil(LINE_LEN_BYTES).max(1) as f64;
    let sum = |ratio: f64| (0..probes).map(|i| ratio.powi(i.cast_signed())).sum();
    [sum(fill * other_line), sum(other_line)]
}

/// Returns the mean number of cache lines that two neighbouring blocks occupy. A block has one word
/// for each column.
pub(super) fn pair_lines(columns: f64, word_len_bytes: u64) -> f64 {
    let of = |columns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 32 columns")]
        let len = columns as u64 * word_len_bytes;
        let lines = |i: u64| (i * len % LINE_LEN_BYTES + 2 * len).div_ceil(LINE_LEN_BYTES);
        (0..LINE_LEN_BYTES).map(lines).sum::<u64>() as f64 / LINE_LEN_BYTES as f64
    };
    // If the number of columns is not whole, some blocks have one column less than the others.
    let (fewer, share) = (columns.floor(), columns.fract());
    of(fewer) * (1.0 - share) + of(fewer + 1.0) * share
}

/// Returns the mean number of cache lines that a query of a bumped ribbon loads from two
/// neighbouring blocks of one group of columns. Without columns, the number is 0.
///
/// A block has one word of 8 bytes per column, and a group has at most eight columns. The query
/// loads 64 bytes from the start of each block, even if the block is shorter.
pub(super) fn loaded_pair_lines(columns: f64) -> f64 {
    if columns <= 0.0 {
        return 0.0;
    }
    let of = |columns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 8 columns")]
        let len = columns as u64 * 8;
        let lines = |i: u64| (i * len % LINE_LEN_BYTES + len + LINE_LEN_BYTES).div_ceil(LINE_LEN_BYTES);
        (0..LINE_LEN_BYTES).map(lines).sum::<u64>() as f64 / LINE_LEN_BYTES as f64
    };
    // If the number of columns is not whole, some blocks have one column less than the others.
    let (fewer, share) = (columns.floor(), columns.fract());
    of(fewer) * (1.0 - share) + of(fewer + 1.0) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the FPR of an infinitely large filter.
    fn asymptotic_bloom(millibits: u32, probes: u32) -> f64 {
        let bits_per_key = f64::from(millibits) / 1000.0;
        (1.0 - (-f64::from(probes) / bits_per_key).exp()).powi(probes.cast_signed())
    }

    fn large_blocked(millibits: u32, probes: u32) -> f64 {
        blocked_bloom_rate(512_000_000, u64::from(millibits) * 1000, probes)
    }

    fn assert_steps(steps: &[u32], rate: impl Fn(u32, u32) -> f64) {
        for (i, &step) in steps.iter().enumerate() {
            let k = u32::try_from(i).unwrap() + 1;
            assert!(rate(step, k + 1) <= rate(step, k), "from {step} on, {} probes", k + 1);
            assert!(rate(step - 1, k + 1) > rate(step - 1, k), "below {step}, {k} probes");
        }
    }

    #[test]
    fn probe_counts_change_exactly_where_their_fprs_cross() {
        assert_steps(&BLOOM_PROBE_STEPS, asymptotic_bloom);
        assert_steps(&LINE_PROBE_STEPS, large_blocked);
    }

    #[test]
    fn formulas_reproduce_published_fprs() {
        // Bits per key, probes and FPR come from the optimal-k table in Broder and Mitzenmacher's
        // survey.
        for (bits, probes, rate) in
            [(2, 1, 0.3935), (4, 3, 0.1469), (6, 4, 0.0561), (8, 6, 0.02158), (10, 7, 0.008194), (16, 11, 4.587e-4)]
        {
            assert_eq!(bloom_probes(bits * 1000), probes);
            let found = bloom_rate(1_000_000, bits * 1_000_000, probes);
            assert!((found / rate - 1.0).abs() < 1e-3, "{bits} bits: {found} for {rate}");
        }
        // A prototype with the same geometry measured 0.967 % over twenty million queries.
        let line = blocked_bloom_rate(1_000_000, 19_532, 6);
        assert!((line - 0.00967).abs() < 0.00001, "{line}");
        // The FPRs of split blocks come from the formula of Putze et al. with a Poisson load.
        for (lane_bits, rates) in [
            (32, [(8, 0.03321), (10, 0.01265), (12, 0.00542), (16, 0.001316)]),
            (64, [(8, 0.02931), (10, 0.01049), (12, 0.004222), (16, 0.000909)]),
        ] {
            for (bits, rate) in rates {
                let found = split_block_rate(1_000_000, bits * 1_000_000 / (8 * u64::from(lane_bits)), lane_bits);
                assert!((found / rate - 1.0).abs() < 1e-3, "{bits} bits in lanes of {lane_bits}: {found} for {rate}");
            }
        }
    }

    #[test]
    fn formulas_give_zero_without_keys_or_without_bits() {
        for (keys, size) in [(0, 0), (0, 8), (9, 0)] {
            assert_eq!(bloom_rate(keys, size, 7), 0.0);
            assert_eq!(blocked_bloom_rate(keys, size, 7), 0.0);
            assert_eq!(split_block_rate(keys, size, 32), 0.0);
            assert_eq!(estimated_keys(keys, size, 7), 0.0);
        }
        assert_eq!(estimated_keys(9, 64, 0), 0.0);
    }

    #[test]
    fn the_average_over_lines_omits_nothing_that_matters() {
        // With these numbers of keys and lines, no weight underflows although the series starts
        // with zero keys.
        for (keys, lines) in [(40, 3u32), (300, 3), (2_000, 6), (3_000, 60), (100, 9_000)] {
            let (n, p) = (keys as f64, 1.0 / f64::from(lines));
            for rate in [|keys: f64| keys, |keys: f64| keys * keys, |keys: f64| (-keys / 9.0).exp()] {
                let (mut weight, mut expected) = ((1.0 - p).powf(n), 0.0);
                for i in 0..=keys {
                    expected += weight * rate(i as f64);
                    weight *= (n - i as f64) / (i as f64 + 1.0) * p / (1.0 - p);
                }
                let found = average_over_lines(keys, lines.into(), |keys| rate(keys as f64));
                assert!((found / expected - 1.0).abs() < 1e-9, "{keys} keys, {lines} lines: {found} for {expected}");
            }
        }
    }

    #[test]
    fn equal_folds_count_in_the_fpr_of_a_large_split_block() {
        // At 100 bits per key, a block has 2.56 keys on average. An absent key is a false positive
        // if all eight lanes match by chance, or if its fold equals the fold of a key of the block.
        // Equal folds have a probability of 2^-32 per key.
        let poisson = |rate: &dyn Fn(f64) -> f64| {
            let (mut weight, mut sum) = ((-2.56f64).exp(), 0.0);
            for keys in 0..60 {
                sum += weight * rate(f64::from(keys));
                weight *= 2.56 / f64::from(keys + 1);
            }
            sum
        };
        let lanes = poisson(&|keys| (1.0 - (31.0f64 / 32.0).powf(keys)).powi(8));
        let equal = poisson(&|keys| keys / 4_294_967_296.0);
        let found = split_block_rate(2_560_000_000, 1_000_000_000, 32);
        assert!((found / (lanes + equal) - 1.0).abs() < 1e-4, "{found} for {lanes} and {equal}");
        // A key that is a false positive for both reasons does not count twice.
        assert_eq!(split_block_rate(1 << 32, 1, 32), 1.0);
    }

    #[test]
    fn least_millibits_finds_the_smallest_sufficient_budget() {
        let rate_at = |millibits: u32| 1.0 / f64::from(millibits);
        assert_eq!(least_millibits(0.25, 1..=4, rate_at), Some(4));
        assert_eq!(least_millibits(0.2499, 1..=4, rate_at), None);
        assert_eq!(least_millibits(1.0, 1..=4, rate_at), Some(1));
        for millibits in 1..=100 {
            assert_eq!(least_millibits(rate_at(millibits), 1..=100, rate_at), Some(millibits));
        }
    }

    #[test]
    fn columns_of_rate_returns_the_fewest_columns() {
        for (wanted, columns) in
            [(0.9, 1), (0.5, 1), (0.499, 2), (0.25, 2), (1e-9, 30), (2f64.powi(-32), 32), (1e-20, 32)]
        {
            assert_eq!(columns_of_rate(wanted, 32), (columns, 2f64.powf(-f64::from(columns))), "{wanted}");
        }
    }

    #[test]
    fn classical_fprs_of_tiny_filters_agree_with_counting() {
        // With one key, one probe and m bits, the query hits with probability 1/m. With two probes
        // and m = 2, the key sets one bit or both, with probability 1/2 each. A query of two draws
        // is then covered with probability 1/4 or 1.
        assert!((bloom_rate(1, 64, 1) - 1.0 / 64.0).abs() < 1e-15);
        assert!((bloom_rate(1, 2, 2) - 0.5 * (0.25 + 1.0)).abs() < 1e-15);
    }

    #[test]
    fn exact_and_textbook_fprs_meet_where_the_formula_changes() {
        for probes in [1, 7, 16, 30] {
            let keys = EXACT_BELOW_THROWS / u64::from(probes);
            let bits = keys * 10;
            let (exact, textbook) = (bloom_rate(keys, bits, probes), bloom_rate(keys + 1, bits, probes));
            assert!((exact / textbook - 1.0).abs() < 0.02, "{probes} probes: {exact} {textbook}");
        }
    }

    #[test]
    fn sizes_do_not_overflow_at_the_documented_limits() {
        assert_eq!(granules(1 << 36, 100_000, 512), Some((1u64 << 36) * 100 / 512));
        assert_eq!(granules(u64::MAX, 100_000, 8), None);
        assert_eq!(granules(0, 10_000, 512), Some(1));
        assert_eq!(millibits_per_key(512, 0), 512_000);
    }

    #[test]
    fn the_number_of_keys_is_estimated_from_the_fill_ratio() {
        // 503,415 is 1 - e^-0.7 of a million bits.
        assert!((estimated_keys(503_415, 1_000_000, 7) / 100_000.0 - 1.0).abs() < 1e-4);
        assert!(estimated_keys(64, 64, 3).is_finite());
    }
}
