//! Defines the row of one measured configuration: an engine, a layout and a filter.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::stopwatch::Times;

/// The measurements of one configuration. The programs in C and C++ print rows as JSON objects with
/// these fields, one object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the engine, for example `SlateDB`.
    pub engine: String,
    /// The version of the engine.
    pub version: String,
    /// The layout of the keys: `1 run`, several runs such as `5 runs`, or `one tree` for redb. Each
    /// run covers the whole key range.
    pub layout: String,
    /// The name of the filter: a filter of the engine, a `FilterSpec`, or a text that begins with
    /// `none`.
    pub filter: String,
    /// The number of present keys.
    pub keys: u64,
    /// The total length of all filters in bytes. It is 0 without filters.
    pub filter_bytes: u64,
    /// `filter_bytes` in bits, divided by `keys`.
    pub bits_per_key: f64,
    /// The false positives per filter query of an absent key. `None` without a filter.
    pub false_positive_rate: Option<f64>,
    /// The mean time of a get of an absent key, in nanoseconds. It is the median over the rounds.
    /// The programs in C and C++ measure the processor time of the thread. This crate measures the
    /// wall time of the engines in Rust.
    pub miss_mean_ns: f64,
    /// The 99th percentile of the time of a get of an absent key, in nanoseconds. It is the median
    /// over the rounds.
    pub miss_p99_ns: f64,
    /// The mean number of data blocks that a get of an absent key reads. Reads that a cache serves
    /// count. `None` if it was not measured.
    pub reads_per_miss: Option<f64>,
    /// The time to load all keys and build their filters, in nanoseconds per key.
    pub build_ns_per_key: f64,
    /// The time to compact all runs into one, in milliseconds. `None` if it was not measured.
    pub compact_ms: Option<f64>,
    /// The number of present keys that a get did not find. It must be 0. Every present key is
    /// looked up, except with the SurrealKV filter that denies every key.
    pub false_negatives: u64,
}

impl Row {
    /// Returns a row with the values that each engine measures, and `None` or 0 for the others.
    /// `engine` is its name and version. 0 runs mean one tree.
    #[must_use]
    pub fn new(
        (engine, version): (&str, &str),
        runs: usize,
        filter: &str,
        keys: usize,
        filter_bytes: u64,
        times: Times,
        load: Duration,
    ) -> Self {
        let layout = match runs {
            0 => "one tree".to_owned(),
            1 => "1 run".to_owned(),
            _ => format!("{runs} runs"),
        };
        Self {
            engine: engine.into(),
            version: version.into(),
            layout,
            filter: filter.into(),
            keys: keys as u64,
            filter_bytes,
            bits_per_key: filter_bytes as f64 * 8.0 / keys as f64,
            false_positive_rate: None,
            miss_mean_ns: times.mean_ns,
            miss_p99_ns: times.p99_ns,
            reads_per_miss: None,
            build_ns_per_key: load.as_secs_f64() * 1e9 / keys as f64,
            compact_ms: None,
            false_negatives: 0,
        }
    }
}
