//! Computes the 32-bit hashes of LevelDB's filters and of RocksDB's older filters, and the bit
//! positions that follow from a hash.
//!
//! Both hashes read a key in words of four bytes. They differ only if one to three bytes are left
//! at the end and one of these bytes is 0x80 or more: LevelDB takes the byte as unsigned, RocksDB
//! as signed.

use filterblock::internals::codec::u32_from;

/// The seed of both engines for filters.
const FILTER_SEED: u32 = 0xbc9f_1d34;

const MULTIPLIER: u32 = 0xc6a4_a793;

/// The number of bits by which a key's hash is rotated to get the step from one probe to the next.
const STEP_ROTATION: u32 = 17;

#[inline]
pub(super) fn leveldb(key: &[u8]) -> u32 {
    hash(key, FILTER_SEED, u32::from)
}

#[inline]
pub(super) fn rocksdb(key: &[u8]) -> u32 {
    hash(key, FILTER_SEED, |byte| i32::from(byte.cast_signed()).cast_unsigned())
}

/// Returns the hash of `bytes`. `widen` extends each byte after the last whole word to 32 bits.
#[inline(always)]
fn hash(bytes: &[u8], seed: u32, widen: impl Fn(u8) -> u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the length counts modulo 2^32")]
    let mut hash = seed ^ (bytes.len() as u32).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32_from(word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    if !tail.is_empty() {
        // Addition, not OR: a negative byte carries into the bits of the bytes above it.
        for (i, &byte) in tail.iter().enumerate() {
            hash = hash.wrapping_add(widen(byte) << (8 * i));
        }
        hash = hash.wrapping_mul(MULTIPLIER);
        hash ^= hash >> 24;
    }
    hash
}

/// Returns one number for each probe of a key: `hash + i * step` for probe `i`, where `step` is the
/// rotated hash.
#[inline]
pub(super) fn probe_sequence(hash: u32, probes: u32) -> impl Iterator<Item = u32> {
    let step = hash.rotate_right(STEP_ROTATION);
    (0..probes).map(move |i| hash.wrapping_add(step.wrapping_mul(i)))
}

/// Computes remainders by one divisor with two multiplications each (Lemire, Kaser, Kurz, "Faster
/// remainder by direct computation", 2019).
#[derive(Debug, Clone, Copy)]
pub(super) struct Remainder {
    divisor: u32,
    inverse: u64,
}

impl Remainder {
    /// Prepares remainders by `divisor`, or returns `None` for 0. If the divisor has more than 32
    /// bits, the remainder of a 32-bit hash is the hash itself.
    pub(super) fn by(divisor: u64) -> Option<Self> {
        if divisor == 0 {
            return None;
        }
        match u32::try_from(divisor) {
            // For divisor 1 the inverse wraps to 0, and so every remainder is 0.
            Ok(divisor) => Some(Self { divisor, inverse: (u64::MAX / u64::from(divisor)).wrapping_add(1) }),
            Err(_) => Some(Self { divisor: 0, inverse: 0 }),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the divisor, which has 32 bits")]
    pub(super) fn of(self, dividend: u32) -> u32 {
        if self.divisor == 0 {
            return dividend;
        }
        let fraction = self.inverse.wrapping_mul(u64::from(dividend));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors: a key, LevelDB's hash and RocksDB's hash.
    const VECTORS: [(&[u8], u32, u32); 7] = [
        (b"", 0xbc9f_1d34, 0xbc9f_1d34),
        (b"a", 0x286e_9db0, 0x286e_9db0),
        (b"\x80", 0x365e_e853, 0x91b7_55f4),
        (b"abc", 0x855d_012f, 0x855d_012f),
        (b"\xff\xfe\xfd", 0x4388_0227, 0x644d_6f00),
        (b"hello", 0xf795_964e, 0xf795_964e),
        (b"key-00000000", 0xe0f4_a811, 0xe0f4_a811),
    ];

    #[test]
    fn hashes_are_those_of_the_engines() {
        for (key, leveldb_hash, rocksdb_hash) in VECTORS {
            assert_eq!((leveldb(key), rocksdb(key)), (leveldb_hash, rocksdb_hash), "{key:?}");
        }
        // The first four keys and hashes of this list come from LevelDB's own tests.
        for (key, seed, expected) in [
            (&b"\x62"[..], FILTER_SEED, 0xef13_45c4),
            (b"\xc3\x97", FILTER_SEED, 0x5b66_3814),
            (b"\xe2\x99\xa5", FILTER_SEED, 0x323c_078f),
            (b"\xe1\x80\xb9\x32", FILTER_SEED, 0xed21_633a),
            (b"", 0, 0),
        ] {
            assert_eq!(hash(key, seed, u32::from), expected, "{key:?}");
        }
    }

    #[test]
    fn remainders_are_those_of_the_division() {
        let numbers = [0, 1, 2, 3, 7, 8, 9, 63, 64, 1000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, u32::MAX];
        for divisor in numbers.into_iter().filter(|&divisor| divisor > 0) {
            let remainder = Remainder::by(u64::from(divisor)).unwrap();
            for dividend in numbers.into_iter().chain((0..2000).map(|i: u32| i.wrapping_mul(0x9e37_79b9))) {
                assert_eq!(remainder.of(dividend), dividend % divisor, "{dividend} % {divisor}");
            }
        }
        assert_eq!(Remainder::by(1 << 32).unwrap().of(u32::MAX), u32::MAX);
        assert_eq!(Remainder::by(u64::MAX).unwrap().of(5), 5);
        assert!(Remainder::by(0).is_none());
    }
}
