//! Measures filterblock's filters beside those of other crates: one process, one core, interleaved, thread CPU time.
//!
//! `measure` writes a CSV; `report` makes the tables and plots of docs/FILTERS.md from it.

pub mod args;
pub mod clock;
pub mod contender;
pub mod keys;
pub mod machine;
pub mod ours;
pub mod peers;
pub mod rate;
pub mod record;
pub mod report;
pub mod run;
