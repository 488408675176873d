//! Selects the atomic types: loom's in the loom tests of this crate, else the standard library's.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
