//! Implements a reader of range filters from section 7.7 of docs/FORMAT.md alone, and tests that it
//! answers as the crate does.

#![allow(clippy::big_endian_bytes, reason = "big-endian keys sort like integers")]

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use crate::support;
use filterblock::layout::TRAILER_LEN_BYTES;
use filterblock::{FilterBlock, FilterOptions, KeyHash, Verify};

/// A range filter: the fields of its extension record, and its payload.
struct Range<'a> {
    payload: &'a [u8],
    universe: u64,
    codes: u64,
    /// Eight fields: stretch bits, low bits, dropped bits, length of the prefix, positions, plain
    /// positions, sets, and flags.
    fields: [u64; 8],
    first: u128,
    last: u128,
    /// The parameters A, B and C of the hash function.
    hash: [u128; 3],
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

const PRIME: u128 = (1 << 61) - 1;

impl<'a> Range<'a> {
    fn read(block: &'a [u8]) -> Self {
        let end = block.len() - TRAILER_LEN_BYTES;
        let extension = &block[end - support::get_number(block, "extension len") as usize..end];
        assert_eq!((extension[0], usize::from(extension[1])), (3, extension.len() - 2));
        let mut record = &extension[2..];
        let [_, universe, codes] = [0; 3].map(|_| varint(&mut record));
        let fields = std::array::from_fn(|i| u64::from(record[i]));
        let cell = |at: usize| u128::from_le_bytes(record[at..at + 16].try_into().unwrap());
        assert_eq!(record.len(), 8 + 32);
        let hash = ["0", "1", "2"].map(|number| {
            let name = format!("filterblock range {number}");
            u128::from(KeyHash::of(name.as_bytes(), support::SEED).raw() >> 3) % PRIME
        });
        let payload = &block[..support::payload_len(block).unwrap()];
        Self { payload, universe, codes, fields, first: cell(8), last: cell(24), hash }
    }

    fn prefix(&self) -> &[u8] {
        &self.payload[..self.fields[3] as usize]
    }

    /// Returns the bytes that have a symbol at a position, and whether a key may end there.
    fn position(&self, i: usize) -> (Vec<u8>, bool) {
        let (positions, sets) = (self.fields[4] as usize, self.fields[3] as usize + 3 * self.fields[4] as usize);
        if i >= positions {
            return ((0..=255).collect(), false);
        }
        let at = self.fields[3] as usize + 3 * i;
        let [flags, low, high] = self.payload[at..at + 3].try_into().unwrap();
        let set = &self.payload[sets..];
        let in_set = |b: &u8| set[32 * usize::from(low) + usize::from(b / 8)] >> (b % 8) & 1 == 1;
        let bytes = if flags & 2 == 0 { (low..=high).collect() } else { (0..=255).filter(in_set).collect() };
        (bytes, flags & 1 == 1)
    }

    /// Returns the cut of a bound: the integer, whether it is exact, and whether bytes are cut off.
    fn cut(&self, bound: &[u8]) -> (u128, bool, bool) {
        let Some(rest) = bound.strip_prefix(self.prefix()) else {
            return (if bound < self.prefix() { 0 } else { 1 << 120 }, false, false);
        };
        let positions = (self.fields[4] + self.fields[5]) as usize;
        let (mut x, mut zeros, mut is_exact) = (0u128, false, true);
        for i in 0..positions {
            let (bytes, end) = self.position(i);
            let below = |byte: u8| u128::from(end) + bytes.iter().filter(|&&b| b < byte).count() as u128;
            let symbol = match rest.get(i) {
                _ if zeros => 0,
                None => {
                    (zeros, is_exact) = (true, end);
                    0
                }
                Some(&byte) => {
                    is_exact = bytes.contains(&byte);
                    zeros = !is_exact;
                    below(byte)
                }
            };
            x = x * (bytes.len() as u128 + u128::from(end)) + symbol;
        }
        (x, is_exact, rest.len() > positions)
    }

    fn bit(&self, bit: u64) -> u64 {
        u64::from(self.payload[bit as usize / 8] >> (bit % 8) & 1)
    }

    /// Returns all codes, read from the high and the low bits. Asserts that the ranks, the counts,
    /// the length of the payload and the order of the codes are right.
    fn codes(&self) -> Vec<u64> {
        let mapping = self.fields[3] + 3 * self.fields[4] + 32 * self.fields[6];
        let (highs, low_bits) = (mapping.next_multiple_of(8), self.fields[1]);
        let buckets = ((self.universe - 1) >> low_bits) + 1;
        let at_ranks = highs + (self.codes + buckets).div_ceil(64) * 8;
        let ranks = buckets / 256 + 1;
        let is_wide = self.fields[7] & 2 == 2;
        let lows = at_ranks + if is_wide { ranks * 4 } else { ranks.div_ceil(16) * 36 };
        let number =
            |at: u64, len: u64| (0..len).fold(0, |n, i| n | u64::from(self.payload[(at + i) as usize]) << (8 * i));
        let (mut codes, mut bucket) = (Vec::new(), 0);
        for i in 0..self.codes + buckets {
            if bucket % 256 == 0 && (i == 0 || self.bit(8 * highs + i - 1) == 0) {
                let j = bucket / 256;
                let rank = match is_wide {
                    true => number(at_ranks + 4 * j, 4),
                    false => {
                        number(at_ranks + 36 * (j / 16), 4) + number(at_ranks + 36 * (j / 16) + 4 + 2 * (j % 16), 2)
                    }
                };
                assert_eq!(rank, codes.len() as u64);
            }
            if self.bit(8 * highs + i) == 0 {
                bucket += 1;
                continue;
            }
            let n = codes.len() as u64;
            let low = (0..low_bits).fold(0, |low, j| low | self.bit(8 * lows + n * low_bits + j) << j);
            codes.push(bucket << low_bits | low);
        }
        assert_eq!((codes.len() as u64, bucket), (self.codes, buckets));
        assert_eq!(lows + (self.codes * low_bits).div_ceil(8), self.payload.len() as u64);
        assert!(codes.is_sorted_by(|one, other| one < other) && codes.iter().all(|&code| code < self.universe));
        codes
    }

    fn code(&self, y: u128) -> u64 {
        let [a, b, c] = self.hash;
        let z = y >> self.fields[0];
        let sum = a * (z % (1 << 60)) % PRIME + b * (z >> 60) % PRIME + c;
        let q = (sum % PRIME * u128::from(self.universe)) >> 61;
        ((q + y % (1 << self.fields[0])) % u128::from(self.universe)) as u64
    }

    fn may_contain(&self, codes: &[u64], lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let is_whole = self.fields[7] & 1 == 1;
        let from = match lower {
            Unbounded => 0,
            Included(bound) | Excluded(bound) => {
                let (v, is_exact, is_cut) = self.cut(bound);
                v + u128::from(is_exact && is_whole && (is_cut || matches!(lower, Excluded(_))))
            }
        };
        let to = match upper {
            Unbounded => 1 << 120,
            Included(bound) | Excluded(bound) => {
                let (v, is_exact, is_cut) = self.cut(bound);
                v + u128::from(is_exact && !(matches!(upper, Excluded(_)) && is_whole && !is_cut))
            }
        };
        if from >= to {
            return false;
        }
        let (a, b) = (from >> self.fields[2], (to - 1) >> self.fields[2]);
        if b < self.first || a > self.last {
            return false;
        }
        if a <= self.first || b >= self.last {
            return true;
        }
        let (a, b) = (a - self.first, b - self.first);
        let stretch = |y: u128| y >> self.fields[0];
        if stretch(b) - stretch(a) > 1 {
            return true;
        }
        // The query asks one cell after the other. This is slow, but follows the document.
        (a..=b).any(|y| codes.binary_search(&self.code(y)).is_ok())
    }
}

#[test]
fn range_filters_are_read_from_the_document_alone() {
    let mut random = support::SplitMix(3);
    let mut texts: Vec<(&str, Vec<Vec<u8>>)> = vec![
        (
            "grafite:fpr=0.01",
            (0..3_000).map(|_| format!("user:{:08}", random.below(90_000_000)).into_bytes()).collect(),
        ),
        ("grafite:L=16:fpr=0.01", (0..2_000).map(|_| random.next().to_be_bytes().to_vec()).collect()),
        ("grafite:L=300:9", (0..2_000).map(|i| (i * 3 + 1_000_000u64).to_be_bytes().to_vec()).collect()),
        ("grafite:13", (0..9_000).map(|i| format!("{:x}-{}", i * 7_919, "z".repeat(i % 4)).into_bytes()).collect()),
        ("grafite:L=16:10", (0..300).map(|_| (0..random.below(30)).map(|_| random.next() as u8).collect()).collect()),
        ("grafite:20", vec![b"one key".to_vec()]),
    ];
    for (text, keys) in &mut texts {
        keys.sort();
        keys.dedup();
        let mut builder =
            FilterOptions::new(support::spec(text)).table_id(support::TABLE).builder(support::SEED).unwrap();
        keys.iter().for_each(|key| builder.add(builder.hasher().key(key)));
        let block = builder.finish().unwrap().bytes;
        let range = Range::read(&block);
        let codes = range.codes();
        let opened = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
        for i in 0..3_000 {
            let mut bound = || {
                let mut bound = keys[random.below(keys.len())].clone();
                match random.below(4) {
                    0 => bound.push(random.next() as u8),
                    1 => drop(bound.pop()),
                    2 => bound.iter_mut().next_back().into_iter().for_each(|byte| *byte = random.next() as u8),
                    _ => {}
                }
                bound
            };
            let (from, mut to) = (bound(), bound());
            if i % 3 > 0 {
                to.clone_from(&from);
                to.push(random.next() as u8);
            }
            if from > to {
                continue;
            }
            for lower in [Included(from.as_slice()), Excluded(&from), Unbounded] {
                for upper in [Included(to.as_slice()), Excluded(&to), Unbounded] {
                    let is_empty = from == to
                        && !matches!((lower, upper), (Included(_), Included(_)))
                        && lower != Unbounded
                        && upper != Unbounded;
                    let answer = !is_empty && range.may_contain(&codes, lower, upper);
                    assert_eq!(answer, opened.may_contain_range(lower, upper), "{text}: {lower:02x?} {upper:02x?}");
                }
            }
        }
    }
}
