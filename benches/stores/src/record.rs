//! Defines a row of the CSV.

use serde::{Deserialize, Serialize};

/// One measured quantity of one store in one setting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub store: String,
    pub version: String,
    /// The number of keys in the store.
    pub n: usize,
    /// "as-fallen", "compacted" or "runs-N".
    pub layout: String,
    /// The measured quantity: one of the constants of this module.
    pub measure: String,
    /// "negative", "positive" or "mixed". Empty for a quantity that does not depend on queries.
    pub mix: String,
    /// "uniform" or "zipf". Empty for a quantity that does not depend on queries.
    pub spread: String,
    /// The median of the rounds, in the unit of the measure.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// The median wall time of a get in ns. `None` for every measure except [`GET`], as in the next
    /// two fields.
    pub p50: Option<f64>,
    /// The 99th percentile of the wall time of a get, in ns.
    pub p99: Option<f64>,
    /// The 99.9th percentile of the wall time of a get, in ns.
    pub p999: Option<f64>,
    /// The number of rounds, or of loads for [`LOAD`] and [`SETTLE`]. 1 for [`DISK`] and [`FILES`].
    pub rounds: usize,
    /// The number of queries in a round, or 0 for a quantity that does not depend on queries.
    pub queries: usize,
}

/// The mean CPU time of a warm get, in ns.
pub const GET: &str = "get";
/// The mean CPU time per key of warm gets in batches, in ns.
pub const BATCH: &str = "batch";
/// The mean wall time of the gets after an open and a first get, in ns. Before the open, the files
/// of the store are dropped from the page cache.
pub const COLD: &str = "cold";
/// Puts per second of wall time. The time includes the flushes between runs.
pub const LOAD: &str = "load";
/// Seconds from the last put until the layout is reached and the store was reopened once. The
/// minimum time of the two idle checks does not count.
pub const SETTLE: &str = "settle";
/// The wall time to open a closed store and to answer the first get, in ms. The files are in the
/// page cache.
pub const REOPEN: &str = "reopen";
/// The size of the store on disk in bytes.
pub const DISK: &str = "disk";
/// The number of files of the store.
pub const FILES: &str = "files";
