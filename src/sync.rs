//! The atomic types of the code that loom tests. Loom runs a test in all orders that the memory
//! model allows. For this, loom replaces the atomic types of the standard library. Only the tests
//! of this crate use loom: if the tests of the store build this crate, this crate uses the standard
//! library.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
