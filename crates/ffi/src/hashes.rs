//! Reads the caller's arrays of hashes in chunks.
//!
//! The caller's arrays may have any alignment, and in debug builds a `KeyHash` is larger than eight
//! bytes. So the library copies the arrays in chunks.
#![expect(unsafe_code, reason = "reads arrays of the caller")]

use filterblock::KeyHash;

use crate::hasher::FILTERBLOCK_NO_HASH;
use crate::raw::{self, CHUNK};

const NO_HASH: KeyHash = KeyHash::from_raw(FILTERBLOCK_NO_HASH);

/// Sets the answer to "maybe" for each hash that is [`FILTERBLOCK_NO_HASH`].
#[inline]
pub(crate) fn or_no_hash(maybe: &mut [bool], hashes: &[KeyHash]) {
    maybe.iter_mut().zip(hashes).for_each(|(answer, hash)| *answer |= *hash == NO_HASH);
}

#[derive(Clone, Copy)]
pub(crate) struct Hashes {
    hashes: *const u64,
    count: usize,
}

impl Hashes {
    /// Wraps an array of `count` hashes. Returns `None` if it is NULL and `count` is not 0, or if
    /// it exceeds the address space.
    ///
    /// # Safety
    /// `hashes` is NULL or has `count` elements, which nobody changes while the `Hashes` exists.
    pub(crate) unsafe fn new(hashes: *const u64, count: usize) -> Option<Self> {
        raw::is_array(hashes, count).then_some(Self { hashes, count })
    }

    /// Passes the hashes to `each` in chunks, together with the index of the chunk's first hash.
    /// Stops and returns the error if `each` fails.
    #[inline]
    pub(crate) fn try_for_each<E>(self, mut each: impl FnMut(usize, &[KeyHash]) -> Result<(), E>) -> Result<(), E> {
        let (mut numbers, mut hashes) = ([0u64; CHUNK], [NO_HASH; CHUNK]);
        for first in (0..self.count).step_by(CHUNK) {
            let len = CHUNK.min(self.count - first);
            let numbers = numbers.split_at_mut(len).0;
            // SAFETY: the array has `count` elements: see `new`.
            unsafe { raw::copy_in(self.hashes, first, numbers) };
            hashes.iter_mut().zip(numbers).for_each(|(hash, number)| *hash = KeyHash::from_raw(*number));
            each(first, hashes.split_at(len).0)?;
        }
        Ok(())
    }
}
