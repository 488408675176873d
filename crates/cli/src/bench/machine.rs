//! Describes the machine of a benchmark, as far as the operating system reports it.

use std::fs;

use serde::Serialize;

/// The properties of the machine that affect the results.
#[derive(Debug, Serialize)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_bytes: Option<u64>,
    os: String,
    kernel: String,
    arch: &'static str,
    /// The instruction set of the filter probes, such as "avx2" or "portable".
    instruction_set: &'static str,
}

impl Machine {
    /// Describes this machine. A property that the system does not report is "unknown".
    pub fn here() -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(),
            os: os(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| unknown(), |s| s.trim().into()),
            arch: std::env::consts::ARCH,
            instruction_set: filterblock::instruction_set(),
        }
    }

    /// Formats the machine as one line.
    pub fn describe(&self) -> String {
        let memory =
            self.memory_bytes.map_or_else(unknown, |bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)));
        format!(
            "{} ({} cores, {} probes), {memory}, {}, kernel {}",
            self.cpu, self.cores, self.instruction_set, self.os, self.kernel
        )
    }
}

/// The version of this build, to repeat a measurement. The program does not know the compiler's
/// version.
#[derive(Debug, Serialize)]
pub struct Versions {
    filterblock: &'static str,
    optimised: bool,
}

impl Versions {
    /// Describes this build.
    pub fn here() -> Self {
        Self { filterblock: env!("CARGO_PKG_VERSION"), optimised: !cfg!(debug_assertions) }
    }

    /// Returns true for an optimised build. Times of other builds are meaningless.
    pub fn is_optimised(&self) -> bool {
        self.optimised
    }
}

fn unknown() -> String {
    "unknown".into()
}

/// Returns the first value of `name` in a file of `name : value` or `name=value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let values = text.lines().filter_map(|line| line.split_once([':', '=']));
    values.filter(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned()).next()
}

fn memory_bytes() -> Option<u64> {
    let kib = field("/proc/meminfo", "MemTotal")?;
    Some(kib.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn os() -> String {
    field("/etc/os-release", "PRETTY_NAME").unwrap_or_else(|| std::env::consts::OS.into())
}
