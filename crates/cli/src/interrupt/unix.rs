//! Signals as Unix has them.

use std::io;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

/// What ends a command unless it is caught, and is sent by people, shells and limits.
const ENDING: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU];

/// Turns a limit on the size of files into an error of the write, as a full disk is one.
pub fn outlive_file_size_limit() {
    // Without it the command ends as it would have ended anyway.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Starts the thread that gives each signal to `end`. Signals that the parent wants ignored stay so (nohup, jobs in the
/// background).
pub fn watch(end: fn(i32)) -> io::Result<()> {
    let ignored = ignored_signals();
    let mut signals = Signals::new(ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    std::thread::Builder::new().name("signals".into()).spawn(move || signals.forever().for_each(end))?;
    Ok(())
}

/// A bit for each signal that the process was started with as ignored. Only Linux tells it without unsafe code; on other
/// systems no signal counts as ignored.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Lets `signal` end the process, as if nobody had caught it. After an exit with 130, a shell would go on with its script.
pub fn die_of(signal: i32) {
    // The caller exits if the signal does not end the process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
