//! The primitives for AVX2.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_cvtepu32_epi64, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_permutevar8x32_epi32,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setr_epi32, _mm256_shuffle_epi8,
    _mm256_slli_epi32, _mm256_slli_epi64, _mm256_sllv_epi32, _mm256_sllv_epi64, _mm256_srli_epi16, _mm256_srli_epi32,
    _mm256_srli_epi64, _mm256_testc_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use super::{Portable, Simd};

/// Proof that the processor has AVX2, BMI1, BMI2 and POPCNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let has_it = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has_it.then_some(Self(()))
    }

    /// Makes the proof inside a function that runs only on a processor with these features.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(crate) fn here() -> Self {
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
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: see `all_set_in_line` above.
        unsafe { parities_of_64(a, b, low, high) }
    }

    /// Calls the portable code, compiled to count ones with one instruction.
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

/// Tests eight bits at once. The top four bits of each product select one of the line's sixteen
/// words, and the next five bits select a bit of that word. One instruction tests all eight bits.
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

/// Loads 32 bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T: Copy>(values: &[T]) -> __m256i {
    debug_assert_eq!(size_of_val(values), 32);
    // SAFETY: every caller passes exactly 32 bytes (half of 64 bytes, or eight multipliers), and
    // the load works at any alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_set_in_lanes_of_32(block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    let wanted = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(products(factor, multipliers)));
    _mm256_testc_si256(load(block), wanted) == 1
}

/// Tests four lanes at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn all_set_in_lanes_of_64(block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = block.split_at(32);
    let bits = _mm256_srli_epi32::<26>(products(factor, multipliers));
    let one = _mm256_set1_epi64x(1);
    let low_wanted = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bits)));
    let high_wanted = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(bits)));
    // One branch for both halves: which half misses a bit is as good as random.
    let missing =
        _mm256_or_si256(_mm256_andnot_si256(load(low), low_wanted), _mm256_andnot_si256(load(high), high_wanted));
    _mm256_testz_si256(missing, missing) == 1
}

#[inline]
#[target_feature(enable = "avx2")]
fn products(factor: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_mullo_epi32(_mm256_set1_epi32(factor.cast_signed()), load(multipliers))
}

/// Folds each word to 32 bits, joins two words into one, folds each word to four bits, and looks up
/// the parity of these bits in a table. Adding up table counts per word would take four more
/// instructions.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn parities_of_64(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let (low, high) = (_mm256_set1_epi64x(low.cast_signed()), _mm256_set1_epi64x(high.cast_signed()));
    let mixed = |a: &[u8], b: &[u8]| _mm256_xor_si256(_mm256_and_si256(load(a), low), _mm256_and_si256(load(b), high));
    let ((a, a_rest), (b, b_rest)) = (a.split_at(32), b.split_at(32));
    let (front, back) = (mixed(a, b), mixed(a_rest, b_rest));
    let front = _mm256_xor_si256(front, _mm256_srli_epi64::<32>(front));
    let back = _mm256_xor_si256(back, _mm256_slli_epi64::<32>(back));
    // The words are in the order 0 4 1 5 2 6 3 7.
    let folded = _mm256_blend_epi32::<0b1010_1010>(front, back);
    let folded = _mm256_xor_si256(folded, _mm256_slli_epi32::<16>(folded));
    let folded = _mm256_xor_si256(folded, _mm256_slli_epi32::<8>(folded));
    let nibbles = _mm256_and_si256(_mm256_xor_si256(folded, _mm256_srli_epi16::<4>(folded)), _mm256_set1_epi8(0x0f));
    const ODD: i8 = i8::MIN;
    let odd = _mm256_setr_epi8(
        0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0, //
        0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0,
    );
    let parities = _mm256_shuffle_epi8(odd, nibbles);
    let in_order = _mm256_permutevar8x32_epi32(parities, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    _mm256_movemask_ps(_mm256_castsi256_ps(in_order)).cast_unsigned()
}
