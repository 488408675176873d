//! Reads CPU time, and pins the thread to a core.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The CPU time of the calling thread.
pub fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// The CPU time of all threads of the process.
pub fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Pins the calling thread, and the threads that it starts, to the core `cpu`, and returns the
/// number of the core. `None` chooses the last core that the thread may use. Panics if `cpu` is not
/// below [`CpuSet::MAX_CPU`].
pub fn pin(cpu: Option<usize>) -> Result<usize, String> {
    let allowed =
        sched_getaffinity(None).map_err(|error| format!("cannot read the cores that this process may use: {error}"))?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)).unwrap_or(0);
    let chosen = cpu.unwrap_or(last);
    let mut only = CpuSet::new();
    only.set(chosen);
    sched_setaffinity(None, &only)
        .map_err(|error| format!("cannot pin the thread to core {chosen}: {error}; choose another with --cpu"))?;
    Ok(chosen)
}
