//! Measures storage engines with their own filters and with filterblock in one run.

pub mod contender;
pub mod counting;
pub mod redb;
pub mod report;
pub mod row;
pub mod rusty_leveldb;
pub mod slatedb;
pub mod stopwatch;
pub mod surrealkv;
pub mod workload;

pub use row::Row;
