//! The atomics of the code that loom tests. Loom runs such a test in all orders that the memory
//! model allows, so its tests replace the atomics of the standard library. Only the tests of this
//! crate use loom: when the tests of the store build this crate, they use the standard library.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
