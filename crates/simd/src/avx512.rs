//! Implements the primitives for AVX-512.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, __m512i, _bzhi_u32, _mm_set_epi64x, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_or_si256,
    _mm256_set1_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_testc_si256, _mm512_add_epi64,
    _mm512_and_si512, _mm512_andnot_si512, _mm512_broadcast_i64x2, _mm512_cmpeq_epi32_mask, _mm512_cvtepu32_epi64,
    _mm512_loadu_si512, _mm512_mask_or_epi32, _mm512_mask_srli_epi32, _mm512_mask_testn_epi32_mask,
    _mm512_maskz_loadu_epi64, _mm512_maskz_mov_epi64, _mm512_mullo_epi32, _mm512_or_si512, _mm512_permutexvar_epi32,
    _mm512_popcnt_epi64, _mm512_rolv_epi32, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setr_epi32,
    _mm512_setzero_si512, _mm512_sllv_epi64, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    _mm512_test_epi64_mask, _mm512_testn_epi64_mask, _mm512_xor_si512, _pext_u32,
};

use super::Simd;
use super::avx2::select;

/// Proof that the processor has AVX-512 F, BW, VL, DQ and VPOPCNTDQ, BMI1, BMI2 and POPCNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let has_it = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vpopcntdq")
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
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    pub fn here() -> Self {
        Self(())
    }
}

impl Simd for Avx512 {
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

    #[inline(always)]
    fn substitute(self, state: &mut [u64; 8], steps: impl Iterator<Item = (u64, u8)>) {
        // SAFETY: see `all_set_in_line` above.
        unsafe { substitute(state, steps) }
    }

    #[inline(always)]
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32 {
        // SAFETY: see `all_set_in_line` above.
        unsafe { parities_of_128(a, b, masks) }
    }
}

/// Tests up to sixteen bits of a line at once. A rotation counts modulo 32, so the bits above the
/// bit number need no mask.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn all_set_in_line(line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
    let products = _mm512_mullo_epi32(_mm512_set1_epi32(factor.cast_signed()), load(multipliers));
    let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<28>(products), load(line));
    let wanted = _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32::<23>(products));
    #[expect(clippy::cast_possible_truncation, reason = "the mask has one bit for each of at most sixteen products")]
    let active = _bzhi_u32(u32::MAX, count) as u16;
    _mm512_mask_testn_epi32_mask(active, words, wanted) == 0
}

/// Collects the bits in a register and writes the line once. If it wrote bit by bit, each load
/// would wait for the store before it.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn set_in_line(line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
    let products = _mm512_mullo_epi32(_mm512_set1_epi32(factor.cast_signed()), load(multipliers));
    // No word has the number 16, so products beyond the count set no bit.
    #[expect(clippy::cast_possible_truncation, reason = "the mask has one bit for each of at most sixteen products")]
    let active = _bzhi_u32(u32::MAX, count) as u16;
    let words = _mm512_mask_srli_epi32::<28>(_mm512_set1_epi32(16), active, products);
    let bits = _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32::<23>(products));
    let mut wanted = eight_bits::<0>(_mm512_setzero_si512(), words, bits);
    if count > 8 {
        wanted = eight_bits::<8>(wanted, words, bits);
    }
    let before = load(line);
    // SAFETY: the line has 64 bytes, and the store works at any alignment.
    unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), _mm512_or_si512(before, wanted)) };
    let missing = _mm512_andnot_si512(before, wanted);
    _mm512_test_epi64_mask(missing, missing) == 0
}

/// Returns `line` with up to eight more bits set, for the eight `i` from `FIRST` on. `bits[i]` has
/// the bit to set in word number `words[i]`. If there is no such word, no bit is set.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight_bits<const FIRST: i32>(mut line: __m512i, words: __m512i, bits: __m512i) -> __m512i {
    let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for i in FIRST..FIRST + 8 {
        let i = everywhere(i);
        let is_here = _mm512_cmpeq_epi32_mask(_mm512_permutexvar_epi32(i, words), numbers);
        line = _mm512_mask_or_epi32(line, is_here, line, _mm512_permutexvar_epi32(i, bits));
    }
    line
}

/// Returns a vector with `value` in all words. The compiler must not know the value: it would
/// replace a permutation with known indices by three shuffles.
#[inline]
#[target_feature(enable = "avx512f")]
fn everywhere(value: i32) -> __m512i {
    let mut vector = _mm512_set1_epi32(value);
    // SAFETY: the assembly is a comment and contains no instruction.
    unsafe { std::arch::asm!("/* {0} */", inlateout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags)) };
    vector
}

/// Loads 64 bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Copy, const N: usize>(values: &[T; N]) -> __m512i {
    const { assert!(size_of::<T>() * N == 64) };
    // SAFETY: the values have 64 bytes, and the load works at any alignment.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn all_set_in_lanes_of_32(block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    _mm256_testc_si256(load_half(block), wanted_of_32(factor, multipliers)) == 1
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn all_set_in_lanes_of_64(block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    _mm512_testn_epi64_mask(load(block), wanted_of_64(factor, multipliers)) == 0
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn set_in_lanes_of_32(block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (before, wanted) = (load_half(block), wanted_of_32(factor, multipliers));
    // SAFETY: the block has 32 bytes, and the store works at any alignment.
    unsafe { _mm256_storeu_si256(block.as_mut_ptr().cast(), _mm256_or_si256(before, wanted)) };
    _mm256_testc_si256(before, wanted) == 1
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn set_in_lanes_of_64(block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (before, wanted) = (load(block), wanted_of_64(factor, multipliers));
    // SAFETY: the block has 64 bytes, and the store works at any alignment.
    unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), _mm512_or_si512(before, wanted)) };
    _mm512_testn_epi64_mask(before, wanted) == 0
}

/// Returns a vector of 32-bit lanes with one bit set in each lane, the key's bit.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn wanted_of_32(factor: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(products(factor, multipliers)))
}

/// Returns a vector of 64-bit lanes with one bit set in each lane, the key's bit.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn wanted_of_64(factor: u32, multipliers: &[u32; 8]) -> __m512i {
    let bits = _mm512_cvtepu32_epi64(_mm256_srli_epi32::<26>(products(factor, multipliers)));
    _mm512_sllv_epi64(_mm512_set1_epi64(1), bits)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn products(factor: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_mullo_epi32(_mm256_set1_epi32(factor.cast_signed()), load_half(multipliers))
}

/// Loads 32 bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn load_half<T: Copy, const N: usize>(values: &[T; N]) -> __m256i {
    const { assert!(size_of::<T>() * N == 32) };
    // SAFETY: the values have 32 bytes, and the load works at any alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// Returns the parity of each of eight words, which is the lowest bit of its population count.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn parities_of_64(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let first = _mm512_and_si512(load(a), _mm512_set1_epi64(low.cast_signed()));
    // This computes first ^ (b & high).
    let mixed = _mm512_ternarylogic_epi64::<0x78>(first, load(b), _mm512_set1_epi64(high.cast_signed()));
    _mm512_test_epi64_mask(_mm512_popcnt_epi64(mixed), _mm512_set1_epi64(1)).into()
}

/// Takes the steps with the words in a register. The new words of a step depend on its old words
/// through a chain of three instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn substitute(state: &mut [u64; 8], steps: impl Iterator<Item = (u64, u8)>) {
    let (one, top) = (_mm512_set1_epi64(1), _mm512_set1_epi64(i64::MIN));
    let mut words = load(state);
    for (coefficients, bits) in steps {
        // The lowest coefficient selects the new bit, which is still 0, so `others` leaves this
        // coefficient out. The highest bit of `others` is therefore 0. The right-hand side goes
        // into the highest bit of `words & others`.
        let others = _mm512_set1_epi64((coefficients >> 1).cast_signed());
        let added = _mm512_maskz_mov_epi64(bits, top);
        // This computes (words & others) | added.
        let counted = _mm512_popcnt_epi64(_mm512_ternarylogic_epi64::<0xea>(words, others, added));
        // This computes words << 1 | (counted & 1).
        words = _mm512_ternarylogic_epi64::<0xf8>(_mm512_add_epi64(words, words), counted, one);
    }
    // SAFETY: the state has 64 bytes, and the store works at any alignment.
    unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), words) };
}

/// Computes the parities of four words at a time. One mask has the parities of eight halves, and
/// the parity of a word is the XOR of the parities of its halves.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,bmi2")]
fn parities_of_128(a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32 {
    const STEP: usize = 4;
    let words = a.len().min(b.len());
    // The masks come from integer registers: a vector load of bytes that were just stored as two
    // integers would stall.
    #[expect(clippy::cast_possible_truncation, reason = "splits the mask into its halves")]
    let broadcast = |mask: u128| {
        _mm512_broadcast_i64x2(_mm_set_epi64x(((mask >> 64) as u64).cast_signed(), (mask as u64).cast_signed()))
    };
    let [first_mask, second_mask] = masks.map(broadcast);
    let one = _mm512_set1_epi64(1);
    let mut bits = 0;
    for (step, start) in (0..words).step_by(STEP).enumerate() {
        let halves = 2 * (words - start).min(STEP);
        let present = u8::MAX >> (8 - halves);
        // SAFETY: each load reads only the halves that are present, which are halves of the first
        // `words` words of a slice. Both slices have at least `words` words.
        let (a, b) = unsafe {
            (
                _mm512_maskz_loadu_epi64(present, a.as_ptr().add(start).cast()),
                _mm512_maskz_loadu_epi64(present, b.as_ptr().add(start).cast()),
            )
        };
        let mixed = _mm512_xor_si512(_mm512_and_si512(a, first_mask), _mm512_and_si512(b, second_mask));
        let odd = u32::from(_mm512_test_epi64_mask(_mm512_popcnt_epi64(mixed), one));
        bits |= _pext_u32(odd ^ odd >> 1, 0b0101_0101) << (STEP * step);
    }
    bits
}
