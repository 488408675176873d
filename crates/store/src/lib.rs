//! A small log-structured key-value store whose reads consult the filter blocks of [`filterblock`].
//!
//! * [`Db`] is the store: a write-ahead log, a memtable, SST files on disk, compaction and recovery.
//! * [`repair`] makes a store of what is sound in a damaged one.
//! * [`sstable`] writes and reads SST files, each with a filter block.
//! * [`storage`] is where bytes live: the disk, memory, or (feature `testing`) a file system that fails on demand.
//!
//! The store uses the public API of `filterblock` alone, as any other engine does.

mod checksum;
mod codec;
mod error;
pub mod lsm;
pub mod repair;
pub mod sstable;
pub mod storage;
mod sync;
mod zeros;

pub use error::{Error, Field, Result};
pub use lsm::{Db, Options};

/// The README's examples are tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
