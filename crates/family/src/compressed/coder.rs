//! Implements a binary arithmetic coder with a fixed probability of ones (Witten, Neal and Cleary,
//! "Arithmetic coding for data compression", 1987; carries as in Martin's range coder, 1979).
//!
//! ```text
//! [low, low + range)   |======= one =======|========== zero ==========|      each bit selects its part;
//!                      low          low + bound             low + range      a narrow interval writes a byte
//! ```
//! The width of the interval has 57 to 64 bits, and the probability has 32 bits. Rounding therefore
//! costs less than 2^-24 bits per coded bit on average.

use filterblock_simd::{NoMemory, try_push};

/// The minimum width of the interval. If the interval becomes narrower, the encoder writes the top
/// byte of `low`. After that, only a carry can change this byte.
const LEAST: u64 = 1 << 56;

/// The share of ones among the bits, in units of 2^-32. The number is from 1 to 2^32 - 1, so that a
/// one and a zero can both be coded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odds(u32);

impl Odds {
    pub(super) fn new(ones: u64, bits: u64) -> Self {
        let share = (u128::from(ones) << 32) / u128::from(bits.max(1));
        Self(u32::try_from(share).unwrap_or(u32::MAX).max(1))
    }

    /// Returns the width of the part of the interval for a one. Both this part and the part for a
    /// zero are at least 2^24 wide.
    fn bound(self, range: u64) -> u64 {
        (range >> 32) * u64::from(self.0)
    }
}

#[derive(Debug)]
pub(super) struct Encoder {
    odds: Odds,
    low: u64,
    range: u64,
    out: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder that appends to `out`.
    pub(super) fn new(odds: Odds, out: Vec<u8>) -> Self {
        Self { odds, low: 0, range: u64::MAX, out }
    }

    pub(super) fn put(&mut self, bit: bool) -> Result<(), NoMemory> {
        let bound = self.odds.bound(self.range);
        if bit {
            self.range = bound;
        } else {
            self.add(bound);
            self.range -= bound;
        }
        while self.range < LEAST {
            self.shift()?;
            self.range <<= 8;
        }
        Ok(())
    }

    fn add(&mut self, part: u64) {
        let (low, carries) = self.low.overflowing_add(part);
        self.low = low;
        if carries {
            // The coded number is a fraction below 1, so the carry stops at a byte of this stream.
            // It never reaches the bytes that `out` had before.
            for byte in self.out.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
    }

    fn shift(&mut self) -> Result<(), NoMemory> {
        try_push(&mut self.out, (self.low >> 56) as u8)?;
        self.low <<= 8;
        Ok(())
    }

    /// Writes one final byte, which selects a number inside the interval. The decoder reads zeros
    /// after the end.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, NoMemory> {
        // `low + LEAST - 1` lies in the interval. Its top byte alone, followed by zeros, is not
        // below `low`, so it lies in the interval too.
        self.add(LEAST - 1);
        self.shift()?;
        Ok(self.out)
    }
}

/// A decoder of bytes to bits. Any bytes decode to some bits, so the caller must verify a checksum
/// first.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    odds: Odds,
    /// The number that the bytes represent, minus the low end of the interval.
    code: u64,
    range: u64,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(odds: Odds, bytes: &'a [u8]) -> Self {
        let mut decoder = Self { odds, code: 0, range: u64::MAX, rest: bytes };
        (0..8).for_each(|_| decoder.shift());
        decoder
    }

    pub(super) fn next_bit(&mut self) -> bool {
        let bound = self.odds.bound(self.range);
        let bit = self.code < bound;
        if bit {
            self.range = bound;
        } else {
            self.code -= bound;
            self.range -= bound;
        }
        while self.range < LEAST {
            self.shift();
            self.range <<= 8;
        }
        bit
    }

    fn shift(&mut self) {
        let (byte, rest) = self.rest.split_first().map_or((0, self.rest), |(&byte, rest)| (byte, rest));
        self.code = self.code << 8 | u64::from(byte);
        self.rest = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random bits. Each bit is one with probability `share / 2^64`.
    fn bits(len: usize, share: u64) -> Vec<bool> {
        let mut state = 7u64;
        std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31 < share
        })
        .take(len)
        .collect()
    }

    fn encode(odds: Odds, bits: &[bool]) -> Vec<u8> {
        let mut encoder = Encoder::new(odds, Vec::new());
        bits.iter().for_each(|&bit| encoder.put(bit).unwrap());
        encoder.finish().unwrap()
    }

    #[test]
    fn bits_survive_any_true_and_assumed_odds() {
        for len in [0, 1, 2, 7, 8, 9, 100, 10_000] {
            for share in [0, 1 << 40, 1 << 60, 1 << 63, u64::MAX - (1 << 60), u64::MAX] {
                let bits = bits(len, share);
                let ones = bits.iter().filter(|&&bit| bit).count() as u64;
                for odds in [Odds::new(ones, len as u64), Odds::new(0, 9), Odds::new(1, 2), Odds::new(9, 9)] {
                    let bytes = encode(odds, &bits);
                    let mut decoder = Decoder::new(odds, &bytes);
                    assert!(bits.iter().all(|&bit| decoder.next_bit() == bit), "{len} {share} {odds:?}");
                }
            }
        }
    }

    #[test]
    fn a_carry_runs_through_every_byte_of_ones() {
        for odds in [Odds::new(1, 3), Odds::new(2, 5), Odds::new(9, 10)] {
            let mut encoder = Encoder::new(odds, Vec::new());
            let mut bits = Vec::new();
            // Choose bits that keep the number 0x80 00 00 ... inside the interval. The written
            // bytes are then 7f ff ff ff. `middle` is this number minus the value of the
            // written bytes. Its unit is the last bit of `low`.
            let mut middle = 1u128 << 63;
            let mut put = |encoder: &mut Encoder, bit| {
                bits.push(bit);
                encoder.put(bit).unwrap();
            };
            while encoder.out.len() < 4 {
                let num_written = encoder.out.len();
                let is_one = middle < u128::from(encoder.low) + u128::from(odds.bound(encoder.range));
                put(&mut encoder, is_one);
                for &byte in &encoder.out[num_written..] {
                    middle = (middle - (u128::from(byte) << 56)) << 8;
                }
            }
            assert_eq!(encoder.out, [0x7f, 0xff, 0xff, 0xff], "{odds:?}");
            // The carry comes with the first zero that moves `low` above the number.
            while encoder.out[0] == 0x7f {
                let is_above = middle < u128::from(encoder.low) + u128::from(odds.bound(encoder.range));
                put(&mut encoder, false);
                assert!(is_above == (encoder.out[0] == 0x80), "{odds:?}");
            }
            assert_eq!(encoder.out[..4], [0x80, 0, 0, 0], "{odds:?}");
            let bytes = encoder.finish().unwrap();
            let mut decoder = Decoder::new(odds, &bytes);
            assert!(bits.iter().all(|&bit| decoder.next_bit() == bit), "{odds:?}");
        }
    }
}
