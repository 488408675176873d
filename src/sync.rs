//! The atomics and locks of what loom tests: the standard library's, or loom's, under which a test runs in all the
//! orders that the memory model allows.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
