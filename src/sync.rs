//! Selects the atomic types and locks: loom's in the loom tests of this crate, else the standard
//! library's.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Mutex, RwLock, atomic};
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{Mutex, RwLock, atomic};
