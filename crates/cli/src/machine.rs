//! Describes the machine and the build of a benchmark.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::prelude::*;

/// The machine of a benchmark: the properties that affect its times.
#[derive(Serialize, Deserialize)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_bytes: Option<u64>,
    os: String,
    kernel: String,
    arch: String,
    /// The instruction set that filter queries use, such as "avx2" or "portable".
    instruction_set: String,
}

impl Machine {
    /// Describes this machine. If the system does not report a property, `cpu` or `kernel` is
    /// "unknown", `cores` is 0, and `memory_bytes` is `None`. `os` is then a short name, such as
    /// "macos".
    pub fn here() -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(),
            os: os(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| unknown(), |s| s.trim().into()),
            arch: std::env::consts::ARCH.into(),
            instruction_set: filterblock::instruction_set().into(),
        }
    }

    /// Formats the machine as a short line for the caption of a picture.
    pub fn short(&self) -> String {
        // Only Linux reports its kernel.
        let system = if self.kernel == unknown() { self.os.clone() } else { format!("Linux {}", self.kernel) };
        format!("{}, {}, {} probes, {system}", self.cpu, count(self.cores as u64, "core"), self.instruction_set)
    }

    pub fn describe(&self) -> String {
        let memory =
            self.memory_bytes.map_or_else(unknown, |bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)));
        format!(
            "{} ({}, {} probes), {memory}, {}, kernel {}",
            self.cpu,
            count(self.cores as u64, "core"),
            self.instruction_set,
            self.os,
            self.kernel
        )
    }
}

/// The version of this build, and whether it is optimised.
#[derive(Serialize, Deserialize)]
pub struct Versions {
    filterblock: String,
    optimised: bool,
}

impl Versions {
    pub fn here() -> Self {
        Self { filterblock: env!("CARGO_PKG_VERSION").into(), optimised: !cfg!(debug_assertions) }
    }

    /// Returns whether the build has no debug assertions. Times of other builds are meaningless.
    pub fn is_optimised(&self) -> bool {
        self.optimised
    }

    /// Returns a line that warns of the times of a build that is not optimised, or an empty text.
    pub fn warning(&self) -> &'static str {
        match self.optimised {
            true => "",
            false => {
                "UNOPTIMISED BUILD: the times are meaningless; measure with a build of \"cargo build --release\".\n"
            }
        }
    }
}

fn unknown() -> String {
    "unknown".into()
}

/// Returns the first value of `name` in a file of `name : value` or `name=value` lines. Returns
/// `None` if the file cannot be read or lacks the name.
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

/// Chooses the instruction set that the environment variable `FILTERBLOCK_ISA` names, for
/// measurements and tests.
pub fn choose_instruction_set() -> filterblock::Result<()> {
    std::env::var("FILTERBLOCK_ISA").map_or(Ok(()), |name| filterblock::set_instruction_set(&name))
}
