//! Receives signals on Unix.

use std::io;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

/// The signals that [`watch`] receives. By default, each of them ends the process.
const ENDING: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU];

/// Catches SIGXFSZ and does nothing else, so that a write beyond the file size limit returns an
/// error, like a write to a full disk.
pub fn outlive_file_size_limit() {
    // If this fails, the signal still ends the command, as by default.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Starts the thread that passes each signal to `end`. On Linux, signals that the process already
/// ignores stay ignored (nohup, background jobs).
pub fn watch(end: fn(i32)) -> io::Result<()> {
    let ignored = ignored_signals();
    let mut signals = Signals::new(ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    std::thread::Builder::new().name("signals".into()).spawn(move || signals.forever().for_each(end))?;
    Ok(())
}

/// Returns a mask of the signals that the process ignores, or 0 if the system does not list them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Kills the process by `signal`. If the process exited instead, a shell would continue its script
/// after Ctrl-C.
pub fn die_of(signal: i32) {
    // The caller exits if the signal does not end the process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
