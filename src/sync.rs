//! Selects the atomic types of the code that loom tests. Loom runs a test under one interleaving of
//! its threads after the other, and needs its own atomic types for that. Only the tests of this
//! crate use loom's types. If the tests of the store build this crate, the crate uses the types of
//! the standard library.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
