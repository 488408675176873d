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

mod attempts;
mod background;
mod batch;
mod batch_read;
mod bounds;
mod compaction;
mod db;
#[cfg(test)]
mod document_tests;
mod entry;
mod file_name;
mod filter_budget;
mod flush;
mod log_file;
mod log_reader;
mod logged_writes;
mod manifest;
mod map_level_0;
mod memtable;
#[cfg(test)]
mod number_tests;
#[cfg(all(test, loom))]
mod obsolete_loom_tests;
mod open;
mod open_tables;
mod options;
mod ownership;
mod pace;
pub(crate) mod parts;
mod picking;
mod pinnable_slice;
mod prefixes;
mod read_state;
mod recovery;
mod removals;
mod reports;
mod run_map;
mod scan;
mod scan_plan;
mod scan_query;
mod shared;
mod skiplist;
mod space;
mod stats;
mod store_stats;
mod table_reads;
mod verify;
mod version;
mod version_edit;
mod write;
mod write_queue;

pub use batch::{BatchOp, BatchOps, MAX_KEY_LEN_BYTES, MAX_VALUE_LEN_BYTES, WriteBatch};
pub use db::{Db, Snapshot};
pub use log_reader::{LogRecovery, LogTail};
pub use options::{Durability, FilterUse, Options, PrefixChoice};
pub use pinnable_slice::PinnableSlice;
pub use scan::Scan;
pub use stats::Task;
pub use store_stats::{LevelStats, ProbeStats, Retry, Stats};
pub use verify::{Progress, VerifyReport};
