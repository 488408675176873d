//! Signals where there is no Unix: Ctrl-C and TERM, which the C library emulates.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// A person does not notice so short a wait after Ctrl-C.
const PAUSE: Duration = Duration::from_millis(20);

/// There is no such limit.
pub fn outlive_file_size_limit() {}

/// Starts the thread that gives each signal to `end`. It polls: a handler must not lock, and there is no pipe to wait at.
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

/// A process cannot end of a signal here: the caller exits.
pub fn die_of(_signal: i32) {}
