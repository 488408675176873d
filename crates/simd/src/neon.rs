//! Implements the primitives for NEON.
#![expect(unsafe_code, reason = "vector loads and calls of functions that need a processor feature; see each block")]

use std::arch::aarch64::{
    uint8x8_t, uint8x16_t, uint8x16x4_t, uint32x4_t, vand_u8, vandq_u64, vbic_u8, vbicq_u8, vcntq_u8, vcombine_u16,
    vcreate_u8, vdup_n_u8, vdupq_n_u8, vdupq_n_u32, vdupq_n_u64, veorq_u64, vget_low_u32, vgetq_lane_u64, vld1q_u8,
    vld1q_u8_x4, vld1q_u32, vmaxv_u8, vmaxvq_u8, vmovl_high_u32, vmovl_u32, vmovn_u16, vmovn_u32, vmulq_n_u32,
    vorrq_u8, vpaddlq_u8, vpaddlq_u16, vpaddlq_u32, vqtbl4_u8, vreinterpret_s8_u8, vreinterpretq_s32_u32,
    vreinterpretq_s64_u64, vreinterpretq_u8_u32, vreinterpretq_u8_u64, vreinterpretq_u64_u8, vshl_u8, vshlq_u32,
    vshlq_u64, vshrq_n_u32,
};

use super::{Portable, Simd};

/// Proof that the processor has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    /// Makes the proof inside a function that runs only on a processor with this feature.
    ///
    /// # Safety
    /// The processor must have the features. A caller that enables them itself needs no `unsafe`.
    #[inline]
    #[target_feature(enable = "neon")]
    pub fn here() -> Self {
        Self(())
    }
}

impl Simd for Neon {
    #[inline(always)]
    fn all_set_in_line(self, line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
        // SAFETY: a value of this type exists only where the processor has NEON.
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
        Portable.set_in_line(line, factor, multipliers, count)
    }

    /// Calls the portable code, which the compiler turns into vector instructions.
    #[inline(always)]
    fn set_in_lanes_of_32(self, block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
        Portable.set_in_lanes_of_32(block, factor, multipliers)
    }

    /// Calls the portable code, which the compiler turns into vector instructions.
    #[inline(always)]
    fn set_in_lanes_of_64(self, block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
        Portable.set_in_lanes_of_64(block, factor, multipliers)
    }

    #[inline(always)]
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
        // SAFETY: see `all_set_in_line` above.
        unsafe { parities_of_64(a, b, low, high) }
    }

    /// Calls the portable code, in which the compiler counts ones with vector instructions.
    #[inline(always)]
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32 {
        Portable.parities_of_128(a, b, masks)
    }
}

/// Tests the bits of a line, which is used as a table of 64 bytes. The top six bits of a product
/// select a byte: four bits select the word, and two bits select the byte in the word. The next
/// three bits select the bit of the byte.
#[inline]
#[target_feature(enable = "neon")]
fn all_set_in_line(line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool {
    let line = load_line(line);
    let (first, second) = multipliers.split_at(8);
    let mut missing = missing_of_eight(line, factor, first, count);
    if count > 8 {
        missing |= missing_of_eight(line, factor, second, count - 8);
    }
    missing == 0
}

/// Returns 0 if the first `count` of eight bits are set, and another value otherwise. A `count`
/// above 8 means all eight bits.
#[inline]
#[target_feature(enable = "neon")]
fn missing_of_eight(line: uint8x16x4_t, factor: u32, multipliers: &[u32], count: u32) -> u8 {
    let (low, high) = multipliers.split_at(4);
    let (low, high) = (vmulq_n_u32(load(low), factor), vmulq_n_u32(load(high), factor));
    let byte = vqtbl4_u8(line, low_bytes(vshrq_n_u32::<26>(low), vshrq_n_u32::<26>(high)));
    // Narrowing keeps only the lowest byte of a lane. A shift by more than seven would give zero,
    // so the mask keeps the three bits of the bit number.
    let bit = low_bytes(vshrq_n_u32::<23>(low), vshrq_n_u32::<23>(high));
    let bit = vand_u8(bit, vdup_n_u8(7));
    let wanted = vshl_u8(vdup_n_u8(1), vreinterpret_s8_u8(bit));
    let missing = vbic_u8(vand_u8(wanted, active(count)), byte);
    vmaxv_u8(missing)
}

/// Returns eight byte lanes. All bits are 1 in the first `count` lanes, and 0 in the others. A
/// `count` of 0 counts as 1, and a `count` above 8 counts as 8.
#[inline]
#[target_feature(enable = "neon")]
fn active(count: u32) -> uint8x8_t {
    let unused_bits = 64 - 8 * count.clamp(1, 8);
    vcreate_u8(u64::MAX >> unused_bits)
}

/// Returns the low byte of each lane.
#[inline]
#[target_feature(enable = "neon")]
fn low_bytes(low: uint32x4_t, high: uint32x4_t) -> uint8x8_t {
    vmovn_u16(vcombine_u16(vmovn_u32(low), vmovn_u32(high)))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_line(line: &[u8; 64]) -> uint8x16x4_t {
    // SAFETY: the load reads the 64 bytes of the line, at any alignment.
    unsafe { vld1q_u8_x4(line.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(multipliers: &[u32]) -> uint32x4_t {
    debug_assert_eq!(multipliers.len(), 4);
    // SAFETY: every caller passes four multipliers, which are 16 bytes.
    unsafe { vld1q_u32(multipliers.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn all_set_in_lanes_of_32(block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = block.split_at(16);
    let (low_products, high_products) = products(factor, multipliers);
    let one = vdupq_n_u32(1);
    let low_wanted = vshlq_u32(one, vreinterpretq_s32_u32(vshrq_n_u32::<27>(low_products)));
    let high_wanted = vshlq_u32(one, vreinterpretq_s32_u32(vshrq_n_u32::<27>(high_products)));
    let missing = vorrq_u8(
        vbicq_u8(vreinterpretq_u8_u32(low_wanted), load_bytes(low)),
        vbicq_u8(vreinterpretq_u8_u32(high_wanted), load_bytes(high)),
    );
    vmaxvq_u8(missing) == 0
}

#[inline]
#[target_feature(enable = "neon")]
fn all_set_in_lanes_of_64(block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool {
    let (low, high) = products(factor, multipliers);
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
fn products(factor: u32, multipliers: &[u32; 8]) -> (uint32x4_t, uint32x4_t) {
    let (low, high) = multipliers.split_at(4);
    (vmulq_n_u32(load(low), factor), vmulq_n_u32(load(high), factor))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_bytes(lanes: &[u8]) -> uint8x16_t {
    debug_assert_eq!(lanes.len(), 16);
    // SAFETY: every caller passes 16 bytes: half of a 32-byte block, or a quarter of a 64-byte
    // block.
    unsafe { vld1q_u8(lanes.as_ptr()) }
}

/// Returns the parity of each of eight words, which is the lowest bit of its population count.
/// Three pairwise additions sum up the counts of a word's eight bytes.
#[inline]
#[target_feature(enable = "neon")]
fn parities_of_64(a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32 {
    let (low, high) = (vdupq_n_u64(low), vdupq_n_u64(high));
    let (a, _) = a.as_chunks::<16>();
    let (b, _) = b.as_chunks::<16>();
    a.iter().zip(b).rev().fold(0, |bits, (a, b)| {
        // SAFETY: both arrays have sixteen bytes, and the loads work at any alignment.
        let (a, b) = unsafe { (vld1q_u8(a.as_ptr()), vld1q_u8(b.as_ptr())) };
        let first = vandq_u64(vreinterpretq_u64_u8(a), low);
        let mixed = veorq_u64(first, vandq_u64(vreinterpretq_u64_u8(b), high));
        let counts = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_u64(mixed)))));
        let pair = vgetq_lane_u64::<0>(counts) & 1 | (vgetq_lane_u64::<1>(counts) & 1) << 1;
        bits << 2 | pair as u32
    })
}
