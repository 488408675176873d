//! Hands bytes that the library built to the caller, who frees them.
#![expect(unsafe_code, reason = "exported functions have fixed symbols")]

use std::ffi::c_void;

use crate::border;

/// An encoded filter in bytes that the library allocated. Copy the bytes, then free the handle with
/// `filterblock_bytes_free`.
///
/// Any number of threads may read the bytes until the handle is freed.
pub struct Bytes(pub(crate) Vec<u8>);

/// Returns a pointer to the first byte, or NULL if `bytes` is NULL. `filterblock_bytes_len` returns
/// the number of bytes. The pointer is valid until `filterblock_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_data(bytes: Option<&Bytes>) -> *const c_void {
    bytes.map_or(std::ptr::null(), |bytes| bytes.0.as_ptr().cast())
}

/// Returns the number of bytes, or 0 if `bytes` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_len(bytes: Option<&Bytes>) -> usize {
    bytes.map_or(0, |bytes| bytes.0.len())
}

/// Frees the bytes. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_free(bytes: Option<Box<Bytes>>) {
    border::or((), || drop(bytes));
}
