//! The standard Bloom filter (Bloom 1970): `k` bits anywhere in `m`.
//!
//! The i-th bit of a key is `reduce(x_i, m)` with `x_0` the key's hash and `x_(i+1) = mix(x_i)`, an invertible step,
//! so that the probes of one key are as good as independent. Plain double hashing (`h1 + i h2`) is cheaper and is
//! rejected: at ten bits a key it raises the rate from 0.82 % to about 1.1 % when `h2` is short, and it degenerates
//! when `h2` is zero. Bit `i` is bit `i % 8` of byte `i / 8`.

use super::guard::Guard;
use crate::hash::{KeyHash, reduce};

/// An odd 64-bit constant without a pattern: the 1st output of SplitMix64 seeded with
/// 0xf117e7b10c5 ("filterblocks"), forced odd.
const STEP: u64 = 0x7f7c_8f42_bca8_eb67;

#[inline]
fn mix(x: u64) -> u64 {
    // The multiplication carries low bits up, the shift brings high bits down; reduce() looks at the high ones.
    (x ^ (x >> 32)).wrapping_mul(STEP)
}

/// As many 64-bit numbers as are wanted of a hash, the first of which is the hash itself.
pub(crate) fn mixed(hash: KeyHash) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(hash.raw()), |&x| Some(mix(x)))
}

/// The bits of a key in a filter of `bits` bits.
pub(crate) fn positions(hash: KeyHash, bits: u64, probes: u32) -> impl Iterator<Item = u64> {
    mixed(hash).map(move |x| reduce(x, bits)).take(probes as usize)
}

/// Sets the bits of every hash. `payload` holds `bits` bits, zero at first.
#[expect(clippy::indexing_slicing, reason = "a position is below the bits of a slice")]
pub(super) fn fill(payload: &mut [u8], probes: u32, hashes: &[KeyHash]) {
    let bits = payload.len() as u64 * 8;
    for &hash in hashes {
        for position in positions(hash, bits, probes) {
            payload[(position / 8) as usize] |= 1 << (position % 8);
        }
    }
}

/// Whether all bits of a key are set. A byte that is not sound counts as set.
#[inline]
pub(super) fn may_contain(payload: &[u8], probes: u32, hash: KeyHash, guard: &impl Guard) -> bool {
    let bits = payload.len() as u64 * 8;
    let mut x = hash.raw();
    for _ in 0..probes {
        let position = reduce(x, bits);
        // The position is below the number of bits, which a slice can hold: the cast is exact and the byte exists.
        let index = (position / 8) as usize;
        let byte = payload.get(index).copied().unwrap_or(u8::MAX);
        if byte >> (position % 8) & 1 == 0 && guard.sound(index, 1) {
            return false;
        }
        x = mix(x);
    }
    true
}

/// The byte that a query of `hash` reads first.
#[inline]
pub(super) fn first_byte(payload: &[u8], hash: KeyHash) -> u64 {
    reduce(hash.raw(), payload.len() as u64 * 8) / 8
}
