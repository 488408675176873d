//! The atomic types of the code that loom tests. Loom runs a test in all orders that the memory
//! model allows. For this, it needs its own atomic types in place of the standard library's. Only
//! the tests of this crate use loom: when the tests of the store build this crate, they use the
//! standard library.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
