//! AVX2 kernels.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_cvtepu32_epi64, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_permutevar8x32_epi32,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setr_epi32, _mm256_shuffle_epi8,
    _mm256_slli_epi32, _mm256_slli_epi64, _mm256_sllv_epi32, _mm256_sllv_epi64, _mm256_srli_epi16, _mm256_srli_epi32,
    _mm256_srli_epi64, _mm256_testc_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use super::super::Geometry;
use super::super::blocked_bloom::{LINE_LEN_BYTES, MULTIPLIERS, fold, line_within};
use super::super::bumped_ribbon::{Geometry as Ribbon, Parities};
use super::super::ribbon::bits_portable;
use super::super::split_block::{Lanes, NARROW_LEN_BYTES, WIDE_LEN_BYTES, multipliers};
use super::ask::{Kernel, kernels};
use super::{in_batches, ribbon_in_batches};
use crate::hash::KeyHash;

/// Proof that the processor has AVX2 and POPCNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn new() -> Option<Self> {
        let has_it = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has_it.then_some(Self(()))
    }

    /// See [`super::line_may_contain`].
    #[inline]
    pub(super) fn line(self, bytes: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
        // SAFETY: a value of this type exists only where AVX2 was detected.
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

#[target_feature(enable = "avx2")]
fn lines(payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |bytes, hash| line(bytes, probes, hash));
}

/// Eight probes at once: multiply, take the word that the top four bits name from the line's sixteen, the bit that the
/// next five name within it, and test all with one instruction.
#[inline]
#[target_feature(enable = "avx2")]
fn line(line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    products_in_line(line, probes, fold(hash), &MULTIPLIERS)
}

#[inline]
#[target_feature(enable = "avx2")]
fn products_in_line(line: &[u8; LINE_LEN_BYTES], probes: u32, folded: u32, multipliers: &[u32; 16]) -> bool {
    let folded = _mm256_set1_epi32(folded.cast_signed());
    let (low, high) = line.split_at(LINE_LEN_BYTES / 2);
    let (first, second) = multipliers.split_at(8);
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

#[target_feature(enable = "avx2")]
fn narrow_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| narrow(block, hash));
}

#[target_feature(enable = "avx2")]
fn wide_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| wide(block, hash));
}

/// One bit in each of eight lanes of 32: a product for each, a shift, and a test.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(block: &[u8; NARROW_LEN_BYTES], hash: KeyHash) -> bool {
    products_in_block(block, fold(hash), multipliers())
}

#[inline]
#[target_feature(enable = "avx2")]
fn products_in_block(block: &[u8; NARROW_LEN_BYTES], folded: u32, multipliers: &[u32; 8]) -> bool {
    let wanted = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<27>(lane_products(folded, multipliers)));
    _mm256_testc_si256(load(block), wanted) == 1
}

/// The same in lanes of 64, four at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn wide(block: &[u8; WIDE_LEN_BYTES], hash: KeyHash) -> bool {
    let (low, high) = block.split_at(WIDE_LEN_BYTES / 2);
    let bits = _mm256_srli_epi32::<26>(lane_products(fold(hash), multipliers()));
    let one = _mm256_set1_epi64x(1);
    let low_wanted = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bits)));
    let high_wanted = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(bits)));
    // One branch for both halves: which of them misses a bit is as good as random.
    let missing =
        _mm256_or_si256(_mm256_andnot_si256(load(low), low_wanted), _mm256_andnot_si256(load(high), high_wanted));
    _mm256_testz_si256(missing, missing) == 1
}

#[inline]
#[target_feature(enable = "avx2")]
fn lane_products(folded: u32, multipliers: &[u32; 8]) -> __m256i {
    _mm256_mullo_epi32(_mm256_set1_epi32(folded.cast_signed()), load(multipliers))
}

/// The portable code, with what counts ones in one instruction.
#[target_feature(enable = "avx2,popcnt")]
fn ribbon_bits(first: &[u8], second: &[u8], coefficients: u128, shift: u32) -> u32 {
    bits_portable(first, second, coefficients, shift)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn ribbon_query(proof: Avx2, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
    ribbon.ask(proof, bytes, hash, groups)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn ribbon_batch(proof: Avx2, ribbon: &Ribbon, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    ribbon_in_batches(proof, ribbon, bytes, hashes, answers);
}

kernels!(Avx2, "avx2,bmi1,bmi2,popcnt");

impl Parities for Avx2 {
    #[inline(always)]
    fn of_blocks(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: a value of this type exists only where the features were detected.
        unsafe { parities(a, b, low, high) }
    }
}

/// Folds each word to 32 bits, puts two into one, folds to a byte, and looks its two halves up in a table of parities.
///
/// Counting the bits of each word by table and summing them takes four instructions more.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn parities(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let (low, high) = (_mm256_set1_epi64x(low.cast_signed()), _mm256_set1_epi64x(high.cast_signed()));
    let sums = |a: &[u8], b: &[u8]| _mm256_xor_si256(_mm256_and_si256(load(a), low), _mm256_and_si256(load(b), high));
    let ((a, a_rest), (b, b_rest)) = (a.split_at(32), b.split_at(32));
    let (front, back) = (sums(a, b), sums(a_rest, b_rest));
    let front = _mm256_xor_si256(front, _mm256_srli_epi64::<32>(front));
    let back = _mm256_xor_si256(back, _mm256_slli_epi64::<32>(back));
    // Words 0 4 1 5 2 6 3 7.
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
