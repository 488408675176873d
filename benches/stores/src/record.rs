//! A row of the CSV.

use serde::{Deserialize, Serialize};

/// The results of one store in one setting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The name of the store.
    pub store: String,
    /// The version of its crate or library.
    pub version: String,
    /// Number of keys in the store.
    pub n: usize,
    /// "as-fallen", "compacted" or "runs-N".
    pub layout: String,
    /// The measured quantity: one of the constants of this module.
    pub measure: String,
    /// "negative", "positive" or "mixed", or nothing.
    pub mix: String,
    /// "uniform" or "zipf", or nothing.
    pub spread: String,
    /// The median of the rounds, in the unit of the measure.
    pub median: f64,
    /// The minimum over the rounds.
    pub min: f64,
    /// The greatest of the rounds.
    pub max: f64,
    /// The median over all gets, in ns of wall time.
    pub p50: Option<f64>,
    /// The 99th percentile over all gets.
    pub p99: Option<f64>,
    /// The 99.9th percentile over all gets.
    pub p999: Option<f64>,
    /// Number of rounds.
    pub rounds: usize,
    /// Number of queries in a round.
    pub queries: usize,
}

/// The CPU time of a warm get, in ns.
pub const GET: &str = "get";
/// The CPU time of a batch divided by its number of keys, in ns.
pub const BATCH: &str = "batch";
/// The wall time of one of the first gets after an open, in ns. The files of the store are not in
/// the page cache.
pub const COLD: &str = "cold";
/// Puts per second of wall time, until the last put returned.
pub const LOAD: &str = "load";
/// Seconds from the last put until the layout is reached and no thread works.
pub const SETTLE: &str = "settle";
/// Opening a closed store and the first get, in ms of wall time. The files are in the page cache.
pub const REOPEN: &str = "reopen";
/// Size of the store on disk in bytes.
pub const DISK: &str = "disk";
/// Number of files of the store.
pub const FILES: &str = "files";
