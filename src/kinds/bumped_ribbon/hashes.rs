//! What is made of a key's hash: coefficients, a fingerprint, and another hash for the next layer.

/// Odd; the 19th to 23rd output of the generator that [`super::super::bloom`] names.
pub(super) const COEFFICIENTS: u64 = 0xac1d_5cfa_b383_b27d;
pub(super) const FINGERPRINT: u64 = 0x617b_687c_63d8_2f4f;
pub(super) const REMIX: [u64; 2] = [0xd8cc_2380_229f_6d29, 0x775a_8a56_00d9_67e1];
const SEED: u64 = 0xfc40_143e_3017_c50d;

/// Which of the 64 slots from the start on take part; the first always does.
#[inline(always)]
pub(super) fn coefficients(hash: u64) -> u64 {
    let product = hash.wrapping_mul(COEFFICIENTS);
    // A product's low bits depend on few bits of the hash, its high bits on all.
    (product ^ (product >> 32)) | 1
}

/// What the slots must add up to; the first column is the highest bit of the lowest byte's place in
/// [`column_group`].
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u32 {
    // Not a linear function of the coefficients: then the equations of all keys, absent ones too, would hold at once.
    ((hash ^ (hash >> 32)).wrapping_mul(FINGERPRINT) >> 32) as u32
}

/// The bits of a fingerprint that belong to the eight columns of a group.
#[inline(always)]
pub(super) fn column_group(fingerprint: u32, group: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "0 to 3: there are 32 columns at most")]
    let group = group as u32;
    fingerprint >> (24 - 8 * group) & 0xff
}

/// A hash for the next layer, as good as the last one; different hashes stay different.
#[inline]
pub(super) fn remix(hash: u64) -> u64 {
    let product = hash.wrapping_mul(REMIX[0]);
    let product = (product ^ (product >> 32)).wrapping_mul(REMIX[1]);
    product ^ (product >> 29)
}

/// The hash that [`remix`] made this one of.
#[inline]
pub(super) fn unremix(remixed: u64) -> u64 {
    const INVERSE: [u64; 2] = [inverse(REMIX[0]), inverse(REMIX[1])];
    let product = (remixed ^ (remixed >> 29) ^ (remixed >> 58)).wrapping_mul(INVERSE[1]);
    (product ^ (product >> 32)).wrapping_mul(INVERSE[0])
}

/// What an odd number must be multiplied by to give 1.
pub(super) const fn inverse(odd: u64) -> u64 {
    // Right in three bits, as odd squares are 1 modulo 8; each round doubles the bits that are right.
    let mut inverse = odd;
    while odd.wrapping_mul(inverse) != 1 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

/// A hash under one of the seeds that a single system tries.
#[inline]
pub(super) fn seeded(hash: u64, seed: u8) -> u64 {
    remix(hash ^ u64::from(seed).wrapping_mul(SEED))
}
