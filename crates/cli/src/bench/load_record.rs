//! Reads the record of `bench load`, a list with the report of each load. Formats the record as
//! text and as Markdown.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::failure::{Failure, Outcome};
use super::super::text::{count, significant, thousands, whole};
use super::load_report::{LoadReport, LoadSettings, Loaded};
use super::measure::median;
use super::report::markdown;

/// The content of a file of `bench load --json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LoadRecord {
    /// One report for each load, oldest first.
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
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| Failure::file(path, error))?,
        };
        serde_json::from_str(&text).map_err(|error| {
            let path = path.display();
            Failure::Message(format!("{path}: not a record of bench load ({error}); choose another file for --json"))
        })
    }

    pub fn to_text(&self) -> String {
        self.loads.iter().map(LoadReport::to_text).collect::<Vec<_>>().join("\n")
    }

    /// Returns a part of the record as Markdown. Returns `None` if no part has this name.
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

    /// Returns a table with a column for each group of loads.
    fn table(&self) -> String {
        let groups = self.groups();
        let keys = |group: &Vec<&LoadReport>| group.first().map_or(0, |load| load.settings.keys);
        let columns = groups.iter().map(|group| format!("{} keys", thousands(keys(group))));
        let header: Vec<String> = std::iter::once("What".to_owned()).chain(columns).collect();
        let rows = ROWS.iter().map(|(name, is_largest, value)| {
            let cell = |group: &Vec<&LoadReport>| {
                let values: Vec<f64> = group.iter().filter_map(|report| value(&report.load)).collect();
                let largest = values.iter().copied().fold(f64::NAN, f64::max);
                number(if *is_largest { largest } else { median(values) })
            };
            std::iter::once((*name).to_owned()).chain(groups.iter().map(cell)).collect()
        });
        markdown(&header, rows, 1)
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

#[cfg(test)]
mod tests {
    use super::super::super::machine::{Machine, Versions};
    use super::*;
    use serde_json::json;

    /// Returns the report of a load with this number of keys, puts per second, longest put in us
    /// and number of gets.
    fn load(keys: u64, rate: f64, longest_put: f64, gets: u64) -> LoadReport {
        let latencies =
            |count: u64, max: f64| json!({"count": count, "p50_us": 1, "p99_us": 1, "p999_us": 1, "max_us": max});
        let load = json!({
            "load_seconds": 1, "puts_per_second": rate, "settle_seconds": 1, "put": latencies(keys, longest_put),
            "get": latencies(gets, 2e3), "stalls": 0, "stall_seconds": 0, "delays": 1, "delay_seconds": 0.5, "flushes": 1,
            "compactions": 1, "user_bytes": 1000, "flushed_bytes": 1030, "compacted_bytes": 1030,
            "write_amplification": 2.06, "write_amplification_at_last_put": 1.03, "runs_at_last_put": 3,
            "store_bytes": 1030, "filter_bytes": 10, "peak_dir_bytes": 2060, "runs": 1, "tables": 1, "tables_by_level": [0, 1],
            "reopen_ms": 30.25, "peak_memory_bytes": 62_000_000, "checked_keys": keys, "wrong_answers": 2
        });
        let settings = json!({"keys": keys, "key_len_bytes": 16, "value_len_bytes": 100, "gets_per_second": 5,
            "filter": "by-level", "seed": 1});
        LoadReport {
            load: serde_json::from_value(load).unwrap(),
            settings: serde_json::from_value(settings).unwrap(),
            machine: Machine::here(),
            versions: Versions::here(),
        }
    }

    /// Returns a record of three loads with equal settings, and one load with other settings.
    fn four() -> LoadRecord {
        let loads =
            vec![load(7, 10.0, 5e3, 0), load(9, 900_000.0, 1.0, 4), load(7, 30.0, 9e3, 0), load(7, 20.0, 7e3, 0)];
        LoadRecord { loads }
    }

    #[test]
    fn a_column_has_the_medians_and_maxima_of_equal_loads() {
        let record = four();
        let table = record.markdown("loads").unwrap();
        let cells = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(cells("What"), ["What", "7 keys", "9 keys"]);
        assert_eq!(cells("puts per second"), ["puts per second", "20", "900,000"]);
        assert_eq!(cells("longest put"), ["longest put, ms", "9", "0.00100"]);
        assert_eq!(cells("longest get").get(1).unwrap(), "-", "no gets were made");
        assert_eq!(table.lines().count(), 2 + ROWS.len());
        let settings = record.markdown("load-settings").unwrap();
        assert!(settings.contains("7 keys of 16 bytes") && settings.contains(": 3 loads.\n"), "{settings}");
        let lines = if cfg!(debug_assertions) { 5 } else { 4 };
        assert_eq!(settings.lines().count(), lines, "{settings}");
        assert!(record.markdown("absent").is_none());
    }

    #[test]
    fn wrong_answers_of_all_loads_are_summed() {
        let settings = four().markdown("load-settings").unwrap();
        assert!(
            settings
                .contains("Wrong answers: 8 in all, of 4 gets until the stores had settled and 30 lookups at the end."),
            "{settings}"
        );
    }
}
