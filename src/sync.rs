//! Selects the atomic types of the code that loom tests. Loom runs a test under all interleavings
//! that the memory model allows, and needs its own atomic types for that. Only the tests of this
//! crate use loom's types: if the tests of the store build this crate, it uses the types of the
//! standard library.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic;
