//! Reads the caller's arrays of hashes and of keys in chunks.
//!
//! The caller's arrays may have any alignment, and in debug builds a `KeyHash` is larger than eight
//! bytes. So the library copies the arrays in chunks.
#![expect(unsafe_code, reason = "reads arrays of the caller")]

use std::convert::Infallible;
use std::ffi::c_void;

use filterblock::{KeyHash, KeyHasher};

use crate::answer::Answers;
use crate::hasher::{FILTERBLOCK_NO_HASH, Hasher};
use crate::raw::{self, CHUNK};

const NO_HASH: KeyHash = KeyHash::from_raw(FILTERBLOCK_NO_HASH);

/// Sets the answer to "maybe" for each hash that is [`FILTERBLOCK_NO_HASH`].
#[inline]
pub(crate) fn or_no_hash(maybe: &mut [bool], hashes: &[KeyHash]) {
    maybe.iter_mut().zip(hashes).for_each(|(answer, hash)| *answer |= *hash == NO_HASH);
}

/// The caller's array of hashes.
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

/// The caller's keys: an array of pointers, and an array of lengths in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    keys: *const *const c_void,
    lens: *const usize,
    count: usize,
}

impl Keys {
    /// Wraps the arrays of `count` keys. Returns `None` if an array is NULL and `count` is not 0,
    /// or if an array exceeds the address space.
    ///
    /// # Safety
    /// Each array is NULL or has `count` elements. Each key is NULL or has its length. Nobody
    /// changes the arrays or the keys while the `Keys` exists.
    pub(crate) unsafe fn new(keys: *const *const c_void, lens: *const usize, count: usize) -> Option<Self> {
        (raw::is_array(keys, count) && raw::is_array(lens, count)).then_some(Self { keys, lens, count })
    }

    /// Passes the keys to `each` in chunks, together with the index of the chunk's first key. A key
    /// is `None` if its pointer is NULL and its length is not 0, or if it exceeds the address
    /// space. Stops and returns the error if `each` fails.
    #[inline]
    pub(crate) fn try_for_each<E>(
        self,
        mut each: impl FnMut(usize, &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut keys, mut lens, mut slices) = ([std::ptr::null(); CHUNK], [0; CHUNK], [None; CHUNK]);
        for first in (0..self.count).step_by(CHUNK) {
            let len = CHUNK.min(self.count - first);
            let (keys, lens) = (keys.split_at_mut(len).0, lens.split_at_mut(len).0);
            // SAFETY: the arrays have `count` elements: see `new`.
            unsafe {
                raw::copy_in(self.keys, first, keys);
                raw::copy_in(self.lens, first, lens);
            }
            for (slice, (key, len)) in slices.iter_mut().zip(keys.iter().zip(lens.iter())) {
                // SAFETY: the key is NULL or has this length: see `new`.
                *slice = unsafe { raw::bytes(*key, *len) };
            }
            each(first, slices.split_at(len).0)?;
        }
        Ok(())
    }

    /// Hashes the keys, and passes the hashes to `each`: see [`Hashes::try_for_each`]. A key that
    /// would be `None` in [`Keys::try_for_each`] has the hash [`FILTERBLOCK_NO_HASH`].
    #[inline]
    pub(crate) fn try_for_each_hash<E>(
        self,
        hasher: &KeyHasher,
        mut each: impl FnMut(usize, &[KeyHash]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut hashes = [NO_HASH; CHUNK];
        self.try_for_each(|first, keys| {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = key.map_or(NO_HASH, |key| hasher.of(key));
            }
            each(first, hashes.split_at(keys.len()).0)
        })
    }
}

/// Sets `hashes[i]` to the hash of the key `keys[i]` of `key_lens[i]` bytes: see
/// `filterblock_hasher_hash`.
///
/// `hashes` need not be initialised, and must not overlap `keys` or `key_lens`. Does nothing if
/// `hashes` is NULL. Sets all hashes to `FILTERBLOCK_NO_HASH` if `hasher`, `keys` or `key_lens` is
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_hasher_hash_keys(
    hasher: Option<&Hasher>,
    keys: *const *const c_void,
    key_lens: *const usize,
    count: usize,
    hashes: *mut u64,
) {
    // SAFETY: the header asks for valid pointers.
    let (keys, hashes) = unsafe { (Keys::new(keys, key_lens, count), Answers::new(hashes, count)) };
    let Some(hashes) = hashes else { return };
    let (Some(Hasher(hasher)), Some(keys)) = (hasher, keys) else { return hashes.fill(FILTERBLOCK_NO_HASH) };
    hashes.ask(FILTERBLOCK_NO_HASH, |hashes| {
        keys.try_for_each_hash(hasher, |first, found| {
            let mut numbers = [FILTERBLOCK_NO_HASH; CHUNK];
            numbers.iter_mut().zip(found).for_each(|(number, hash)| *number = hash.raw());
            hashes.write(first, numbers.split_at(found.len().min(CHUNK)).0);
            Ok::<(), Infallible>(())
        })
    });
}
