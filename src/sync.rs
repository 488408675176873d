//! The atomics and locks of what loom tests: the standard library's, or loom's, under which a test runs in all the
//! orders that the memory model allows. Only the tests of this crate have loom: the store's build this one without.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
