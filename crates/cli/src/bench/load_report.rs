//! The report of `bench load`, and its record: a list with the report of each load. Formats both as text,
//! and the record as Markdown.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use charts::text::whole;
use serde::{Deserialize, Serialize};

use super::measure::median;
use super::report::markdown;
use crate::machine::{Machine, Versions};
use crate::prelude::*;

/// The report of one load.
#[derive(Serialize, Deserialize)]
pub struct LoadReport {
    pub load: Loaded,
    pub settings: LoadSettings,
    pub machine: Machine,
    pub versions: Versions,
}

/// The settings of a load that the report records.
#[derive(Serialize, Deserialize)]
pub struct LoadSettings {
    pub keys: u64,
    pub key_len_bytes: u64,
    pub value_len_bytes: usize,
    pub gets_per_second: u64,
    pub filter: String,
    pub seed: u64,
}

/// The number of operations, and their latencies in microseconds of wall time.
#[derive(Clone, Serialize, Deserialize)]
pub struct Latencies {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// The measurements of a load. The help text of `bench load` explains the report.
#[derive(Serialize, Deserialize)]
pub struct Loaded {
    pub load_seconds: f64,
    pub puts_per_second: f64,
    pub settle_seconds: f64,
    pub put: Latencies,
    pub get: Latencies,
    pub stalls: u64,
    pub stall_seconds: f64,
    pub delays: u64,
    pub delay_seconds: f64,
    pub flushes: u64,
    pub compactions: u64,
    pub user_bytes: u64,
    pub flushed_bytes: u64,
    pub compacted_bytes: u64,
    pub write_amplification: f64,
    /// The write amplification at the return of the last put.
    pub write_amplification_at_last_put: f64,
    pub runs_at_last_put: u64,
    pub store_bytes: u64,
    pub filter_bytes: u64,
    pub peak_dir_bytes: u64,
    pub runs: u64,
    pub tables: u64,
    pub tables_by_level: Vec<u64>,
    pub reopen_ms: f64,
    /// The peak resident memory of the process. `None` if the system does not report it.
    pub peak_memory_bytes: Option<u64>,
    pub checked_keys: u64,
    pub wrong_answers: u64,
}

impl LoadReport {
    pub fn to_text(&self) -> String {
        let load = &self.load;
        let per_user_byte = |bytes: u64| significant(load.per_user_byte(bytes));
        let megabytes = |bytes: u64| significant(bytes as f64 / 1e6);
        let mut lines = vec![
            self.machine.describe(),
            format!(
                "{} of {} bytes with values of {}, {} MB",
                count(self.settings.keys, "key"),
                self.settings.key_len_bytes,
                count(self.settings.value_len_bytes as u64, "byte"),
                megabytes(load.user_bytes)
            ),
            String::new(),
            format!("puts per second      {}", thousands(whole(load.puts_per_second))),
            format!("put                  {}", load.put.line()),
            format!("get                  {}", load.get.line()),
            format!("stalls               {}, {} s", thousands(load.stalls), significant(load.stall_seconds)),
            format!("delays               {}, {} s", thousands(load.delays), significant(load.delay_seconds)),
            format!("settling             {} s", significant(load.settle_seconds)),
            format!(
                "write amplification  {} ({} at the last put): {} MB flushed, {} MB compacted",
                significant(load.write_amplification),
                significant(load.write_amplification_at_last_put),
                megabytes(load.flushed_bytes),
                megabytes(load.compacted_bytes)
            ),
            format!(
                "space amplification  {} settled, {} in the largest sample",
                per_user_byte(load.store_bytes),
                per_user_byte(load.peak_dir_bytes)
            ),
            format!(
                "runs                 {} in {} ({} at the last put)",
                thousands(load.runs),
                count(load.tables, "SST file"),
                thousands(load.runs_at_last_put)
            ),
            format!("reopen               {} ms", significant(load.reopen_ms)),
        ];
        if let Some(bytes) = load.peak_memory_bytes {
            lines.push(format!("memory               {} MB", megabytes(bytes)));
        }
        lines.push(format!(
            "Wrong answers: {} in all, of {} until the store had settled and {} at the end.",
            thousands(load.wrong_answers),
            count(load.get.count, "get"),
            count(load.checked_keys, "lookup")
        ));
        lines.join("\n") + "\n" + self.versions.warning()
    }
}

impl Loaded {
    /// Returns `bytes` divided by the bytes of all keys and values.
    pub fn per_user_byte(&self, bytes: u64) -> f64 {
        bytes as f64 / self.user_bytes.max(1) as f64
    }
}

impl Latencies {
    fn line(&self) -> String {
        if self.count == 0 {
            return "none".into();
        }
        let [p50, p99, p999, max] = [self.p50_us, self.p99_us, self.p999_us, self.max_us].map(significant);
        format!("p50 {p50} us, p99 {p99} us, p99.9 {p999} us, max {max} us")
    }
}

/// The content of a file of `bench load --json`.
#[derive(Default, Serialize, Deserialize)]
pub struct LoadRecord {
    pub loads: Vec<LoadReport>,
}

/// A row of the table: its name, whether it shows the largest value instead of the median, and its
/// function. The function returns the value of one load, or `None` if the load has no value.
type Measured = (&'static str, bool, fn(&Loaded) -> Option<f64>);

const ROWS: [Measured; 12] = [
    ("puts per second", false, |load| Some(load.puts_per_second)),
    ("write amplification, settled", false, |load| Some(load.write_amplification)),
    ("space amplification, settled", false, |load| Some(load.per_user_byte(load.store_bytes))),
    ("space amplification, largest sample", true, |load| Some(load.per_user_byte(load.peak_dir_bytes))),
    ("stalls, s", true, |load| Some(load.stall_seconds)),
    ("delays, s", true, |load| Some(load.delay_seconds)),
    ("longest put, ms", true, |load| Some(load.put.max_us / 1e3)),
    ("longest get, ms", true, |load| (load.get.count > 0).then_some(load.get.max_us / 1e3)),
    ("runs, settled", false, |load| Some(load.runs as f64)),
    ("runs at the last put", false, |load| Some(load.runs_at_last_put as f64)),
    ("reopen, ms", false, |load| Some(load.reopen_ms)),
    ("largest memory, MB", true, |load| load.peak_memory_bytes.map(|bytes| bytes as f64 / 1e6)),
];

impl LoadRecord {
    /// Reads a record for `--append`. A missing file is an empty record.
    pub fn read_or_empty(path: &Path) -> Outcome<Self> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| Failure::file(path, error))?,
        };
        serde_json::from_str(&text).map_err(|error| {
            Failure::about(path, format!("not a record of bench load ({error}); choose another file for --json"))
        })
    }

    pub fn to_text(&self) -> String {
        self.loads.iter().map(LoadReport::to_text).collect::<Vec<_>>().join("\n")
    }

    pub fn markdown(&self, name: &str) -> Option<String> {
        match name {
            "load-settings" => Some(self.settings()),
            "loads" => Some(self.table()),
            _ => None,
        }
    }

    /// Groups the loads whose settings differ at most in the seed. The groups are in the order of
    /// their first loads.
    fn groups(&self) -> Vec<Vec<&LoadReport>> {
        let mut groups: Vec<Vec<&LoadReport>> = Vec::new();
        for load in &self.loads {
            let is_same =
                |group: &&mut Vec<&LoadReport>| group.iter().all(|other| other.settings.is_like(&load.settings));
            match groups.iter_mut().find(is_same) {
                Some(group) => group.push(load),
                None => groups.push(vec![load]),
            }
        }
        groups
    }

    fn settings(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for load in &self.loads {
            let machine = format!("{}.", load.machine.describe());
            if !lines.contains(&machine) {
                lines.push(machine);
            }
        }
        for group in self.groups() {
            let Some(first) = group.first() else { continue };
            lines.push(format!("{}: {}.", first.settings.describe(), count(group.len() as u64, "load")));
        }
        let unoptimised = self.loads.iter().filter(|load| !load.versions.is_optimised()).count() as u64;
        if unoptimised > 0 {
            lines.push(format!(
                "Measured with an unoptimised build: {}. These times are meaningless; \
                 measure with a build of \"cargo build --release\".",
                count(unoptimised, "load")
            ));
        }
        let total = |of: fn(&Loaded) -> u64| self.loads.iter().map(|load| of(&load.load)).sum::<u64>();
        lines.push(format!(
            "Wrong answers: {} in all, of {} until the stores had settled and {} at the end.",
            thousands(total(|load| load.wrong_answers)),
            count(total(|load| load.get.count), "get"),
            count(total(|load| load.checked_keys), "lookup")
        ));
        lines.join("\n")
    }

    fn table(&self) -> String {
        let groups = self.groups();
        let keys = |group: &Vec<&LoadReport>| group.first().map_or(0, |load| load.settings.keys);
        let columns = groups.iter().map(|group| format!("{} keys", thousands(keys(group))));
        let header = std::iter::once("What".to_owned()).chain(columns);
        let rows = ROWS.iter().map(|(name, is_largest, value)| {
            let cell = |group: &Vec<&LoadReport>| {
                let values: Vec<f64> = group.iter().filter_map(|report| value(&report.load)).collect();
                let largest = values.iter().copied().fold(f64::NAN, f64::max);
                number(if *is_largest { largest } else { median(values) })
            };
            std::iter::once((*name).to_owned()).chain(groups.iter().map(cell)).collect()
        });
        markdown(header, rows, 1)
    }
}

fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-".into(),
        _ if value.fract() == 0.0 || value >= 1_000.0 => thousands(whole(value)),
        _ => significant(value),
    }
}

impl LoadSettings {
    /// Returns whether two settings differ at most in the seed.
    fn is_like(&self, other: &Self) -> bool {
        let parts = |settings: &Self| {
            (settings.keys, settings.key_len_bytes, settings.value_len_bytes, settings.gets_per_second)
        };
        parts(self) == parts(other) && self.filter == other.filter
    }

    fn describe(&self) -> String {
        format!(
            "{} of {} bytes with values of {}, filter {}, {} per second",
            count(self.keys, "key"),
            self.key_len_bytes,
            count(self.value_len_bytes as u64, "byte"),
            self.filter,
            count(self.gets_per_second, "get")
        )
    }
}
