//! Gives checked access to the bytes of a payload.

use crate::codec::{u32_at, u64_from};

/// Tells whether a range of bytes, given by offset and length, has the bytes that the writer wrote.
pub(super) trait IsValid: Fn(usize, usize) -> bool {}

impl<V: Fn(usize, usize) -> bool> IsValid for V {}

/// A payload and the bytes after it. Every function that reads a value returns `None` if the bytes
/// end before the value does, or if they are not valid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a, V> {
    padded: &'a [u8],
    /// The length of the payload.
    len: usize,
    is_valid: &'a V,
}

impl<'a, V: IsValid> Bytes<'a, V> {
    pub(super) fn new(padded: &'a [u8], len: usize, is_valid: &'a V) -> Self {
        Self { padded, len, is_valid }
    }

    /// Returns the `len` bytes from `at` on.
    #[inline(always)]
    pub(super) fn get(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        let bytes = self.padded.get(at..)?.get(..len)?;
        self.are_valid(at, len).then_some(bytes)
    }

    /// Returns the `N` bytes from `at` on. The bytes after the payload belong to no part of the
    /// filter, so no answer depends on them, and they need not be valid.
    #[inline(always)]
    pub(super) fn chunk<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        let bytes = self.padded.get(at..)?.first_chunk::<N>()?;
        self.are_valid(at, N).then_some(bytes)
    }

    #[inline(always)]
    fn are_valid(&self, at: usize, len: usize) -> bool {
        at >= self.len || (self.is_valid)(at, len.min(self.len - at))
    }

    #[inline(always)]
    pub(super) fn u32_at(&self, at: usize) -> Option<u32> {
        u32_at(self.chunk::<4>(at)?, 0)
    }

    /// Returns word `index` of the words from `start` on.
    #[inline(always)]
    pub(super) fn word(&self, start: usize, index: u64) -> Option<u64> {
        let at = usize::try_from(index).ok()?.checked_mul(8)?.checked_add(start)?;
        self.chunk::<8>(at).map(u64_from)
    }

    /// Returns the bits from bit `bit` on. Bit 0 is the lowest bit of byte `start`. At least the
    /// lowest 57 bits of the result are valid.
    #[inline(always)]
    pub(super) fn window(&self, start: usize, bit: u64) -> Option<u64> {
        let at = usize::try_from(bit / 8).ok()?.checked_add(start)?;
        Some(u64_from(self.chunk::<8>(at)?) >> (bit % 8))
    }
}
