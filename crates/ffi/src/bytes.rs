//! Bytes that the library built and the caller frees.
#![expect(unsafe_code, reason = "exported functions have fixed symbols")]

use std::ffi::c_void;

use crate::border;

/// Bytes that the library allocated: an encoded filter. Copy them, then free the handle.
///
/// Threads may share the handle until one of them frees it.
pub struct Bytes(pub(crate) Vec<u8>);

/// Returns the first of `filterblock_bytes_len` bytes. The pointer is valid until
/// `filterblock_bytes_free`. Returns NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_data(bytes: Option<&Bytes>) -> *const c_void {
    bytes.map_or(std::ptr::null(), |bytes| bytes.0.as_ptr().cast())
}

/// Returns the number of bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_len(bytes: Option<&Bytes>) -> usize {
    bytes.map_or(0, |bytes| bytes.0.len())
}

/// Frees the bytes. NULL is fine. Freeing twice is undefined behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_bytes_free(bytes: Option<Box<Bytes>>) {
    border::or((), || drop(bytes));
}
