//! Defines a row of the CSV about filters that are built once.

use serde::{Deserialize, Serialize};

/// The results of one filter in one setting. The optional fields are `None` for the empty loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub filter: String,
    #[serde(rename = "crate")]
    pub krate: String,
    pub version: String,
    /// Number of keys in a filter. If `filters_asked` is more than 1, the approximate mean.
    pub n: usize,
    /// Number of filters that are asked. If there are several, each query asks a random one.
    pub filters_asked: usize,
    /// "hash": queries get hashes. "key": queries hash keys of 16 bytes.
    pub key_form: String,
    /// "negative", "positive" or "mixed".
    pub mix: String,
    /// "single", "batch" or "chain".
    pub mode: String,
    /// CPU time of a query in ns, of the fastest pass.
    pub ns_min: f64,
    /// CPU time of a query in ns, of the median pass.
    pub ns_median: f64,
    /// Number of passes that were timed.
    pub passes: usize,
    /// Number of queries in a pass.
    pub queries: usize,
    /// Bits per key of the whole filter.
    pub bits_per_key: Option<f64>,
    /// Bits per key without the trailer, whose size does not depend on the number of keys.
    pub bits_per_key_bare: Option<f64>,
    /// The share of absent keys answered "maybe".
    pub rate: Option<f64>,
    /// The lower end of the 99 % interval of `rate`.
    pub rate_low: Option<f64>,
    /// The upper end of the 99 % interval of `rate`.
    pub rate_high: Option<f64>,
    /// `bits_per_key / log2(1 / rate) - 1`: the share above the FPR lower bound. `None` if `rate`
    /// is 0, as in the next field.
    pub overhead: Option<f64>,
    /// `bits_per_key_bare / log2(1 / rate) - 1`.
    pub overhead_bare: Option<f64>,
    /// CPU time of building, in ns per key, of the fastest build.
    pub build_ns: Option<f64>,
    /// CPU time of building, in ns per key, of the median build.
    pub build_ns_median: Option<f64>,
    /// "hash" or "key": the form of the keys that the builder got.
    pub build_form: String,
}
