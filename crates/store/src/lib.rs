//! A small log-structured key-value store whose reads query the filter blocks of [`filterblock`].
//!
//! The crate shows how an engine embeds filter blocks, and what they save. It uses only the public
//! API of `filterblock`.
//!
//! ```
//! use filterblock_store::{Db, Options};
//!
//! let dir = tempfile::tempdir()?;
//! let db = Db::open(dir.path(), Options::default())?;
//! db.put(b"apple", b"red")?;
//! db.put(b"plum", b"blue")?;
//! db.flush()?; // writes the memtable to an SST file with a filter block
//!
//! assert_eq!(db.get(b"apple")?.as_deref(), Some(b"red".as_slice()));
//! assert_eq!(db.get(b"banana")?, None);
//!
//! let stats = db.stats().total;
//! assert_eq!((stats.tables, stats.keys, stats.points.probes), (1, 2, 2));
//! println!("{} reads needed no disk, {} false positives", stats.points.true_negatives, stats.points.false_positives);
//! db.close()?;
//! # Ok::<(), filterblock_store::Error>(())
//! ```
//!
//! # The path of a get
//!
//! ```text
//! key ─▶ KeyHasher: one KeyHash for all filters
//!     ─▶ memtable ─▶ immutable memtables     newest first; a value or a tombstone ends the read
//!     ─▶ level 0: every SST                  newest first
//!        each deeper level: at most one SST
//!           │ the key is outside the SST's key range: next SST
//!           ▼
//!        FilterSet
//!        ├─ Answer::No          next SST; nothing is read
//!        ├─ Answer::Maybe       search the SST: index block ─▶ one data block (block cache or disk)
//!        └─ Answer::Unfiltered  search the SST; counted as unfiltered or degraded
//! ```
//!
//! **An unusable filter never loses a key**: reads search its SST, and [`Stats`](lsm::Stats) counts
//! and reports the filter. With [`Options::strict_filters`] an unusable filter is an error.
//!
//! # Modules
//!
//! | To | Use |
//! |---|---|
//! | open, read and write a store | [`Db`], [`Options`], [`lsm`] |
//! | rebuild a store from the sound parts of a damaged one | [`repair`] |
//! | read and write single SST files | [`sstable`] |
//! | choose where files live | [`storage`]: disk, memory, or (feature `testing`) a file system that fails on demand |

mod codec;
mod error;
pub mod lsm;
pub mod repair;
pub mod sstable;
pub mod storage;
mod sync;

use filterblock::internals::checksum;

pub use error::{Error, Field, Result};
pub use lsm::{Db, Options};

/// Runs the README's examples as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
