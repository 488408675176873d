//! What the processor is asked to do by name: vector primitives by instruction set, and prefetching. Knows no kind of filter.
//!
//! A query is written once, generic over [`Simd`]. The macro [`kernels`] compiles it for every instruction set and keeps
//! pointers to the results; an [`Isa`] chooses among them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod prefetch;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use isa::Isa;
pub(crate) use kernels::kernels;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use portable::{Portable, parities, parity};
pub(crate) use prefetch::{RESIDENT_LEN_BYTES, prefetch};

/// The vector primitives of one instruction set.
///
/// One type for each instruction set implements it. A value of the type is a proof that the processor has the instructions.
/// Every implementation gives the results of [`Portable`]. All words lie in memory as little-endian numbers.
///
/// The methods are `#[inline(always)]`. A generic function that calls them must be, too: then the vector code ends up inside the
/// function that [`kernels`] compiles for the instruction set.
pub(crate) trait Simd: Copy {
    /// Whether the bits are set that the products of `factor` and the first `count` multipliers name (1 to 16). The top
    /// four bits of a product name one of sixteen 32-bit words, the next five a bit of the word.
    fn all_set_in_line(self, line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool;

    /// Whether in each of eight 32-bit lanes the bit is set that the top five bits of the product of `factor` and the
    /// lane's multiplier name.
    fn all_set_in_lanes_of_32(self, block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Whether in each of eight 64-bit lanes the bit is set that the top six bits of the product of `factor` and the lane's
    /// multiplier name.
    fn all_set_in_lanes_of_64(self, block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Bit `j` is the parity of 64-bit word `j` of `a` under the mask `low` and of word `j` of `b` under the mask `high`.
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32;

    /// Bit `j` is the parity of 128-bit word `j` of `a` under the first mask and of word `j` of `b` under the second. Of
    /// the longer slice, the words beyond the shorter are left out; there are at most 32.
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32;
}
