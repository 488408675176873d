//! Measures storage engines with their own filters and with filterblock, side by side in one run.

pub mod redb;
pub mod report;
pub mod row;
pub mod slatedb;
pub mod stopwatch;
pub mod workload;

pub use row::Row;
