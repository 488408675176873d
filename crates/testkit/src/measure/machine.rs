//! Describes the machine and the compiler of a measurement.

use std::fs;

/// The version of the compiler, as `rustc --version` prints it.
pub const RUSTC: &str = env!("RUSTC_VERSION");

/// Returns one line with the processor, cores, memory, kernel, huge pages, compiler and instruction
/// set.
pub fn describe(cpu: usize) -> String {
    let cores = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = cores.lines().filter(|line| line.starts_with("processor")).count();
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let huge = huge.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    format!(
        "{model}, {cores} cores (pinned to {cpu}), {memory}, Linux {}, huge pages: {huge}, {}, {}, filterblock probes: {}",
        kernel.trim(),
        RUSTC,
        if cfg!(target_feature = "avx2") { "built for AVX2" } else { "built for the baseline instruction set" },
        filterblock::instruction_set(),
    )
}

/// Chooses the instruction set that the environment variable `FILTERBLOCK_ISA` names.
pub fn choose_instruction_set() -> Result<(), String> {
    let Ok(name) = std::env::var("FILTERBLOCK_ISA") else { return Ok(()) };
    filterblock::set_instruction_set(&name).map_err(|error| format!("FILTERBLOCK_ISA: {error}"))
}

/// Returns the load average of the last minute, or "unknown".
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// Returns the value of the first line that begins with `name`, in a file of `name : value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the version of a package in the text of a lock file. If there are several versions,
/// returns the last in the file. If there is none, returns an empty text.
pub fn version_in<'a>(lock: &'a str, package: &str) -> &'a str {
    let wanted = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    let mut found = "";
    while lines.any(|line| line == wanted) {
        found = lines.next().and_then(|line| line.split('"').nth(1)).unwrap_or(found);
    }
    found
}
