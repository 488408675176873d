//! A small log-structured store whose reads ask filter blocks before they touch data.
//!
//! ```text
//! put ─▶ log, memtable ─(flush)─▶ level 0: tables that overlap ─(compaction)─▶ level 1.. : one sorted run each
//! get ─▶ hash the key once ─▶ memtables ─▶ tables, newest first: range? filter? index, data block
//! ```
//! Newer writes lie above older ones, and a table holds a key once. A snapshot pins the tables and memtables of its
//! moment, so compaction never has to keep old versions, and nobody waits for anybody but writers for the disk.

mod attempts;
mod background;
mod batch;
mod batch_read;
mod compaction;
mod db;
#[cfg(test)]
mod document_tests;
mod entry;
mod file_name;
mod flush;
mod log_file;
mod log_reader;
mod logged_writes;
mod manifest;
mod memtable;
#[cfg(test)]
mod number_tests;
#[cfg(all(test, loom))]
mod obsolete_loom_tests;
mod open;
mod options;
mod ownership;
pub(crate) mod parts;
mod picking;
mod read_state;
mod recovery;
mod removals;
mod reports;
mod scan;
mod shared;
mod skiplist;
mod space;
mod stats;
mod verify;
mod version;
mod version_edit;
mod write;
mod write_queue;

pub use batch::{BatchOp, BatchOps, MAX_KEY_LEN_BYTES, MAX_VALUE_LEN_BYTES, WriteBatch};
pub use db::{Db, Snapshot};
pub use log_reader::{LogRecovery, LogTail};
pub use options::{Durability, FilterUse, Options};
pub use scan::Scan;
pub use stats::{LevelStats, Retry, Stats, Task};
pub use verify::{Progress, VerifyReport};
