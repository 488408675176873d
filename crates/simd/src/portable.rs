//! Implements the primitives of [`Simd`] in plain code, the reference for every instruction set.

use super::Simd;

/// Plain code, which runs on every processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portable;

impl Simd for Portable {
    #[inline(always)]
    fn all_set_in_line(self, line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        let (words, _) = line.as_chunks::<4>();
        multipliers.iter().take(count as usize).all(|&multiplier| {
            let product = factor.wrapping_mul(multiplier);
            let (word, bit) = ((product >> 28) as usize, product >> 23 & 31);
            words.get(word).is_none_or(|word| u32::from_le_bytes(*word) >> bit & 1 == 1)
        })
    }

    #[inline(always)]
    fn all_set_in_lanes_of_32(self, block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        let (lanes, _) = block.as_chunks::<4>();
        lanes.iter().zip(multipliers).all(|(lane, &multiplier)| {
            let bit = factor.wrapping_mul(multiplier) >> 27;
            u32::from_le_bytes(*lane) >> bit & 1 == 1
        })
    }

    #[inline(always)]
    fn all_set_in_lanes_of_64(self, block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        let (lanes, _) = block.as_chunks::<8>();
        lanes.iter().zip(multipliers).all(|(lane, &multiplier)| {
            let bit = factor.wrapping_mul(multiplier) >> 26;
            u64::from_le_bytes(*lane) >> bit & 1 == 1
        })
    }

    #[inline(always)]
    fn set_in_line(self, line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        let mut were_set = 1;
        for &multiplier in multipliers.iter().take(count as usize) {
            // The words are little-endian, so bit `b` of word `w` is bit `i % 8` of byte `i / 8`,
            // with `i = 32 w + b`.
            let bit = factor.wrapping_mul(multiplier) >> 23;
            if let Some(byte) = line.get_mut(bit as usize / 8) {
                were_set &= *byte >> (bit % 8);
                *byte |= 1 << (bit % 8);
            }
        }
        were_set == 1
    }

    #[inline(always)]
    fn set_in_lanes_of_32(self, block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        let (lanes, _) = block.as_chunks_mut::<4>();
        let mut missing = 0;
        for (lane, &multiplier) in lanes.iter_mut().zip(multipliers) {
            let (before, wanted) = (u32::from_le_bytes(*lane), 1 << (factor.wrapping_mul(multiplier) >> 27));
            missing |= wanted & !before;
            *lane = (before | wanted).to_le_bytes();
        }
        missing == 0
    }

    #[inline(always)]
    fn set_in_lanes_of_64(self, block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        let (lanes, _) = block.as_chunks_mut::<8>();
        let mut missing = 0;
        for (lane, &multiplier) in lanes.iter_mut().zip(multipliers) {
            let (before, wanted) = (u64::from_le_bytes(*lane), 1 << (factor.wrapping_mul(multiplier) >> 26));
            missing |= wanted & !before;
            *lane = (before | wanted).to_le_bytes();
        }
        missing == 0
    }

    #[inline(always)]
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        let (a, _) = a.as_chunks::<8>();
        let (b, _) = b.as_chunks::<8>();
        let mut words = [0; 8];
        for ((word, a), b) in words.iter_mut().zip(a).zip(b) {
            *word = u64::from_le_bytes(*a) & low ^ u64::from_le_bytes(*b) & high;
        }
        parities(&words)
    }

    /// Computes the parities in a loop without a branch on a parity. The processor cannot predict a
    /// parity, so an exit at the first parity that denies the key would cost one mispredicted
    /// branch per absent key.
    #[inline(always)]
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], [first, second]: [u128; 2]) -> u32 {
        let mut bits = 0;
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            bits |= parity(u128::from_le_bytes(*a) & first ^ u128::from_le_bytes(*b) & second) << i;
        }
        bits
    }
}

/// Returns 1 if the number of ones is odd, and 0 if it is even.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "splits the word into its halves")]
pub fn parity(word: u128) -> u32 {
    (word as u64 ^ (word >> 64) as u64).count_ones() & 1
}

/// Returns the parities of eight words: bit `j` is the parity of word `j`.
///
/// Each round XORs the halves of every word and joins the results in pairs. After three rounds, one
/// word has a byte for each of the eight words.
#[inline(always)]
pub fn parities(words: &[u64; 8]) -> u32 {
    let [a, b, c, d, e, f, g, h] = *words;
    let join =
        |low: u64, high: u64, bits: u32, mask: u64| ((low ^ (low >> bits)) & mask) | ((high ^ (high << bits)) & !mask);
    let half = 0x0000_0000_ffff_ffff;
    let quarter = 0x0000_ffff_0000_ffff;
    let eighth = 0x00ff_00ff_00ff_00ff;
    // These pairs put what is left of word `j` into byte `j` of `bytes`.
    let low = join(join(a, e, 32, half), join(c, g, 32, half), 16, quarter);
    let high = join(join(b, f, 32, half), join(d, h, 32, half), 16, quarter);
    let mut bytes = join(low, high, 8, eighth);
    bytes ^= bytes >> 4;
    bytes ^= bytes >> 2;
    bytes ^= bytes >> 1;
    // The multiplication gathers the lowest bits of the eight bytes in the highest byte.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// Returns the position of the 1 bit that has `rank` 1 bits below it, or 64 if there is no such
/// bit. (Vigna, "Broadword implementation of rank/select queries", 2008.)
#[inline(always)]
pub(super) fn select(word: u64, rank: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // Byte `i` of `sums` is the number of ones in bytes 0 to `i` of `word`.
    let sums = bytes.wrapping_mul(ONES);
    if u64::from(rank) >= sums >> 56 {
        return u64::BITS;
    }
    // The bytes whose number in `sums` is at most `rank` lie before the byte with the wanted bit.
    let before = ((((u64::from(rank) * ONES) | TOPS) - sums) & TOPS).count_ones() * 8;
    let mut rest = (word >> before) & 0xff;
    for _ in (((sums << 8) >> before) & 0xff)..rank.into() {
        rest &= rest - 1;
    }
    before + rest.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_equal_counted_parities() {
        let mut x = 1u64;
        for _ in 0..1_000 {
            let words: [u64; 8] = std::array::from_fn(|_| {
                x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ 0x55;
                x
            });
            let counted = words.iter().enumerate().fold(0, |bits, (j, word)| bits | (word.count_ones() & 1) << j);
            assert_eq!(parities(&words), counted);
        }
    }
}
