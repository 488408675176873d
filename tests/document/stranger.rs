//! Implements readers of binary fuse filters, ribbons and bumped ribbons from docs/FORMAT.md alone.
//! Tests that they answer as the crate does, for present and absent keys.

use crate::support;
use crate::text::{constant, table};
use filterblock::layout::TRAILER_LEN_BYTES;
use filterblock::{FilterBlock, KeyHash, Verify};

fn reduce(x: u64, n: u64) -> u64 {
    ((u128::from(x) * u128::from(n)) >> 64) as u64
}

#[test]
fn binary_fuse_filters_are_read_from_the_document_alone() {
    let (mix, spread) = (constant("FUSE_MIX"), constant("FUSE_SEED"));
    for (text, n) in
        [("binary-fuse:8", 1), ("binary-fuse:8", 3_000), ("binary-fuse:12", 700), ("binary-fuse:16", 20_000)]
    {
        let block = support::block(text, n);
        let params = support::field(&block, "params").to_vec();
        let (segment, w, seed) = (1u64 << params[0], u64::from(params[1]), u64::from(params[2]));
        let payload = &block[..support::payload_len(&block).unwrap()];
        let slots = 8 * payload.len() as u64 / w;
        assert!(slots * w == 8 * payload.len() as u64 && slots.is_multiple_of(segment) && slots >= 3 * segment);
        let slot = |i: u64| {
            (0..w)
                .map(|j| w * i + j)
                .fold((0, 0), |(value, j), p| (value | u64::from(payload[p as usize / 8] >> (p % 8) & 1) << j, j + 1))
                .0
        };
        let opened = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
        for h in (0..n + 30_000).map(|i| support::hash(i).raw()) {
            let p = (h ^ seed.wrapping_mul(spread)).wrapping_mul(mix);
            let a = ((u128::from(h) * u128::from(slots - 2 * segment)) >> 64) as u64;
            let b = (a + segment) ^ ((p >> 46) % segment);
            let c = (a + 2 * segment) ^ ((p >> 28) % segment);
            let fits = slot(a) ^ slot(b) ^ slot(c) == (p ^ (p >> 32)) % (1 << w);
            assert_eq!(fits, opened.may_contain_hash(KeyHash::from_raw(h)), "{text}, {n} keys");
        }
    }
}

#[test]
fn ribbons_are_read_from_the_document_alone() {
    let [mix, spread, lower, upper, print] =
        ["RIBBON_MIX", "RIBBON_SEED", "RIBBON_LOW", "RIBBON_HIGH", "RIBBON_PRINT"].map(constant);
    for (text, n) in
        [("ribbon:8", 1), ("ribbon:fpr=0.01", 3_000), ("ribbon:1", 500), ("ribbon:30.7", 700), ("ribbon:9", 20_000)]
    {
        let block = support::block(text, n);
        let params = support::field(&block, "params").to_vec();
        let (c, seed) = (u64::from(params[0]), u64::from(params[1]));
        let payload = &block[..support::payload_len(&block).unwrap()];
        let end = block.len() - TRAILER_LEN_BYTES;
        let record = &block[end - support::get_number(&block, "extension len") as usize..end];
        assert_eq!((record[0], usize::from(record[1])), (3, record.len() - 2));
        let blocks = record[2..].iter().rev().fold(0, |blocks, &byte| blocks << 7 | u64::from(byte & 0x7f));
        let narrow = c * blocks - payload.len() as u64 / 16;
        let bit = |slot: u64, column: u64| {
            let word = c * (slot / 128) - narrow.min(slot / 128) + column;
            payload[(16 * word + slot % 128 / 8) as usize] >> (slot % 8) & 1
        };
        let opened = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
        for h in (0..n + 3_000).map(|i| support::hash(i).raw()) {
            let starts = 128 * blocks - 127;
            let reduced = ((u128::from(h) * u128::from(starts + 64)) >> 64) as u64;
            let start = (reduced.max(32) - 32).min(starts - 1);
            let x = (h ^ seed.wrapping_mul(spread)).wrapping_mul(mix);
            let x = x ^ x >> 32;
            let (l, u) = (x.wrapping_mul(lower), x.wrapping_mul(upper));
            let (low, high) = ((l ^ l >> 32) | 1, u ^ u >> 32);
            let fingerprint = x.wrapping_mul(print) >> 32;
            let columns = c - u64::from(start / 128 < narrow);
            let fits = (0..columns).all(|column| {
                let picked = (0..128).filter(|&t| [low, high][t as usize / 64] >> (t % 64) & 1 == 1);
                let xor = picked.fold(0, |xor, t| xor ^ bit(start + t, column));
                u64::from(xor) == fingerprint >> column & 1
            });
            assert_eq!(fits, opened.may_contain_hash(KeyHash::from_raw(h)), "{text}, {n} keys");
        }
    }
}

/// A system of a bumped ribbon: a layer or the single system (section 7.6).
struct System {
    slots: u64,
    /// The number of blocks at the start that have one column less than the other blocks.
    fewer: u64,
    /// The offset of each group of columns in the payload, in bytes.
    groups: Vec<u64>,
    /// The offset of a layer's bump bits in the payload, in bytes. The single system has none.
    bumps: u64,
}

impl System {
    fn blocks(&self) -> u64 {
        self.slots / 64
    }

    fn last(&self) -> u64 {
        self.slots.max(64) - 64
    }

    fn start(&self, h: u64) -> u64 {
        if self.last() == 0 { 0 } else { (reduce(h, self.last() + 41).max(24) - 24).min(self.last()) }
    }
}

/// A bumped ribbon that was read as section 7.6 describes.
struct Bumped<'a> {
    payload: &'a [u8],
    columns: u64,
    layers: Vec<System>,
    single: Option<(System, u8)>,
    thresholds: Vec<u64>,
    /// The constants for the coefficients, the fingerprint, the hash of the next layer (two
    /// constants), and the seed.
    constants: [u64; 5],
}

impl<'a> Bumped<'a> {
    fn read(block: &'a [u8]) -> Self {
        let params = support::field(block, "params").to_vec();
        let payload = &block[..support::payload_len(block).unwrap()];
        let end = block.len() - TRAILER_LEN_BYTES;
        let extension = &block[end - support::get_number(block, "extension len") as usize..end];
        let share = u64::from(params[1]) | u64::from(params[2]) << 8;
        let system = |slots: u64, share: u64| System {
            slots,
            fewer: ((u128::from(slots / 64) * u128::from(share)) >> 16) as u64,
            groups: Vec::new(),
            bumps: 0,
        };
        let mut layers = Vec::new();
        let single = if extension.is_empty() {
            let slots = support::get_number(block, "num keys") + u64::from(params[2]);
            Some((system(slots, 0), params[1]))
        } else {
            assert_eq!((extension[0], usize::from(extension[1])), (3, extension.len() - 2));
            let mut record = extension[2..].iter().copied();
            let mut varint = || {
                let (mut value, mut shift) = (0, 0);
                loop {
                    let byte = record.next()?;
                    value |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        return Some(value);
                    }
                }
            };
            while let blocks @ 1.. = varint().unwrap() {
                layers.push(system(64 * blocks, share));
            }
            let slots = varint();
            let single = slots.map(|slots| (system(slots, share), record.next().unwrap()));
            assert_eq!(record.next(), None);
            single
        };
        let thresholds = table(&["Two bits", "0", "1", "2", "3"])[0].clone();
        let thresholds = thresholds[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        let constants = ["BUMP_COEFFICIENTS", "BUMP_PRINT", "BUMP_REMIX_1", "BUMP_REMIX_2", "BUMP_SEED"].map(constant);
        let mut read = Self { payload, columns: params[0].into(), layers, single, thresholds, constants };
        if let (true, Some(missing)) = (extension.is_empty(), read.lay_out().checked_sub(payload.len() as u64)) {
            assert_eq!(missing % 8, 0);
            let (single, _) = read.single.as_mut().unwrap();
            single.fewer = missing / 8;
            assert!(single.fewer <= single.blocks());
        }
        assert_eq!(read.lay_out(), payload.len() as u64);
        read
    }

    fn group_columns(&self, g: u64) -> u64 {
        (self.columns - 8 * g).min(8)
    }

    fn is_last(&self, g: u64) -> bool {
        g + 1 == self.columns.div_ceil(8)
    }

    /// Sets the offsets of all parts. Returns the length of the payload.
    fn lay_out(&mut self) -> u64 {
        let mut at = 0;
        for g in 0..self.columns.div_ceil(8) {
            let (w, is_last) = (self.group_columns(g), self.is_last(g));
            for system in self.layers.iter_mut().chain(self.single.iter_mut().map(|(system, _)| system)) {
                system.groups.truncate(g as usize);
                system.groups.push(at);
                at += 8 * (system.blocks() * w - if is_last { system.fewer } else { 0 });
                at += (system.slots % 64 * w).div_ceil(8);
            }
            for layer in self.layers.iter_mut().filter(|_| g == 0) {
                layer.bumps = at;
                at += (layer.last() / 128 + 1).div_ceil(4);
            }
        }
        at
    }

    fn bit(&self, bit: u64) -> u64 {
        u64::from(self.payload[(bit / 8) as usize] >> (bit % 8) & 1)
    }

    /// Returns the bit of a slot in column `j` of group `g`.
    fn slot(&self, system: &System, g: u64, j: u64, slot: u64) -> u64 {
        let (w, b) = (self.group_columns(g), slot / 64);
        let words = b * w - if self.is_last(g) { b.min(system.fewer) } else { 0 };
        let from = 8 * (system.groups[g as usize] + 8 * words);
        let in_block = if b < system.blocks() { 64 * j } else { system.slots % 64 * j };
        self.bit(from + in_block + slot % 64)
    }

    fn holds(&self, system: &System, h: u64) -> bool {
        let start = system.start(h);
        let x = h.wrapping_mul(self.constants[0]);
        let coefficients = (x ^ (x >> 32)) | 1;
        let fingerprint = (h ^ (h >> 32)).wrapping_mul(self.constants[1]) >> 32;
        (0..self.columns.div_ceil(8)).all(|g| {
            let is_short = self.is_last(g) && start / 64 < system.fewer;
            (0..self.group_columns(g) - u64::from(is_short)).all(|j| {
                let picked = (0..64).filter(|t| coefficients >> t & 1 == 1 && start + t < system.slots);
                let sum = picked.fold(0, |sum, t| sum ^ self.slot(system, g, j, start + t));
                sum == fingerprint >> (24 - 8 * g + j) & 1
            })
        })
    }

    fn may_contain(&self, mut h: u64) -> bool {
        let remix = |h: u64| {
            let z = h.wrapping_mul(self.constants[2]);
            let y = (z ^ (z >> 32)).wrapping_mul(self.constants[3]);
            y ^ (y >> 29)
        };
        for layer in &self.layers {
            let start = layer.start(h);
            let bucket = start / 128;
            let bits = self.bit(8 * layer.bumps + 2 * bucket) | self.bit(8 * layer.bumps + 2 * bucket + 1) << 1;
            if start % 128 >= self.thresholds[bits as usize] {
                return self.holds(layer, h);
            }
            h = remix(h);
        }
        let Some((single, seed)) = &self.single else { return false };
        self.holds(single, remix(h ^ u64::from(*seed).wrapping_mul(self.constants[4])))
    }
}

#[test]
fn bumped_ribbons_are_read_from_the_document_alone() {
    let (mut with_layers, mut with_fewer) = (0, 0);
    for text in ["8", "fpr=0.01", "1", "fpr=0.9", "5.3", "12.3", "16", "9", "30.7", "32", "8:compact"] {
        for n in [1, 40, 64, 65, 700, 2_560, 2_561, 3_000, 20_000] {
            let block = support::block(&format!("bumped-ribbon:{text}"), n);
            let stranger = Bumped::read(&block);
            with_layers += stranger.layers.len();
            with_fewer += stranger.layers.iter().filter(|layer| layer.fewer > 0).count();
            let opened = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
            assert_eq!(opened.metadata().kind.name(), "bumped-ribbon");
            // Asks for a sample of at most 400 present keys, and for 400 absent keys.
            for i in (0..n).step_by(n / 400 + 1).chain(n..n + 400) {
                let hash = support::hash(i);
                let found = stranger.may_contain(hash.raw());
                assert!(found || i >= n, "{text}, {n} keys: the reader from the document denies a present key");
                assert_eq!(found, opened.may_contain_hash(hash), "{text}, {n} keys");
            }
        }
    }
    assert!(with_layers > 30 && with_fewer > 10, "{with_layers} {with_fewer}");
}
