//! Helpers for the bindings to C libraries.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use crate::engine::{Outcome, text};

/// Returns the error that a call left in `error`, and frees its text.
///
/// # Safety
/// `error` is null, or points to a text that ends with a zero byte and that `free` may free.
pub unsafe fn done(error: *mut c_char, free: unsafe extern "C" fn(*mut c_void)) -> Outcome<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises a text that ends with a zero byte.
    let message = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: the caller promises that `free` may free the text. Nothing uses the text after this
    // call.
    unsafe { free(error.cast()) };
    Err(message)
}

/// Returns the path as a text that ends with a zero byte.
pub fn path_text(path: &Path) -> Outcome<CString> {
    CString::new(path.to_string_lossy().as_bytes()).map_err(text)
}
