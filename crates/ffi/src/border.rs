//! Catches panics at the border between the library and the caller, and turns errors into codes.
#![expect(unsafe_code, reason = "writes the error to memory of the caller")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Code, ErrorInfo, Failure};
use crate::raw;

/// Returns the result of `call`, or `fallback` if it panics.
///
/// After a panic, no later call can use broken state. Queries change only atomic counters and the
/// atomic states of pages. If a panic may have lost keys or settings of a builder, the builder
/// fails when it finishes. An insert changes a set only by pushes to its vectors, which panic only
/// beyond the address space.
#[inline(always)]
pub(crate) fn or<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

/// Returns the value of `call`, or the code of its failure. The code is [`Code::Panic`] if `call`
/// panics. Unless `error` is NULL, also writes the failure to it, or [`Code::Ok`] and an empty
/// message.
///
/// # Safety
/// `error` is NULL or points to memory for an [`ErrorInfo`].
pub(crate) unsafe fn report<T>(error: *mut ErrorInfo, call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Code> {
    let result = or(Err(Failure::Panic), call);
    let code = result.as_ref().err().map_or(Code::Ok, Failure::code);
    if !error.is_null() {
        // Formatting the message may panic, too. Then the message is empty.
        let info = match &result {
            Ok(_) => ErrorInfo::none(),
            Err(failure) => or(ErrorInfo { code, ..ErrorInfo::none() }, || ErrorInfo::new(failure)),
        };
        // SAFETY: the caller promises the memory.
        unsafe { raw::write(error, info) };
    }
    result.map_err(|_| code)
}

/// Returns the error code in a result of [`report`], or [`Code::Ok`].
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
        // SAFETY: `report` accepts NULL.
        let result = unsafe { report::<()>(std::ptr::null_mut(), || panic!("expected")) };
        assert_eq!(code(result), Code::Panic);
    }
}
