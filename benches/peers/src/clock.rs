//! CPU time, and the core it is spent on.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread: what others do on the machine does not count, except in caches and memory.
#[must_use]
pub fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// CPU time of the whole process: for builds, some of which start threads of their own.
#[must_use]
pub fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Pins the calling thread, and those it starts, to `cpu`, or else to the last one it may use: the first serves most
/// interrupts. Tells which.
///
/// # Errors
/// What the operating system says.
pub fn pin(cpu: Option<usize>) -> Result<usize, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("asking for the processors allowed: {error}"))?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)).unwrap_or(0);
    let chosen = cpu.unwrap_or(last);
    let mut only = CpuSet::new();
    only.set(chosen);
    sched_setaffinity(None, &only).map_err(|error| format!("pinning to processor {chosen}: {error}"))?;
    Ok(chosen)
}
