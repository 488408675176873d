//! AVX2 kernels.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_and_si256, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmpgt_epi32, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_epi32,
    _mm256_setr_epi32, _mm256_slli_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_testc_si256,
};

use super::super::blocked::{LINE_LEN_BYTES, MULTIPLIERS, fold, line_offset};
use super::Isa;
use crate::hash::KeyHash;

/// Lines that are under way at once in a batch: enough to hide a miss, few enough for the line-fill buffers and L1.
const BATCH: usize = 32;

/// See [`super::line_may_contain`].
#[inline]
pub(super) fn line_may_contain(_proof: Isa, line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    // SAFETY: the caller dispatches here on an Isa that names AVX2, and such a value exists only where it was detected.
    unsafe { line_avx2(line, probes, hash) }
}

/// See [`super::lines_may_contain`].
pub(super) fn lines_may_contain(_proof: Isa, payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    // SAFETY: as in line_may_contain.
    unsafe { lines_avx2(payload, probes, hashes, answers) }
}

#[target_feature(enable = "avx2")]
fn lines_avx2(payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        for &hash in hashes {
            prefetch(payload, line_offset(payload, hash));
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            let line = payload.get(line_offset(payload, hash)..).and_then(<[u8]>::first_chunk);
            *answer = line.is_none_or(|line| line_avx2(line, probes, hash));
        }
    }
}

/// Eight probes at once: multiply, take the word that the top four bits name from the line's sixteen, the bit that the
/// next five name within it, and test all with one instruction.
#[inline]
#[target_feature(enable = "avx2")]
fn line_avx2(line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    let folded = _mm256_set1_epi32(fold(hash).cast_signed());
    let (low, high) = line.split_at(LINE_LEN_BYTES / 2);
    let (first, second) = MULTIPLIERS.split_at(8);
    let (low, high) = (load(low), load(high));
    let mut all_set = probe_eight(low, high, _mm256_mullo_epi32(folded, load(first)), probes);
    if probes > 8 {
        all_set &= probe_eight(low, high, _mm256_mullo_epi32(folded, load(second)), probes - 8);
    }
    all_set
}

#[inline]
#[target_feature(enable = "avx2")]
fn probe_eight(low: __m256i, high: __m256i, products: __m256i, probes: u32) -> bool {
    // The permutation looks at three bits of each index; the fourth, which says in which half of the line the word
    // lies, is the sign bit of the product, and that is what the blend looks at.
    let index = _mm256_srli_epi32::<28>(products);
    let low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, index));
    let high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, index));
    let words = _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(products)));
    let bits = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(products));
    let wanted = _mm256_sllv_epi32(_mm256_set1_epi32(1), bits);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let active = _mm256_cmpgt_epi32(_mm256_set1_epi32(probes.cast_signed()), lanes);
    _mm256_testc_si256(words, _mm256_and_si256(wanted, active)) == 1
}

/// Thirty-two bytes as a vector; `T` is `u8` or `u32`.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T: Copy>(values: &[T]) -> __m256i {
    debug_assert_eq!(size_of_val(values), 32);
    // SAFETY: every caller passes exactly 32 bytes (half of a 64-byte line, half of sixteen multipliers), and the
    // load has no alignment to keep.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// See [`super::prefetch`].
#[inline]
pub(super) fn prefetch(payload: &[u8], offset: usize) {
    if let Some(rest) = payload.get(offset..) {
        // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(rest.as_ptr().cast()) }
    }
}
