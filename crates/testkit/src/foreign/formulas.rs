//! Computes the answers of other engines' filters by their formulas, bit by bit, for keys of eight
//! bytes. This module does not use the crate.

const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// Returns the 32-bit hash of LevelDB and RocksDB. For eight bytes, both engines compute the same
/// hash.
pub fn hash32(key: u64) -> u32 {
    let m = 0xc6a4_a793u32;
    let mut h = 0xbc9f_1d34 ^ m.wrapping_mul(8);
    for word in [key as u32, (key >> 32) as u32] {
        h = h.wrapping_add(word).wrapping_mul(m);
        h ^= h >> 16;
    }
    h
}

/// Returns the hash of RocksDB's fast local Bloom filters and ribbons, a preview of XXH3.
pub fn xxph3(key: u64) -> u64 {
    let k = key ^ 0xbe4b_a423_396c_feb8;
    let m = (k ^ k >> 51).wrapping_mul(0x9e37_79b1).wrapping_add(8);
    let h = (m ^ m >> 47).wrapping_mul(P64_2);
    let h = (h ^ h >> 37).wrapping_mul(0x1656_67b1_9e37_79f9);
    h ^ h >> 32
}

/// Returns XXH64 with seed 0.
pub fn xxh64(key: u64) -> u64 {
    let lane = key.wrapping_mul(P64_2).rotate_left(31).wrapping_mul(P64_1);
    let h = (P64_5.wrapping_add(8) ^ lane).rotate_left(27).wrapping_mul(P64_1).wrapping_add(P64_4);
    let h = (h ^ h >> 33).wrapping_mul(P64_2);
    let h = (h ^ h >> 29).wrapping_mul(0x1656_67b1_9e37_79f9);
    h ^ h >> 32
}

/// Returns bit `i`, counted from the lowest bit of each byte.
fn bit(bytes: &[u8], i: u64) -> bool {
    bytes[(i / 8) as usize] >> (i % 8) & 1 == 1
}

pub fn leveldb(filter: &[u8], key: u64) -> bool {
    if filter.len() < 2 {
        return false;
    }
    let (bits, probes) = ((filter.len() as u64 - 1) * 8, filter[filter.len() - 1]);
    let mut h = hash32(key);
    let delta = h.rotate_right(17);
    for _ in 0..probes {
        if probes > 30 {
            return true;
        }
        if !bit(filter, u64::from(h) % bits) {
            return false;
        }
        h = h.wrapping_add(delta);
    }
    true
}

pub fn rocksdb(filter: &[u8], key: u64) -> bool {
    if filter.len() <= 5 {
        return false;
    }
    let (payload, trailer) = filter.split_at(filter.len() - 5);
    match trailer[0].cast_signed() {
        1.. => legacy_bloom(payload, trailer, hash32(key)),
        -1 => fast_local_bloom(payload, trailer, xxph3(key)),
        -2 => ribbon(payload, trailer, xxph3(key)),
        _ => true,
    }
}

fn legacy_bloom(payload: &[u8], trailer: &[u8], mut h: u32) -> bool {
    let lines = trailer[1..].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let len = payload.len() as u64;
    if lines == 0 || !len.is_multiple_of(lines) || (len / lines).count_ones() != 1 {
        return true;
    }
    let line_len = len / lines;
    let start = u64::from(h) % lines * line_len;
    let delta = h.rotate_right(17);
    (0..trailer[0]).all(|_| {
        let set = bit(payload, start * 8 + u64::from(h) % (line_len * 8));
        h = h.wrapping_add(delta);
        set
    })
}

fn fast_local_bloom(payload: &[u8], trailer: &[u8], h: u64) -> bool {
    let (probes, lines) = (trailer[2] & 31, payload.len() as u64 / 64);
    if trailer[1] != 0 || trailer[2] >= 32 || !(1..=30).contains(&probes) || trailer[3..] != [0, 0] || lines == 0 {
        return true;
    }
    let start = ((h & 0xffff_ffff) * lines) >> 32;
    let mut x = (h >> 32) as u32;
    (0..probes).all(|_| {
        let set = bit(payload, start * 512 + u64::from(x >> 23));
        x = x.wrapping_mul(0x9e37_79b9);
        set
    })
}

fn ribbon_seed(number: u8) -> u64 {
    let t = u64::from(number).wrapping_mul(0xc782_19a2_3eea_dd03);
    (t ^ (t & 0xf0f0_f0f0_f0f0_f0f0) >> 4) & 0xffff_ffff
}

fn ribbon(payload: &[u8], trailer: &[u8], h: u64) -> bool {
    let blocks = u64::from(trailer[2]) | u64::from(trailer[3]) << 8 | u64::from(trailer[4]) << 16;
    if blocks < 2 {
        return true;
    }
    let mut segments = payload.len() as u64 / 16;
    let mut columns = segments.div_ceil(blocks);
    if columns > 32 {
        (columns, segments) = (32, 32 * blocks);
    }
    let upper_start = columns * blocks - segments;
    let first_of = |block: u64| block * columns - block.min(upper_start);
    let h2 = (h ^ ribbon_seed(trailer[1])).wrapping_mul(0x6193_d459_236a_3a0d);
    let start = ((u128::from(h2) * u128::from(blocks * 128 - 127)) >> 64) as u64;
    let a = h2.wrapping_mul(0xc28f_8282_2b65_0bed);
    let row = u128::from(a) << 64 | u128::from(a ^ 0xc367_844a_6e52_731d) | 1;
    let result = a.swap_bytes();
    let block = start / 128;
    (0..columns - u64::from(block < upper_start)).all(|column| {
        let parity = (0..128).filter(|&j| row >> j & 1 == 1).fold(false, |parity, j| {
            let slot = start + j;
            parity ^ bit(payload, (first_of(slot / 128) + column) * 128 + slot % 128)
        });
        parity == (result >> column & 1 == 1)
    })
}

pub fn split_block(bits: &[u8], key: u64) -> bool {
    const SALT: [u32; 8] =
        [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
    let blocks = bits.len() as u64 / 32;
    if blocks == 0 || !bits.len().is_multiple_of(32) {
        return true;
    }
    let h = xxh64(key);
    let start = ((h >> 32) * blocks) >> 32;
    (0..).zip(SALT).all(|(i, salt)| bit(bits, start * 256 + i * 32 + u64::from((h as u32).wrapping_mul(salt) >> 27)))
}
