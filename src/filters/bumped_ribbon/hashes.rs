//! Derives values from a key's hash: coefficients, a fingerprint, and other hashes for the next
//! layer and for a single system.

/// Multipliers: outputs 19 to 23 of the generator that [`super::super::bloom`] names, made odd.
pub(super) const COEFFICIENTS: u64 = 0xac1d_5cfa_b383_b27d;
pub(super) const FINGERPRINT: u64 = 0x617b_687c_63d8_2f4f;
pub(super) const REMIX: [u64; 2] = [0xd8cc_2380_229f_6d29, 0x775a_8a56_00d9_67e1];
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
pub(super) const fn inverse(odd: u64) -> u64 {
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
