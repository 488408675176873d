//! Derives values from a key's hash: coefficients, a fingerprint, the equation of both, and other hashes
//! for the next layer and for a single system.

use super::{GROUP_COLUMNS, MAX_COLUMNS};

/// Multipliers: outputs 19 to 23 of the generator that [`super::super::bloom`] names, made odd.
const COEFFICIENTS: u64 = 0xac1d_5cfa_b383_b27d;
const FINGERPRINT: u64 = 0x617b_687c_63d8_2f4f;
const REMIX: [u64; 2] = [0xd8cc_2380_229f_6d29, 0x775a_8a56_00d9_67e1];
const SEED: u64 = 0xfc40_143e_3017_c50d;

/// Returns which of the 64 slots from the start on are used. The first slot always is.
#[inline(always)]
pub(super) fn coefficients(hash: u64) -> u64 {
    let product = hash.wrapping_mul(COEFFICIENTS);
    // The low bits of a product depend on few bits of the hash, and the high bits on all.
    (product ^ (product >> 32)) | 1
}

/// Returns the value that the XOR of the slots must have. The first column is the lowest bit of the
/// highest byte: see [`column_group`].
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u32 {
    // The fingerprint must not be a linear function of the coefficients. Otherwise the equations of
    // absent keys would follow from those of present keys, and would hold too.
    ((hash ^ (hash >> 32)).wrapping_mul(FINGERPRINT) >> 32) as u32
}

/// Returns the bits of a fingerprint that belong to the eight columns of a group.
#[inline(always)]
pub(super) fn column_group(fingerprint: u32, group: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "0 to 3: there are 32 columns at most")]
    let group = group as u32;
    fingerprint >> (24 - 8 * group) & 0xff
}

/// Returns the hash of the key for the next layer. Different hashes stay different.
#[inline]
pub(super) fn remix(hash: u64) -> u64 {
    let product = hash.wrapping_mul(REMIX[0]);
    let product = (product ^ (product >> 32)).wrapping_mul(REMIX[1]);
    product ^ (product >> 29)
}

/// Returns the hash from which [`remix`] made this hash.
#[inline]
pub(super) fn unremix(remixed: u64) -> u64 {
    const INVERSE: [u64; 2] = [inverse(REMIX[0]), inverse(REMIX[1])];
    let product = (remixed ^ (remixed >> 29) ^ (remixed >> 58)).wrapping_mul(INVERSE[1]);
    (product ^ (product >> 32)).wrapping_mul(INVERSE[0])
}

/// Returns the inverse of an odd number for multiplication modulo 2^64.
const fn inverse(odd: u64) -> u64 {
    // The start value is right in three bits, because the square of an odd number is 1 modulo 8.
    // Each round doubles the number of right bits.
    let mut inverse = odd;
    while odd.wrapping_mul(inverse) != 1 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

/// Returns the hash of the key for a single system with this seed.
#[inline]
pub(super) fn seeded(hash: u64, seed: u8) -> u64 {
    remix(hash ^ u64::from(seed).wrapping_mul(SEED))
}

pub(super) const MAX_GROUPS: usize = (MAX_COLUMNS / GROUP_COLUMNS) as usize;

/// The equation of a key within a layer or a single system: the XOR of the slots that the
/// coefficients select must be `sum`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Equation {
    pub(super) start: usize,
    pub(super) coefficients: u64,
    pub(super) sum: u32,
}

impl Equation {
    #[inline(always)]
    pub(super) fn new(start: usize, hash: u64) -> Self {
        Self { start, coefficients: coefficients(hash), sum: fingerprint(hash) }
    }

    /// Returns the coefficients of the slots in the block of the start, and in the next block.
    #[inline(always)]
    pub(super) fn split(&self) -> (u64, u64) {
        // Both operations use the start modulo 64. The shift drops the bits that cross into the
        // next block, and the rotation moves them to the low end. The XOR of the two results leaves
        // only these bits.
        #[expect(clippy::cast_possible_truncation, reason = "only the start modulo 64 counts")]
        let shift = self.start as u32;
        let low = self.coefficients.wrapping_shl(shift);
        (low, self.coefficients.rotate_left(shift % u64::BITS) ^ low)
    }
}

/// Tests the constants: start, coefficients and fingerprint must look random, each alone and together.
#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the tests use the low bits")]
mod tests {
    use super::*;
    use crate::filters::statistics::{
        MOST, MOST_OF_RANKS, avalanche, bits, hash_families, independence, ranks, raw_families,
    };

    /// Returns the values derived from a hash: 64 coefficients and, above them, 32 bits of a
    /// fingerprint. The first coefficient is always 1.
    fn equation(hash: u64) -> u128 {
        u128::from(coefficients(hash)) | u128::from(fingerprint(hash)) << 64
    }

    /// Returns five statistics of hashes and their equations: balance of bits; correlation of two bits;
    /// dependence between start, coefficients and fingerprint; rank of the coefficients of 64
    /// neighbours; rank of the equations of 96 neighbours.
    fn statistics(hashes: &[u64], equation: impl Fn(u64) -> u128) -> [f64; 5] {
        let equations = || hashes.iter().map(|&hash| equation(hash));
        let (balance, correlation) = bits(equations().map(|equation| equation >> 1), 95);
        // The values are compared four bits at a time. The 32 high bits of a hash choose the start. The
        // first four coefficients are left out, because one of them is constant.
        let four = |from: u32| move |bits: u128| (bits >> from) as u64;
        let mut dependence: f64 = 0.0;
        for own in (4..96).step_by(4).map(four) {
            for of_start in (32..64).step_by(4).map(four) {
                let pairs = hashes.iter().map(|&hash| (own(equation(hash)), of_start(hash.into())));
                dependence = dependence.max(independence(pairs));
            }
        }
        for own in (4..64).step_by(4).map(four) {
            for of_print in (64..96).step_by(4).map(four) {
                dependence =
                    dependence.max(independence(equations().map(|equation| (own(equation), of_print(equation)))));
            }
        }
        let mut sorted = hashes.to_vec();
        sorted.sort_unstable();
        let coefficients = ranks(sorted.iter().map(|&hash| u128::from(equation(hash) as u64)), 64);
        let both = ranks(sorted.iter().map(|&hash| equation(hash)), 96);
        [balance, correlation, dependence, coefficients, both]
    }

    fn assert_good(name: &str, hashes: &[u64]) {
        let found = statistics(hashes, equation);
        println!("{name}: {found:.1?}");
        let [balance, correlation, dependence, coefficients, both] = found;
        assert!(balance < MOST && correlation < MOST && dependence < MOST, "{name}: {found:?}");
        assert!(coefficients < MOST_OF_RANKS && both < MOST_OF_RANKS, "{name}: {found:?}");
    }

    #[test]
    fn real_and_remixed_hashes_of_later_layers_give_good_equations() {
        for (name, hashes) in hash_families() {
            assert_good(name, &hashes);
            let once: Vec<u64> = hashes.iter().map(|&hash| remix(hash)).collect();
            assert_good(&format!("{name}, second layer"), &once);
            let twice: Vec<u64> = once.iter().map(|&hash| remix(hash)).collect();
            assert_good(&format!("{name}, third layer"), &twice);
            let seeded: Vec<u64> = hashes.iter().map(|&hash| seeded(hash, 5)).collect();
            assert_good(&format!("{name}, seed 5"), &seeded);
        }
    }

    #[test]
    fn remixed_numbers_give_good_equations() {
        for (name, numbers) in raw_families() {
            let remixed: Vec<u64> = numbers.iter().map(|&number| remix(number)).collect();
            assert_good(name, &remixed);
        }
    }

    #[test]
    fn bumped_keys_are_independent_in_the_next_layer() {
        for (name, hashes) in hash_families() {
            // There are 2^23 starts. Keys with one of the first 15 of every 128 starts count as bumped.
            let bumped: Vec<u64> = hashes.into_iter().filter(|hash| hash >> 41 & 127 < 15).collect();
            let next: Vec<u64> = bumped.iter().map(|&hash| remix(hash)).collect();
            assert_good(name, &next);
            // Compares the old equation with the new start, four bits at a time.
            for (from, to) in (4..96).step_by(4).flat_map(|from| (32..64).step_by(4).map(move |to| (from, to))) {
                let pairs = bumped.iter().zip(&next).map(|(&hash, next)| ((equation(hash) >> from) as u64, next >> to));
                let found = independence(pairs);
                assert!(found < MOST, "{name}, bits {from} and {to}: {found}");
            }
        }
    }

    #[test]
    fn every_bit_flips_each_remixed_bit_half_the_time() {
        for (name, hashes) in hash_families() {
            let sample = hashes.get(..1 << 13).unwrap();
            let most_off = MOST * 0.5 / (sample.len() as f64).sqrt();
            let within = |(least, most): (f64, f64)| least > 0.5 - most_off && most < 0.5 + most_off;
            let of_equation = avalanche(sample, 0..64, 1..96, |hash| equation(remix(hash)));
            assert!(within(of_equation), "{name}, equations: {of_equation:?}");
            // The highest bits of a hash change only a few bits of the remixed hash itself. So bits 32
            // to 63 are tested only with equations.
            let of_hash = avalanche(sample, 0..32, 0..64, |hash| remix(hash).into());
            assert!(within(of_hash), "{name}, hashes: {of_hash:?}");
            // In the first layer, two keys with the same start differ in low bits. Each such bit
            // changes any bit of the equation often enough.
            let of_first = avalanche(sample, 0..32, 1..96, equation);
            assert!(of_first.0 > 0.02 && of_first.1 < 0.99, "{name}, first layer: {of_first:?}");
        }
    }

    #[test]
    fn inverses_undo_multiplications() {
        for odd in REMIX.into_iter().chain([1, 3, u64::MAX, 0x5555_5555_5555_5555]) {
            assert_eq!(inverse(odd).wrapping_mul(odd), 1, "{odd:x}");
        }
    }

    #[test]
    fn remixing_can_be_undone() {
        for (_, hashes) in hash_families().into_iter().chain(raw_families()) {
            assert!(hashes.iter().all(|&hash| unremix(remix(hash)) == hash));
        }
        assert_eq!([0, u64::MAX].map(|hash| unremix(remix(hash))), [0, u64::MAX]);
    }

    #[test]
    fn bad_constants_fail_the_statistics() {
        let [(_, hashes), ..] = hash_families();
        let with = |coefficients: u64, print: u64| {
            move |hash: u64| {
                let product = hash.wrapping_mul(coefficients);
                let sum = (hash ^ (hash >> 32)).wrapping_mul(print) >> 32;
                u128::from((product ^ (product >> 32)) | 1) | u128::from(sum) << 64
            }
        };
        // The order is: balance and correlation, dependence, ranks of coefficients, ranks of equations.
        let is_bad = |[balance, correlation, dependence, coefficients, both]: [f64; 5]| {
            [balance.max(correlation) > MOST, dependence > MOST, coefficients > MOST_OF_RANKS, both > MOST_OF_RANKS]
        };
        // With few ones in the multiplier, the high coefficients are bits of the start.
        let few_ones = statistics(&hashes, with(0x0001_0000_0000_0001, FINGERPRINT));
        assert_eq!(is_bad(few_ones), [false, true, true, true], "{few_ones:?}");
        let hardly_multiplied = statistics(&hashes, with(COEFFICIENTS, 1));
        assert_eq!(is_bad(hardly_multiplied), [false, true, false, true], "{hardly_multiplied:?}");
        // The fingerprint is a linear function of the coefficients here. Each value looks random, but
        // the equations of absent keys follow from the equations of present keys.
        let linear = statistics(&hashes, |hash| {
            let all = coefficients(hash);
            u128::from(all) | u128::from((all >> 7 ^ all >> 31 ^ all >> 32) as u32) << 64
        });
        assert_eq!(is_bad(linear), [false, false, false, true], "{linear:?}");
        // Here, remixing has one round instead of two.
        let [_, _, (_, numbers)] = raw_families();
        let once: Vec<u64> =
            numbers.iter().map(|&number| number.wrapping_mul(REMIX[0])).map(|x| x ^ (x >> 32)).collect();
        let once = statistics(&once, equation);
        assert_eq!(is_bad(once), [true, true, true, true], "{once:?}");
    }
}
