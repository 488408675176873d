//! Vector kernels, prefetching, and the linear algebra that ribbon filters share. This crate has no
//! stable API: it exists for the crates of filterblock, which require exactly this version.
//!
//! A query is written once, generic over [`Simd`]. The macro [`kernels!`] compiles the query for
//! every instruction set and stores function pointers. An [`Isa`] selects among the pointers. Nothing
//! in this crate depends on a kind of filter.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod kernels;
mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod prefetch;
pub mod ribbon;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use isa::Isa;
pub use memory::{NoMemory, try_collect, try_push, try_zeros};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::{Portable, parities, parity};
pub use prefetch::{RESIDENT_LEN_BYTES, prefetch};

/// The vector primitives of one instruction set.
///
/// One type per instruction set implements this trait. A value of the type proves that the
/// processor has the instructions. Every implementation returns the results of [`Portable`]. Words
/// in byte arrays are little-endian.
///
/// The methods are `#[inline(always)]`. A generic function that calls them should be
/// `#[inline(always)]` too. Then the vector code is inlined into the function that [`kernels!`]
/// compiles for the instruction set. Functions on rare paths are exceptions.
pub trait Simd: Copy {
    /// Returns whether all `count` bits (1 to 16) of a key are set in the line. The product of
    /// `factor` and one multiplier selects each bit: the top four bits select one of sixteen 32-bit
    /// words, and the next five bits select a bit of that word.
    fn all_set_in_line(self, line: &[u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool;

    /// Returns whether a key's bit is set in each of eight 32-bit lanes. The top five bits of the
    /// product of `factor` and the lane's multiplier select the bit.
    fn all_set_in_lanes_of_32(self, block: &[u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Returns whether a key's bit is set in each of eight 64-bit lanes. The top six bits of the
    /// product of `factor` and the lane's multiplier select the bit.
    fn all_set_in_lanes_of_64(self, block: &[u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Sets the bits that [`all_set_in_line`](Simd::all_set_in_line) tests. Returns whether all of
    /// them were set before.
    fn set_in_line(self, line: &mut [u8; 64], factor: u32, multipliers: &[u32; 16], count: u32) -> bool;

    /// Sets the bits that [`all_set_in_lanes_of_32`](Simd::all_set_in_lanes_of_32) tests. Returns
    /// whether all of them were set before.
    fn set_in_lanes_of_32(self, block: &mut [u8; 32], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Sets the bits that [`all_set_in_lanes_of_64`](Simd::all_set_in_lanes_of_64) tests. Returns
    /// whether all of them were set before.
    fn set_in_lanes_of_64(self, block: &mut [u8; 64], factor: u32, multipliers: &[u32; 8]) -> bool;

    /// Returns eight parities. Bit `j` is the parity of `(a[j] & low) ^ (b[j] & high)`, where `a`
    /// and `b` are arrays of 64-bit words.
    fn parities_of_64(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32;

    /// Takes one step for each pair of coefficients and right-hand sides. A step moves the words of
    /// `state` up by one bit. Then it sets bit 0 of word `j` to the parity of the word's bits that
    /// the coefficients select, XOR bit `j` of the right-hand sides.
    #[inline(always)]
    fn substitute(self, state: &mut [u64; 8], steps: impl Iterator<Item = (u64, u8)>) {
        for (coefficients, bits) in steps {
            for word in state.iter_mut() {
                *word <<= 1;
            }
            let bits = parities(&state.map(|word| word & coefficients)) ^ u32::from(bits);
            for (j, word) in state.iter_mut().enumerate() {
                *word |= u64::from(bits >> j & 1);
            }
        }
    }

    /// Returns the position of the 1 bit that has `rank` 1 bits below it. Returns 64 if `word` has
    /// no such bit.
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        portable::select(word, rank)
    }

    /// Returns the position of the 0 bit of a line that has `rank` 0 bits below it. Returns 512 if
    /// the line has no such bit. Bit `i` is bit `i % 8` of byte `i / 8`.
    #[inline(always)]
    fn select_zero_in_line(self, line: &[u8; 64], rank: u32) -> u32 {
        let (words, _) = line.as_chunks::<8>();
        let (mut sum, mut index, mut before) = (0, 0u32, 0);
        // The loop has no branch on a word, because the processor could not predict the branch.
        for word in words {
            sum += u64::from_le_bytes(*word).count_zeros();
            let is_before = sum <= rank;
            index += u32::from(is_before);
            before = if is_before { sum } else { before };
        }
        let Some(word) = words.get(index as usize) else { return 512 };
        index * 64 + self.select(!u64::from_le_bytes(*word), rank - before)
    }

    /// Returns up to 32 parities. Bit `j` is the parity of `(a[j] & masks[0]) ^ (b[j] & masks[1])`,
    /// where `a` and `b` are slices of 128-bit words. If the slices differ in length, the extra
    /// words are ignored.
    fn parities_of_128(self, a: &[[u8; 16]], b: &[[u8; 16]], masks: [u128; 2]) -> u32;
}

/// Maps a uniform `hash` to `0..range` and keeps the order of the hashes. For a `range` of 0, the
/// result is 0. The result is the high half of the 128-bit product `hash * range` (Lemire, "Fast
/// random integer generation in an interval", 2019).
#[must_use]
#[inline]
pub const fn reduce(hash: u64, range: u64) -> u64 {
    // The high half of a 128-bit product has 64 bits, so the cast is exact.
    ((hash as u128 * range as u128) >> 64) as u64
}
