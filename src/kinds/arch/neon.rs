//! NEON kernels.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::aarch64::{
    uint8x8_t, uint8x16_t, uint8x16x4_t, uint32x4_t, vand_u8, vandq_u64, vbic_u8, vbicq_u8, vcntq_u8, vcombine_u16,
    vcreate_u8, vdup_n_u8, vdupq_n_u8, vdupq_n_u32, vdupq_n_u64, veorq_u64, vget_low_u32, vgetq_lane_u64, vld1q_u8,
    vld1q_u8_x4, vld1q_u32, vmaxv_u8, vmaxvq_u8, vmovl_high_u32, vmovl_u32, vmovn_u16, vmovn_u32, vmulq_n_u32,
    vorrq_u8, vpaddlq_u8, vpaddlq_u16, vpaddlq_u32, vqtbl4_u8, vreinterpret_s8_u8, vreinterpretq_s32_u32,
    vreinterpretq_s64_u64, vreinterpretq_u8_u32, vreinterpretq_u8_u64, vreinterpretq_u64_u8, vshl_u8, vshlq_u32,
    vshlq_u64, vshrq_n_u32,
};

use super::super::Geometry;
use super::super::blocked_bloom::{LINE_LEN_BYTES, MULTIPLIERS, fold, line_within};
use super::super::bumped_ribbon::{Geometry as Ribbon, Parities};
use super::super::ribbon::bits_portable;
use super::super::split_block::{Lanes, NARROW_LEN_BYTES, WIDE_LEN_BYTES, multipliers};
use super::ask::{Kernel, kernels};
use super::{in_batches, ribbon_in_batches};
use crate::hash::KeyHash;

/// Proof that the processor has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neon(());

impl Neon {
    pub(super) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    /// See [`super::line_may_contain`].
    #[inline]
    pub(super) fn line(self, bytes: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
        // SAFETY: a value of this type exists only where NEON was detected.
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

#[target_feature(enable = "neon")]
fn lines(payload: &[u8], probes: u32, hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |bytes, hash| line(bytes, probes, hash));
}

/// The line is a table of 64 bytes, and the top six bits of a product name one of them: four the word, two the byte in
/// it. The next three name the bit of the byte.
#[inline]
#[target_feature(enable = "neon")]
fn line(line: &[u8; LINE_LEN_BYTES], probes: u32, hash: KeyHash) -> bool {
    products_in_line(line, probes, fold(hash), &MULTIPLIERS)
}

#[inline]
#[target_feature(enable = "neon")]
fn products_in_line(line: &[u8; LINE_LEN_BYTES], probes: u32, folded: u32, multipliers: &[u32; 16]) -> bool {
    let line = load_line(line);
    let (first, second) = multipliers.split_at(8);
    let mut missing = missing_of_eight(line, first, probes, folded);
    if probes > 8 {
        missing |= missing_of_eight(line, second, probes - 8, folded);
    }
    missing == 0
}

/// Not zero if one of the first `probes` bits of eight is not set.
#[inline]
#[target_feature(enable = "neon")]
fn missing_of_eight(line: uint8x16x4_t, multipliers: &[u32], probes: u32, folded: u32) -> u8 {
    let (low, high) = multipliers.split_at(4);
    let (low, high) = (vmulq_n_u32(load(low), folded), vmulq_n_u32(load(high), folded));
    let byte = vqtbl4_u8(line, low_bytes(vshrq_n_u32::<26>(low), vshrq_n_u32::<26>(high)));
    // Only the lowest byte of a lane survives the narrowing; a shift by more than seven would leave zero, and the mask
    // keeps the three bits that are meant.
    let bit = low_bytes(vshrq_n_u32::<23>(low), vshrq_n_u32::<23>(high));
    let bit = vand_u8(bit, vdup_n_u8(7));
    let wanted = vshl_u8(vdup_n_u8(1), vreinterpret_s8_u8(bit));
    let missing = vbic_u8(vand_u8(wanted, active(probes)), byte);
    vmaxv_u8(missing)
}

/// All bits set in the first `probes` of eight lanes.
#[inline]
#[target_feature(enable = "neon")]
fn active(probes: u32) -> uint8x8_t {
    let unused_bits = 64 - 8 * probes.clamp(1, 8);
    vcreate_u8(u64::MAX >> unused_bits)
}

/// The low byte of each lane.
#[inline]
#[target_feature(enable = "neon")]
fn low_bytes(low: uint32x4_t, high: uint32x4_t) -> uint8x8_t {
    vmovn_u16(vcombine_u16(vmovn_u32(low), vmovn_u32(high)))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_line(line: &[u8; LINE_LEN_BYTES]) -> uint8x16x4_t {
    // SAFETY: reads the 64 bytes of the line, at any alignment.
    unsafe { vld1q_u8_x4(line.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(multipliers: &[u32]) -> uint32x4_t {
    debug_assert_eq!(multipliers.len(), 4);
    // SAFETY: every caller passes a quarter of the sixteen multipliers: 16 bytes.
    unsafe { vld1q_u32(multipliers.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn narrow_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| narrow(block, hash));
}

#[target_feature(enable = "neon")]
fn wide_batch(payload: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    in_batches(payload, hashes, answers, |block, hash| wide(block, hash));
}

/// One bit in each of eight lanes of 32: a product for each, a shift, and a test.
#[inline]
#[target_feature(enable = "neon")]
fn narrow(block: &[u8; NARROW_LEN_BYTES], hash: KeyHash) -> bool {
    products_in_block(block, fold(hash), multipliers())
}

#[inline]
#[target_feature(enable = "neon")]
fn products_in_block(block: &[u8; NARROW_LEN_BYTES], folded: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = block.split_at(NARROW_LEN_BYTES / 2);
    let (low_products, high_products) = lane_products(folded, multipliers);
    let one = vdupq_n_u32(1);
    let low_wanted = vshlq_u32(one, vreinterpretq_s32_u32(vshrq_n_u32::<27>(low_products)));
    let high_wanted = vshlq_u32(one, vreinterpretq_s32_u32(vshrq_n_u32::<27>(high_products)));
    let missing = vorrq_u8(
        vbicq_u8(vreinterpretq_u8_u32(low_wanted), load_bytes(low)),
        vbicq_u8(vreinterpretq_u8_u32(high_wanted), load_bytes(high)),
    );
    vmaxvq_u8(missing) == 0
}

/// The same in lanes of 64, two at a time.
#[inline]
#[target_feature(enable = "neon")]
fn wide(block: &[u8; WIDE_LEN_BYTES], hash: KeyHash) -> bool {
    let (low, high) = lane_products(fold(hash), multipliers());
    let (low, high) = (vshrq_n_u32::<26>(low), vshrq_n_u32::<26>(high));
    let bits = [vmovl_u32(vget_low_u32(low)), vmovl_high_u32(low), vmovl_u32(vget_low_u32(high)), vmovl_high_u32(high)];
    let mut missing = vdupq_n_u8(0);
    for (bits, lanes) in bits.into_iter().zip(block.chunks_exact(16)) {
        let wanted = vshlq_u64(vdupq_n_u64(1), vreinterpretq_s64_u64(bits));
        missing = vorrq_u8(missing, vbicq_u8(vreinterpretq_u8_u64(wanted), load_bytes(lanes)));
    }
    vmaxvq_u8(missing) == 0
}

#[inline]
#[target_feature(enable = "neon")]
fn lane_products(folded: u32, multipliers: &[u32; 8]) -> (uint32x4_t, uint32x4_t) {
    let (low, high) = multipliers.split_at(4);
    (vmulq_n_u32(load(low), folded), vmulq_n_u32(load(high), folded))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_bytes(lanes: &[u8]) -> uint8x16_t {
    debug_assert_eq!(lanes.len(), 16);
    // SAFETY: every caller passes 16 bytes: half of a block of 32, or a quarter of one of 64.
    unsafe { vld1q_u8(lanes.as_ptr()) }
}

/// The portable code, with what counts ones in one instruction.
#[target_feature(enable = "neon")]
fn ribbon_bits(first: &[u8], second: &[u8], coefficients: u128, shift: u32) -> u32 {
    bits_portable(first, second, coefficients, shift)
}

#[target_feature(enable = "neon")]
fn ribbon_query(proof: Neon, ribbon: &Ribbon, bytes: &[u8], hash: KeyHash, groups: usize) -> bool {
    ribbon.ask(proof, bytes, hash, groups)
}

#[target_feature(enable = "neon")]
fn ribbon_batch(proof: Neon, ribbon: &Ribbon, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
    ribbon_in_batches(proof, ribbon, bytes, hashes, answers);
}

kernels!(Neon, "neon");

impl Parities for Neon {
    #[inline(always)]
    fn of_blocks(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: a value of this type exists only where NEON was detected.
        unsafe { parities(a, b, low, high) }
    }
}

/// Parity is the lowest bit of a population count: of the bytes, added in pairs up to 64 bits.
#[inline]
#[target_feature(enable = "neon")]
fn parities(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let (low, high) = (vdupq_n_u64(low), vdupq_n_u64(high));
    let (a, _) = a.as_chunks::<16>();
    let (b, _) = b.as_chunks::<16>();
    a.iter().zip(b).rev().fold(0, |bits, (a, b)| {
        // SAFETY: both are sixteen bytes, and the loads have no alignment to keep.
        let (a, b) = unsafe { (vld1q_u8(a.as_ptr()), vld1q_u8(b.as_ptr())) };
        let first = vandq_u64(vreinterpretq_u64_u8(a), low);
        let sums = veorq_u64(first, vandq_u64(vreinterpretq_u64_u8(b), high));
        let counts = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_u64(sums)))));
        let pair = vgetq_lane_u64::<0>(counts) & 1 | (vgetq_lane_u64::<1>(counts) & 1) << 1;
        bits << 2 | pair as u32
    })
}
