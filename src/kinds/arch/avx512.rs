//! AVX-512 kernels.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, __m512i, _bzhi_u32, _mm_set_epi64x, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_set1_epi32,
    _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_testc_si256, _mm512_and_si512, _mm512_broadcast_i64x2,
    _mm512_cvtepu32_epi64, _mm512_loadu_si512, _mm512_mask_testn_epi32_mask, _mm512_maskz_loadu_epi64,
    _mm512_mullo_epi32, _mm512_permutexvar_epi32, _mm512_popcnt_epi64, _mm512_rolv_epi32, _mm512_set1_epi32,
    _mm512_set1_epi64, _mm512_sllv_epi64, _mm512_srli_epi32, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
    _mm512_testn_epi64_mask, _mm512_xor_si512, _pext_u32,
};

use super::super::Geometry;
use super::super::blocked_bloom::{LINE_LEN_BYTES, MULTIPLIERS, fold, line_within};
use super::super::bumped_ribbon::{Geometry as Ribbon, Parities};
use super::super::ribbon::picks;
use super::super::split_block::{Lanes, NARROW_LEN_BYTES, WIDE_LEN_BYTES, multipliers};
use super::ask::{Kernel, kernels};
use super::{in_batches, ribbon_in_batches};
use crate::hash::KeyHash;

/// Proof that the processor has AVX-512 F, BW, VL, DQ and VPOPCNTDQ (servers since Ice Lake and Zen 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn new() -> Option<Self> {
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

    /// See [`super::line_may_contain`].
    #[inline]
    pub(super) fn line(self, bytes: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
        // SAFETY: a value of this type exists only where the features were detected.
        unsafe { line(bytes, probes, hash) }
    }

    /// See [`super::lines_may_contain`].
    #[inline]
    pub(super) fn lines(self, payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
        // SAFETY: as in line.
        unsafe { lines(payload, probes, hashes, answers) }
    }

    /// See [`super::ribbon_bits`].
    #[inline]
    pub(super) fn ribbon_bits(self, first: &[u8], second: &[u8], coefficients: u128, shift: u32) -> u32 {
        // SAFETY: as in line.
        unsafe { ribbon_bits(first, second, coefficients, shift) }
    }

    /// See [`super::block_may_contain`].
    #[inline]
    pub(super) fn narrow(self, block: &[u8; NARROW_LEN_BYTES], hash: KeyHash) -> bool {
        // SAFETY: as in line.
        unsafe { narrow(block, hash) }
    }

    /// See [`super::block_may_contain`].
    #[inline]
    pub(super) fn wide(self, block: &[u8; WIDE_LEN_BYTES], hash: KeyHash) -> bool {
        // SAFETY: as in line.
        unsafe { wide(block, hash) }
    }

    /// See [`super::blocks_may_contain`].
    #[inline]
    pub(super) fn narrow_batch(self, payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
        // SAFETY: as in line.
        unsafe { narrow_batch(payload, hashes, answers) }
    }

    /// See [`super::blocks_may_contain`].
    #[inline]
    pub(super) fn wide_batch(self, payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
        // SAFETY: as in line.
        unsafe { wide_batch(payload, hashes, answers) }
    }

    /// See [`super::products_in_line`].
    #[cfg(feature = "foreign")]
    #[inline]
    pub(super) fn products_in_line(
        self,
        line: &[u8; LINE_LEN_BYTES],
        probes: u32,
        folded: u32,
        multipliers: &[u32; 16],
    ) -> bool {
        // SAFETY: as in line.
        unsafe { products_in_line(line, probes, folded, multipliers) }
    }

    /// See [`super::products_in_block`].
    #[cfg(feature = "foreign")]
    #[inline]
    pub(super) fn products_in_block(self, block: &[u8; NARROW_LEN_BYTES], folded: u32, multipliers: &[u32; 8]) -> bool {
        // SAFETY: as in line.
        unsafe { products_in_block(block, folded, multipliers) }
    }

    /// See [`super::ribbon_may_contain`].
    #[inline]
    pub(super) fn ribbon(self, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
        // SAFETY: as in line.
        unsafe { ribbon_query(self, ribbon, bytes, hash, groups) }
    }

    /// See [`super::ribbon_may_contain_batch`].
    #[inline]
    pub(super) fn ribbon_batch(self, ribbon: &Ribbon, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
        // SAFETY: as in line.
        unsafe { ribbon_batch(self, ribbon, bytes, hashes, answers) }
    }
}

#[target_feature(enable = "avx512f,bmi2")]
fn lines(payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |bytes, hash| line(bytes, probes, hash));
}

/// All sixteen probes at once: a permutation picks one of the line's sixteen words by four bits, and rotations count
/// modulo 32, so that the bits of the product above the bit's number need not be cleared.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn line(line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    products_in_line(line, probes, fold(hash), &MULTIPLIERS)
}

#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn products_in_line(line: &[u8; LINE_LEN_BYTES], probes: u32, folded: u32, multipliers: &[u32; 16]) -> bool {
    let products = _mm512_mullo_epi32(_mm512_set1_epi32(folded.cast_signed()), load(multipliers));
    let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<28>(products), load(line));
    let wanted = _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32::<23>(products));
    #[expect(clippy::cast_possible_truncation, reason = "one bit for each of up to sixteen probes")]
    let active = _bzhi_u32(u32::MAX, probes) as u16;
    _mm512_mask_testn_epi32_mask(active, words, wanted) == 0
}

/// Sixty-four bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Copy, const N: usize>(values: &[T; N]) -> __m512i {
    const { assert!(size_of::<T>() * N == 64) };
    // SAFETY: the values have 64 bytes, and the load has no alignment to keep.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn narrow_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| narrow(block, hash));
}

#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn wide_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| wide(block, hash));
}

/// One bit in each of eight lanes of 32: a product for each, a shift, and a test.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn narrow(block: &[u8; NARROW_LEN_BYTES], hash: KeyHash) -> bool {
    products_in_block(block, fold(hash), multipliers())
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn products_in_block(block: &[u8; NARROW_LEN_BYTES], folded: u32, multipliers: &[u32; 8]) -> bool {
    let wanted = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(lane_products(folded, multipliers)));
    _mm256_testc_si256(load_half(block), wanted) == 1
}

/// The same in lanes of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn wide(block: &[u8; WIDE_LEN_BYTES], hash: KeyHash) -> bool {
    let bits = _mm512_cvtepu32_epi64(_mm256_srli_epi32::<26>(lane_products(fold(hash), multipliers())));
    let wanted = _mm512_sllv_epi64(_mm512_set1_epi64(1), bits);
    _mm512_testn_epi64_mask(load(block), wanted) == 0
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
fn lane_products(folded: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_mullo_epi32(_mm256_set1_epi32(folded.cast_signed()), load_half(multipliers))
}

/// Thirty-two bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn load_half<T: Copy, const N: usize>(values: &[T; N]) -> __m256i {
    const { assert!(size_of::<T>() * N == 32) };
    // SAFETY: the values have 32 bytes, and the load has no alignment to keep.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// Four columns at a time: the parities of eight halves of words as a mask, and of each two neighbours the sum.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,bmi2")]
fn ribbon_bits(first: &[u8], second: &[u8], coefficients: u128, shift: u32) -> u32 {
    const STEP_LEN_BYTES: usize = 64;
    let len = first.len().min(second.len());
    // From integer registers: a vector load of bytes that were just stored as two integers would wait for the cache.
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    let broadcast = |pick: u128| {
        _mm512_broadcast_i64x2(_mm_set_epi64x(((pick >> 64) as u64).cast_signed(), (pick as u64).cast_signed()))
    };
    let [first_picks, second_picks] = picks(coefficients, shift).map(broadcast);
    let one = _mm512_set1_epi64(1);
    let mut bits = 0;
    for (step, start) in (0..len).step_by(STEP_LEN_BYTES).enumerate() {
        let lanes = ((len - start) / 8).min(8);
        let present = u8::MAX >> (8 - lanes);
        // SAFETY: only lanes that are present are read, and those end at or before `len` of both slices.
        let (first, second) = unsafe {
            (
                _mm512_maskz_loadu_epi64(present, first.as_ptr().add(start).cast()),
                _mm512_maskz_loadu_epi64(present, second.as_ptr().add(start).cast()),
            )
        };
        let picked = _mm512_xor_si512(_mm512_and_si512(first, first_picks), _mm512_and_si512(second, second_picks));
        let odd = u32::from(_mm512_test_epi64_mask(_mm512_popcnt_epi64(picked), one));
        bits |= _pext_u32(odd ^ odd >> 1, 0b0101_0101) << (4 * step);
    }
    bits
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn ribbon_query(proof: Avx512, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
    ribbon.ask(proof, bytes, hash, groups)
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn ribbon_batch(proof: Avx512, ribbon: &Ribbon, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    ribbon_in_batches(proof, ribbon, bytes, hashes, answers);
}

kernels!(Avx512, "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt");

impl Parities for Avx512 {
    #[inline(always)]
    fn of_blocks(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: a value of this type exists only where the features were detected.
        unsafe { parities(a, b, low, high) }
    }
}

/// Parity is the lowest bit of a population count.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn parities(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let first = _mm512_and_si512(load(a), _mm512_set1_epi64(low.cast_signed()));
    // first ^ (b & high)
    let sums = _mm512_ternarylogic_epi64::<0x78>(first, load(b), _mm512_set1_epi64(high.cast_signed()));
    _mm512_test_epi64_mask(_mm512_popcnt_epi64(sums), _mm512_set1_epi64(1)).into()
}
