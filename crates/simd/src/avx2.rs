//! Implements the primitives for AVX2.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_cvtepu32_epi64, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_permute4x64_epi64,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi8,
    _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_shuffle_ps, _mm256_slli_epi32,
    _mm256_sllv_epi32, _mm256_sllv_epi64, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_storeu_si256,
    _mm256_testc_si256, _mm256_testz_si256, _mm256_xor_si256, _pdep_u64,
};

use super::{Portable, Simd};

/// Proof that the processor has AVX2, BMI1, BMI2 and POPCNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let has_it = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has_it.then_some(Self(()))
    }

    /// Makes the proof inside a function that runs only on a processor with these features.
    ///
    /// # Safety
    /// The processor must have the features. A caller that enables them itself needs no `unsafe`.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn here() -> Self {
        Self(())
    }
}

impl Simd for Avx2 {
    #[inline(always)]
    fn all_set_in_line(self, line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        // SAFETY: a value of this type exists only where the processor has the features.
        unsafe { all_set_in_line(line, factor, multipliers, count) }
    }

    #[inline(always)]
    fn all_set_in_lanes_of_32(self, block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        // SAFETY: see `all_set_in_line` above.
        unsafe { all_set_in_lanes_of_32(block, factor, multipliers) }
    }

    #[inline(always)]
    fn all_set_in_lanes_of_64(self, block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        // SAFETY: see `all_set_in_line` above.
        unsafe { all_set_in_lanes_of_64(block, factor, multipliers) }
    }

    #[inline(always)]
    fn set_in_line(self, line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        // SAFETY: see `all_set_in_line` above.
        unsafe { set_in_line(line, factor, multipliers, count) }
    }

    #[inline(always)]
    fn set_in_lanes_of_32(self, block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        // SAFETY: see `all_set_in_line` above.
        unsafe { set_in_lanes_of_32(block, factor, multipliers) }
    }

    #[inline(always)]
    fn set_in_lanes_of_64(self, block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        // SAFETY: see `all_set_in_line` above.
        unsafe { set_in_lanes_of_64(block, factor, multipliers) }
    }

    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        // SAFETY: a value of this type exists only where the processor has the features.
        unsafe { select(word, rank) }
    }

    #[inline(always)]
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: see `all_set_in_line` above.
        unsafe { parities_of_64(a, b, low, high) }
    }

    /// Calls the portable code, in which the compiler counts ones with one instruction.
    #[inline(always)]
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32 {
        Portable.parities_of_128(a, b, masks)
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_set_in_line(line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
    let factor = _mm256_set1_epi32(factor.cast_signed());
    let (low, high) = line.split_at(32);
    let (first, second) = multipliers.split_at(8);
    let (low, high) = (load(low), load(high));
    let mut all_set = eight_set(low, high, _mm256_mullo_epi32(factor, load(first)), count);
    if count > 8 {
        all_set &= eight_set(low, high, _mm256_mullo_epi32(factor, load(second)), count - 8);
    }
    all_set
}

/// Returns whether the first `count` of eight bits are set. A `count` above 8 means all eight bits.
#[inline]
#[target_feature(enable = "avx2")]
fn eight_set(low: __m256i, high: __m256i, products: __m256i, count: u32) -> bool {
    // The permutation uses three bits of each index. The fourth bit selects the half of the line.
    // It is the sign bit of the product, which controls the blend.
    let index = _mm256_srli_epi32::<28>(products);
    let low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, index));
    let high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, index));
    let words = _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(products)));
    let bits = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(products));
    let wanted = _mm256_sllv_epi32(_mm256_set1_epi32(1), bits);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let active = _mm256_cmpgt_epi32(_mm256_set1_epi32(count.cast_signed()), lanes);
    _mm256_testc_si256(words, _mm256_and_si256(wanted, active)) == 1
}

/// Collects the bits in registers and writes the line once. If it wrote bit by bit, each load would
/// wait for the store before it.
#[inline]
#[target_feature(enable = "avx2")]
fn set_in_line(line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
    let low_words = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let high_words = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    let mut wanted = [_mm256_setzero_si256(); 2];
    for &multiplier in multipliers.iter().take(count as usize) {
        let product = factor.wrapping_mul(multiplier);
        let word = _mm256_set1_epi32((product >> 28).cast_signed());
        let bit = _mm256_set1_epi32(1 << (product >> 23 & 31));
        for (wanted, words) in wanted.iter_mut().zip([low_words, high_words]) {
            *wanted = _mm256_or_si256(*wanted, _mm256_and_si256(bit, _mm256_cmpeq_epi32(word, words)));
        }
    }
    let (low, high) = line.split_at_mut(32);
    let before = [load(low), load(high)];
    store(low, _mm256_or_si256(before[0], wanted[0]));
    store(high, _mm256_or_si256(before[1], wanted[1]));
    are_all_set(before, wanted)
}

/// Loads 32 bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T: Copy>(values: &[T]) -> __m256i {
    debug_assert_eq!(size_of_val(values), 32);
    // SAFETY: every caller passes exactly 32 bytes (half of 64 bytes, all of 32, or eight
    // multipliers), and the load works at any alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_set_in_lanes_of_32(block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    _mm256_testc_si256(load(block), wanted_of_32(factor, multipliers)) == 1
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_set_in_lanes_of_64(block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = block.split_at(32);
    are_all_set([load(low), load(high)], wanted_of_64(factor, multipliers))
}

#[inline]
#[target_feature(enable = "avx2")]
fn set_in_lanes_of_32(block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (before, wanted) = (load(block), wanted_of_32(factor, multipliers));
    store(block, _mm256_or_si256(before, wanted));
    _mm256_testc_si256(before, wanted) == 1
}

#[inline]
#[target_feature(enable = "avx2")]
fn set_in_lanes_of_64(block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = block.split_at_mut(32);
    let (before, wanted) = ([load(low), load(high)], wanted_of_64(factor, multipliers));
    store(low, _mm256_or_si256(before[0], wanted[0]));
    store(high, _mm256_or_si256(before[1], wanted[1]));
    are_all_set(before, wanted)
}

/// Returns a vector of 32-bit lanes with one bit set in each lane, the key's bit.
#[inline]
#[target_feature(enable = "avx2")]
fn wanted_of_32(factor: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(products(factor, multipliers)))
}

/// Returns two vectors of four 64-bit lanes with one bit set in each lane, the key's bit.
#[inline]
#[target_feature(enable = "avx2")]
fn wanted_of_64(factor: u32, multipliers: &[u32; 8]) -> [__m256i; 2] {
    let bits = _mm256_srli_epi32::<26>(products(factor, multipliers));
    let one = _mm256_set1_epi64x(1);
    let low = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bits)));
    let high = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(bits)));
    [low, high]
}

/// Returns whether all wanted bits are set. One test covers both halves, because the processor
/// cannot predict which half misses a bit.
#[inline]
#[target_feature(enable = "avx2")]
fn are_all_set(lanes: [__m256i; 2], wanted: [__m256i; 2]) -> bool {
    let missing = _mm256_or_si256(_mm256_andnot_si256(lanes[0], wanted[0]), _mm256_andnot_si256(lanes[1], wanted[1]));
    _mm256_testz_si256(missing, missing) == 1
}

/// Stores a vector in 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8], vector: __m256i) {
    debug_assert_eq!(bytes.len(), 32);
    // SAFETY: every caller passes exactly 32 bytes (half of 64 bytes, or all of 32), and the store
    // works at any alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn products(factor: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_mullo_epi32(_mm256_set1_epi32(factor.cast_signed()), load(multipliers))
}

/// Returns the parity of each of eight words. The function folds each word to 32 bits, so that one
/// vector has all words. It then folds each word to four bits, and looks up the parity of these
/// bits in a table. A table of counts, whose values are added up per word, would take four more
/// instructions.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn parities_of_64(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let (low, high) = (_mm256_set1_epi64x(low.cast_signed()), _mm256_set1_epi64x(high.cast_signed()));
    let mixed = |a: &[u8], b: &[u8]| _mm256_xor_si256(_mm256_and_si256(load(a), low), _mm256_and_si256(load(b), high));
    let ((a, a_rest), (b, b_rest)) = (a.split_at(32), b.split_at(32));
    let front = _mm256_castsi256_ps(mixed(a, b));
    let back = _mm256_castsi256_ps(mixed(a_rest, b_rest));
    // `lows` has the low halves of all words, and `highs` has the high halves. In both vectors, the
    // words are in the order 0 1 4 5 2 3 6 7.
    let lows = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(front, back));
    let highs = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(front, back));
    let folded = _mm256_xor_si256(lows, highs);
    let folded = _mm256_xor_si256(folded, _mm256_slli_epi32::<16>(folded));
    let folded = _mm256_xor_si256(folded, _mm256_slli_epi32::<8>(folded));
    let nibbles = _mm256_and_si256(_mm256_xor_si256(folded, _mm256_srli_epi16::<4>(folded)), _mm256_set1_epi8(0x0f));
    const ODD: i8 = i8::MIN;
    let odd = _mm256_setr_epi8(
        0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0, //
        0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0,
    );
    let parities = _mm256_shuffle_epi8(odd, nibbles);
    let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(parities);
    _mm256_movemask_ps(_mm256_castsi256_ps(in_order)).cast_unsigned()
}

#[inline]
#[target_feature(enable = "bmi1,bmi2")]
pub(super) fn select(word: u64, rank: u32) -> u32 {
    _pdep_u64(1u64.checked_shl(rank).unwrap_or_default(), word).trailing_zeros()
}
