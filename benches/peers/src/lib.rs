//! Measures filterblock's filters beside those of other crates: one process, one core, interleaved, thread CPU time.
//!
//! `measure` writes a CSV of filters that are built once, `variants` one of filters that take keys one by one; `report` makes
//! the tables and plots of docs/BENCHMARKS.md and docs/VARIANTS.md from them.

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
pub mod variants;
