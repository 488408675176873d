//! A small log-structured merge (LSM) store. Its reads query filter blocks before they read data.
//!
//! ```text
//! put  ─▶ WAL, memtable ─(flush)─▶ level 0: SSTs may overlap
//!                       ─(compaction)─▶ levels 1 to 6: one sorted run per level
//! get  ─▶ hash the key once ─▶ memtables ─▶ SSTs whose key range covers the key, newest first:
//!         map of level 0, or filter ─▶ index block ─▶ data block
//! scan ─▶ memtables, and SSTs whose key range overlaps the range of the scan:
//!         filter (for a common prefix of the range) ─▶ range filter ─▶ merge
//! ```
//!
//! * A get searches the memtables, then the levels from 0 to 6, and stops at the first version of
//!   the key. This version is the newest, because flushes and compactions never move a version to a
//!   deeper level than an older version of the key. An SST holds at most one version of a key.
//! * A snapshot keeps the SSTs and memtables of its moment alive. Compaction therefore never has to
//!   keep old versions.
//! * Readers never wait for writes, flushes or compactions. Writers wait for their turn and for the
//!   log. If flushes or compactions fall behind, writers also wait for them.

mod background;
mod compaction;
mod db;
#[cfg(test)]
mod document_tests;
pub(crate) mod files;
pub(crate) mod manifest;
mod memtable;
#[cfg(test)]
mod number_tests;
mod options;
mod picking;
pub(crate) mod recovery;
mod scan;
mod shared;
mod stats;
mod verify;
mod version;
pub(crate) mod wal;
mod write;

pub use db::{Db, Snapshot};
pub use options::{Durability, FilterUse, Options, PrefixChoice};
pub use scan::Scan;
pub use stats::Task;
pub use stats::store_stats::{LevelStats, ProbeStats, Retry, Stats};
pub use verify::{Progress, VerifyReport};
pub use version::read_state::PinnableSlice;
pub use wal::batch::{BatchOp, BatchOps, MAX_KEY_LEN_BYTES, MAX_VALUE_LEN_BYTES, WriteBatch};
pub use wal::log_reader::{LogRecovery, LogTail};
