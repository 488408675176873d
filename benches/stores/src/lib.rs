//! Measures filterblock-store and other key-value stores in turn, in one process. All stores get
//! the same keys, values and cache sizes, and every layout that they support. Every answer is
//! checked.
//!
//! `report` makes the tables and the picture of docs/BENCHMARKS.md from the CSV of `measure`.

pub mod args;
pub mod asking;
pub mod engine;
pub mod engines;
pub mod machine_state;
pub mod questions;
pub mod record;
pub mod report;
pub mod run;

#[path = "../../peers/src/clock.rs"]
pub mod clock;
#[path = "../../peers/src/csv_file.rs"]
pub mod csv_file;
#[path = "../../peers/src/keys.rs"]
pub mod keys;
#[path = "../../peers/src/machine.rs"]
pub mod machine;
