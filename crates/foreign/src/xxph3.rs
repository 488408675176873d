//! Computes XXPH3, the 64-bit key hash of RocksDB's filters. It is a preview of XXH3 from xxHash
//! 0.7.2.
//!
//! The released XXH3 gives other values, so this crate has its own code for XXPH3.

use filterblock::internals::codec::{u32_from, u64_bytes, u64_from};

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;

const SECRET_LEN_BYTES: usize = 192;
/// The default secret of XXH3.
const SECRET: [u8; SECRET_LEN_BYTES] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, //
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, //
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, //
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, //
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, //
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, //
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, //
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, //
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb, //
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, //
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, //
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// Returns the hash with seed 0, which RocksDB's filters use.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    hash_with_seed(key, 0)
}

#[inline(always)]
fn hash_with_seed(input: &[u8], seed: u64) -> u64 {
    match input.len() {
        0..=16 => short(input, seed),
        17..=128 => middle(input, seed),
        129..=240 => upper_middle(input, seed),
        _ => long(input, seed),
    }
}

/// Returns the 64-bit integer at `offset`. The caller ensures that all eight bytes are in bounds.
#[inline(always)]
fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, u64_from)
}

/// Returns the XOR of the two halves of the 128-bit product `a * b`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "splits a product into halves")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 37).wrapping_mul(PRIME64_3);
    hash ^ hash >> 32
}

#[inline]
fn short(input: &[u8], seed: u64) -> u64 {
    let len = input.len() as u64;
    if let (Some(first), Some(last)) = (input.first_chunk(), input.last_chunk()) {
        let low = u64_from(first) ^ word(&SECRET, 0).wrapping_add(seed);
        if len == 8 {
            return four_to_eight(u64_from(first), len, seed);
        }
        let high = u64_from(last) ^ word(&SECRET, 8).wrapping_sub(seed);
        return avalanche(len.wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)));
    }
    if let (Some(first), Some(last)) = (input.first_chunk(), input.last_chunk()) {
        return four_to_eight(u64::from(u32_from(first)) | u64::from(u32_from(last)) << 32, len, seed);
    }
    match input {
        // RocksDB's own rule for empty input. The preview of XXH3 returned 0.
        [] => fold(seed.wrapping_add(word(&SECRET, 0)), PRIME64_2),
        [first, .., last] => {
            let middle = if let [_, middle, _] = input { middle } else { last };
            up_to_three([*first, *middle, *last], len, seed)
        }
        [only] => up_to_three([*only; 3], len, seed),
    }
}

#[inline(always)]
fn up_to_three(bytes: [u8; 3], len: u64, seed: u64) -> u64 {
    let [first, middle, last] = bytes.map(u64::from);
    let combined = first | middle << 8 | last << 16 | len << 24;
    let key = (word(&SECRET, 0) & u64::from(u32::MAX)).wrapping_add(seed);
    avalanche((combined ^ key).wrapping_mul(PRIME64_1))
}

/// Hashes 4 to 8 bytes. `ends` holds the first four and the last four bytes, which may overlap.
#[inline(always)]
fn four_to_eight(ends: u64, len: u64, seed: u64) -> u64 {
    let keyed = ends ^ word(&SECRET, 0).wrapping_add(seed);
    let mixed = len.wrapping_add((keyed ^ keyed >> 51).wrapping_mul(PRIME32_1));
    avalanche((mixed ^ mixed >> 47).wrapping_mul(PRIME64_2))
}

/// Mixes 16 bytes of the input at `at` with 16 bytes of the secret at `secret_at`.
#[inline(always)]
fn mix(input: &[u8], at: usize, secret_at: usize, seed: u64) -> u64 {
    fold(
        word(input, at) ^ word(&SECRET, secret_at).wrapping_add(seed),
        word(input, at + 8) ^ word(&SECRET, secret_at + 8).wrapping_sub(seed),
    )
}

/// Hashes 17 to 128 bytes. Each step takes 16 bytes from the front and 16 from the end.
#[inline]
fn middle(input: &[u8], seed: u64) -> u64 {
    let len = input.len();
    let mut sum = (len as u64).wrapping_mul(PRIME64_1);
    for i in (0..(len - 1) / 32 + 1).rev() {
        sum = sum.wrapping_add(mix(input, 16 * i, 32 * i, seed));
        sum = sum.wrapping_add(mix(input, len - 16 * (i + 1), 32 * i + 16, seed));
    }
    avalanche(sum)
}

/// Hashes 129 to 240 bytes.
fn upper_middle(input: &[u8], seed: u64) -> u64 {
    const LAST_SECRET: usize = 136 - 17;
    let len = input.len();
    let start = (len as u64).wrapping_mul(PRIME64_1);
    let sum = (0..8).fold(start, |sum, i| sum.wrapping_add(mix(input, 16 * i, 16 * i, seed)));
    let sum = (8..len / 16).fold(avalanche(sum), |sum, i| sum.wrapping_add(mix(input, 16 * i, 16 * (i - 8) + 3, seed)));
    avalanche(sum.wrapping_add(mix(input, len - 16, LAST_SECRET, seed)))
}

const STRIPE_LEN_BYTES: usize = 64;
/// The number of stripes between two scramblings. Each stripe uses eight words of the secret. The
/// words of the next stripe begin eight bytes later.
const STRIPES: usize = (SECRET_LEN_BYTES - STRIPE_LEN_BYTES) / 8;

/// Hashes more than 240 bytes in eight lanes.
fn long(input: &[u8], seed: u64) -> u64 {
    let mut secret = SECRET;
    if seed != 0 {
        for [low, high] in secret.as_chunks_mut::<8>().0.as_chunks_mut::<2>().0 {
            *low = u64_bytes(u64_from(low).wrapping_add(seed));
            *high = u64_bytes(u64_from(high).wrapping_sub(seed));
        }
    }
    let mut lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    for block in input.chunks(STRIPES * STRIPE_LEN_BYTES) {
        let (stripes, _) = block.as_chunks();
        for (i, stripe) in stripes.iter().enumerate() {
            accumulate(&mut lanes, stripe, &secret, 8 * i);
        }
        if stripes.len() == STRIPES {
            scramble(&mut lanes, &secret);
        }
    }
    // Accumulate the last 64 bytes, of which some are already hashed. Unlike the released XXH3, the
    // preview skips this step if the input is a whole number of stripes.
    if let Some(last) = input.last_chunk().filter(|_| !input.len().is_multiple_of(STRIPE_LEN_BYTES)) {
        accumulate(&mut lanes, last, &secret, SECRET_LEN_BYTES - STRIPE_LEN_BYTES - 7);
    }
    let start = (input.len() as u64).wrapping_mul(PRIME64_1);
    let (pairs, _) = lanes.as_chunks();
    avalanche(pairs.iter().enumerate().fold(start, |sum, (i, [even, odd])| {
        let at = 11 + 16 * i;
        sum.wrapping_add(fold(even ^ word(&secret, at), odd ^ word(&secret, at + 8)))
    }))
}

#[inline(always)]
fn accumulate(lanes: &mut [u64; 8], stripe: &[u8; STRIPE_LEN_BYTES], secret: &[u8], secret_at: usize) {
    for (i, (lane, value)) in lanes.iter_mut().zip(stripe.as_chunks().0).enumerate() {
        let value = u64_from(value);
        let keyed = value ^ word(secret, secret_at + 8 * i);
        let product = (keyed & u64::from(u32::MAX)).wrapping_mul(keyed >> 32);
        *lane = lane.wrapping_add(value).wrapping_add(product);
    }
}

fn scramble(lanes: &mut [u64; 8], secret: &[u8]) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let keyed = *lane ^ *lane >> 47 ^ word(secret, SECRET_LEN_BYTES - STRIPE_LEN_BYTES + 8 * i);
        *lane = keyed.wrapping_mul(PRIME32_1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_keys_of_every_length_match_rocksdb() {
        let counting = |len: u32| (0..len).map(|i| (i & 255) as u8).collect::<Vec<_>>();
        for (input, expected) in [
            (vec![], 0x5342_c301_0fe1_dd04),
            (b"a".to_vec(), 0x88d8_68bf_6076_81c7),
            (vec![0x80], 0xe583_5ef6_5b4a_b985),
            (b"abc".to_vec(), 0xd39e_eb71_bb53_42e8),
            (b"hello".to_vec(), 0xa0bb_c238_c976_57b5),
            (b"key-00000000".to_vec(), 0xdcd4_5868_5fce_07ae),
            (b"0123456789abcdef".to_vec(), 0x402c_83c1_955d_056d),
            (b"0123456789abcdefg".to_vec(), 0x1de5_bab5_896c_d852),
            (counting(64), 0x85a0_b130_6d97_b7f5),
            (counting(129), 0xa06d_8174_3056_cebc),
            (counting(240), 0xd125_3a6d_ec8c_35fc),
            (counting(241), 0xb78d_f601_6a18_c222),
            (counting(1025), 0x9593_6fd4_08f0_0c5e),
        ] {
            assert_eq!(hash(&input), expected, "{input:?}");
        }
    }

    #[test]
    fn hashes_under_any_seed_match_rocksdb() {
        for folder in ["rocksdb-7.8.3", "rocksdb-11.8.1"] {
            let text =
                std::fs::read_to_string(format!("../../tests/golden/foreign/{folder}/hash_vectors.txt")).unwrap();
            let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(rows.len() > 60, "{folder}: {}", rows.len());
            for row in rows {
                let [input, of_zero, seed, of_seed, old] = row.split('\t').collect::<Vec<_>>()[..] else {
                    panic!("{row}")
                };
                let digits: Vec<_> = input.chars().map(|c| c.to_digit(16).unwrap()).collect();
                let input: Vec<u8> =
                    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect();
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                assert_eq!(hash(&input), number(of_zero), "{row}");
                assert_eq!(hash_with_seed(&input, number(seed)), number(of_seed), "{row}");
                assert_eq!(u64::from(super::super::hash32::rocksdb(&input)), number(old), "{row}");
            }
        }
    }
}
