//! Measures storage engines with their own filters and with filterblock, side by side in one run.

pub mod report;
pub mod row;
pub mod stopwatch;

pub use row::Row;
