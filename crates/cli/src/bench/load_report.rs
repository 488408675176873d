//! Formats the report of `bench load`, as text for people and as JSON for programs.

use serde::{Deserialize, Serialize};

use super::super::machine::{Machine, Versions};
use super::super::text::{count, significant, thousands, whole};

/// The report of one load.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadReport {
    pub load: Loaded,
    pub settings: LoadSettings,
    pub machine: Machine,
    pub versions: Versions,
}

/// The settings of a load that the report records.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadSettings {
    pub keys: u64,
    pub key_len_bytes: u64,
    pub value_len_bytes: usize,
    pub gets_per_second: u64,
    pub filter: String,
    pub seed: u64,
}

/// The number of operations, and their latencies in microseconds of wall time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Latencies {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// The measurements of a load. The help text of `bench load` explains the report.
#[derive(Debug, Serialize, Deserialize)]
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
    /// The number of SST files of each level.
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
