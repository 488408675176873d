//! Turns the pointers of a C caller into references and slices, and writes into the caller's
//! arrays.
//!
//! A NULL pointer for an object, a text or a nonempty array becomes `None`, and so does an
//! impossible length. No function can detect every invalid pointer, so the header asks the caller
//! for valid pointers.
#![expect(unsafe_code, reason = "reads and writes memory of the caller")]

use std::ffi::{CStr, c_char, c_void};
use std::ops::Bound;

/// The maximum number of hashes, keys or answers in a chunk. 128 numbers of 8 bytes take 1 KiB of
/// stack.
pub(crate) const CHUNK: usize = 128;

/// Returns the `len` bytes at `data`. If `len` is 0, returns an empty slice, even if `data` is
/// NULL. Otherwise returns `None` if `data` is NULL, or if `len` bytes at `data` exceed the address
/// space.
///
/// # Safety
/// `data` is NULL or points to `len` bytes that nobody changes or frees during `'a`.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    if data.is_null() || len > isize::MAX.unsigned_abs() || data.addr().checked_add(len).is_none() {
        return None;
    }
    // SAFETY: `data` is not NULL, `len` fits in the address space, and the caller upholds the rest.
    Some(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns the range of the keys `k` with `lower <= k < upper`. If `upper` has 0 bytes, the range
/// has no upper bound. Returns `None` if [`bytes`] returns `None` for a bound, or if the range is
/// empty.
///
/// # Safety
/// The caller must uphold the contract of [`bytes`].
pub(crate) unsafe fn range<'a>(
    (lower, lower_len): (*const c_void, usize),
    (upper, upper_len): (*const c_void, usize),
) -> Option<Bounds<'a>> {
    // SAFETY: the caller upholds the contract of this function.
    let (lower, upper) = unsafe { (bytes(lower, lower_len)?, bytes(upper, upper_len)?) };
    match upper {
        [] => Some((Bound::Included(lower), Bound::Unbounded)),
        _ => (lower < upper).then_some((Bound::Included(lower), Bound::Excluded(upper))),
    }
}

/// Returns the zero-terminated text at `text`. Returns `None` if `text` is NULL or not UTF-8.
///
/// # Safety
/// `text` is NULL or points to bytes that a zero byte ends and that nobody changes during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees the zero byte, and that the bytes do not change.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Returns the object at `object`, or `None` if it is NULL or not aligned.
///
/// # Safety
/// `object` is NULL or points to a `T` that nobody changes or frees during `'a`.
#[inline(always)]
pub(crate) unsafe fn object<'a, T>(object: *const T) -> Option<&'a T> {
    if !object.is_aligned() {
        return None;
    }
    // SAFETY: the pointer is aligned, and the caller upholds the rest.
    unsafe { object.as_ref() }
}

/// Returns whether `array` is not NULL and `count` elements fit in the address space. An array of 0
/// elements may be NULL.
pub(crate) fn is_array<T>(array: *const T, count: usize) -> bool {
    let len_bytes = count.checked_mul(size_of::<T>()).filter(|&len| len <= isize::MAX.unsigned_abs());
    count == 0 || !array.is_null() && len_bytes.is_some_and(|len| array.addr().checked_add(len).is_some())
}

/// Writes `value` to `out`. Returns `false` and writes nothing if `out` is NULL.
///
/// # Safety
/// `out` is NULL or points to memory for a `T`, of any alignment.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) -> bool {
    if out.is_null() {
        return false;
    }
    // SAFETY: the caller guarantees the memory, and the write needs no alignment.
    unsafe { out.write_unaligned(value) };
    true
}

/// Copies `into.len()` elements of the array `from`, beginning at `index`.
///
/// # Safety
/// `from` points to at least `index + into.len()` elements, of any alignment.
#[inline(always)]
pub(crate) unsafe fn copy_in<T: Copy>(from: *const T, index: usize, into: &mut [T]) {
    let len_bytes = size_of_val(into);
    // SAFETY: the caller guarantees the elements. The function copies bytes, so it needs no
    // alignment. `into` is memory of this library, so the caller's array does not overlap it.
    unsafe {
        let from = from.cast::<u8>().add(index * size_of::<T>());
        std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().cast(), len_bytes);
    }
}

/// Copies `from` into the array `into`, beginning at `index`. The array may be uninitialised.
///
/// # Safety
/// `into` points to memory for at least `index + from.len()` elements, of any alignment.
#[inline(always)]
pub(crate) unsafe fn copy_out<T: Copy>(from: &[T], into: *mut T, index: usize) {
    // SAFETY: the caller guarantees the memory, which `from` does not overlap. The function copies
    // bytes, so it needs no alignment.
    unsafe {
        let into = into.cast::<u8>().add(index * size_of::<T>());
        std::ptr::copy_nonoverlapping(from.as_ptr().cast(), into, size_of_val(from));
    }
}
