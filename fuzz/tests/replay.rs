//! Every file of the seed corpora, and thousands of fixed mutations of them, through the fuzz targets: on any toolchain,
//! in seconds, and the same every time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::path::Path;

use filterblock_fuzz::{open_block, patch_block, roundtrip};

/// SplitMix64 (Steele, Lea, Flood 2014), by its published description.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, range: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % range.max(1) as u64) as usize
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "{target}: the seeds are missing");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut SplitMix) {
    let at = random.below(data.len() + 1);
    match random.below(6) {
        0 if at < data.len() => data[at] ^= 1 << random.below(8),
        1 if at < data.len() => data[at] = random.below(256) as u8,
        2 => data.truncate(at),
        3 => drop(data.drain(..at)),
        4 => {
            let inserted: Vec<u8> = (0..random.below(20)).map(|_| random.below(256) as u8).collect();
            drop(data.splice(at..at, inserted));
        }
        _ => data.extend_from_slice(&other[random.below(other.len())..]),
    }
}

/// Names what failed: the seed's place and the number of the mutation, which is the generator's start.
fn replay(target: &str, function: fn(&[u8]), mutations: usize) {
    let seeds = corpus(target);
    seeds.iter().for_each(|seed| function(seed));
    for number in 0..mutations {
        let mut random = SplitMix(number as u64);
        let mut data = seeds[number % seeds.len()].clone();
        for _ in 0..=random.below(4) {
            let other = random.below(seeds.len());
            mutate(&mut data, &seeds[other], &mut random);
        }
        let attempt = std::panic::catch_unwind(|| function(&data));
        assert!(attempt.is_ok(), "{target}: mutation {number}: {data:02x?}");
    }
}

#[test]
fn any_bytes_open_or_are_refused() {
    replay("open_block", open_block, 20_000);
}

#[test]
fn edited_blocks_with_right_checksums_open_or_are_refused() {
    replay("patch_block", patch_block, 4_000);
}

#[test]
fn no_key_is_ever_denied() {
    replay("roundtrip", roundtrip, 4_000);
}
