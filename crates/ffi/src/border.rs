//! The border between the library and the caller: panics stop here, and errors become codes.
#![expect(unsafe_code, reason = "writes the error to memory of the caller")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Code, ErrorInfo, Failure};
use crate::raw;

/// Returns the result of `call`, or `fallback` if it panics.
///
/// A panic leaves no broken state behind that a later call could use: queries change nothing but
/// atomic counters and bits of pages, and builders refuse to finish after a panic.
#[inline(always)]
pub(crate) fn or<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

/// Returns the result of `call`, and writes its error, or that there is none, to `error`.
///
/// # Safety
/// `error` is NULL or points to memory for an [`ErrorInfo`].
pub(crate) unsafe fn report<T>(error: *mut ErrorInfo, call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Code> {
    let result = or(Err(Failure::Panic), call);
    let code = result.as_ref().err().map_or(Code::Ok, Failure::code);
    if !error.is_null() {
        // Writing the message takes memory, so it may panic as well.
        let info = match &result {
            Ok(_) => ErrorInfo::none(),
            Err(failure) => or(ErrorInfo { code, ..ErrorInfo::none() }, || ErrorInfo::new(failure)),
        };
        // SAFETY: the caller promises the memory.
        unsafe { raw::write(error, info) };
    }
    result.map_err(|_| code)
}

/// Returns the code of a result of [`report`].
pub(crate) fn code(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(Code::Ok)
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback() {
        assert!(or(true, || panic!("expected")));
        assert!(!or(true, || false));
    }

    #[test]
    fn a_panic_is_reported_with_code_and_message() {
        let mut error = MaybeUninit::<ErrorInfo>::uninit();
        // SAFETY: the pointer is valid, and `report` writes the struct.
        let (result, error) = unsafe {
            let result = report::<()>(error.as_mut_ptr(), || panic!("expected"));
            (result, error.assume_init())
        };
        assert_eq!((result, error.code), (Err(Code::Panic), Code::Panic));
        assert!(error.message.starts_with(&b"the library panicked".map(|byte| byte.cast_signed())));
        // SAFETY: NULL is fine.
        let result = unsafe { report::<()>(std::ptr::null_mut(), || panic!("expected")) };
        assert_eq!(code(result), Code::Panic);
    }
}
