//! Receives SIGINT (Ctrl-C) and SIGTERM on systems other than Unix. The C library emulates these
//! signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// The polling interval. A person does not notice so short a delay after Ctrl-C.
const PAUSE: Duration = Duration::from_millis(20);

/// Does nothing, because only Unix has SIGXFSZ.
pub fn outlive_file_size_limit() {}

/// Starts the thread that passes each signal to `end`. The thread polls, because a signal handler
/// must not lock and there is no pipe to wait on.
pub fn watch(end: fn(i32)) -> io::Result<()> {
    let came = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(signal, Arc::clone(&came), usize::try_from(signal).unwrap_or(0))?;
    }
    let wait = move || {
        loop {
            match i32::try_from(came.swap(0, Ordering::SeqCst)) {
                Ok(0) | Err(_) => std::thread::sleep(PAUSE),
                Ok(signal) => end(signal),
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Does nothing. On these systems a process cannot die of a signal, so the caller exits.
pub fn die_of(_signal: i32) {}
