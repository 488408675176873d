//! Turns panics of the crate `parquet` into errors. The crate panics on some damaged pages, for
//! example on some that are encoded as `DELTA_BYTE_ARRAY`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of this thread becomes an error of this crate. A panic hook can call
/// this function, and print nothing if it returns true.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Runs `work` and returns its result. A panic becomes an error with the panic's message, if any.
///
/// Data that `work` changed before a panic may be incomplete, so the caller must discard the data.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
        Err(format!("the data may be damaged: {text}"))
    })
}
