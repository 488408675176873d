//! Ctrl-C and TERM: noticed between two steps of a long command, so that it can remove what it made and end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::failure::{Failure, Outcome};

/// The exit status of an interrupted command, as of one that Ctrl-C ended in a shell.
pub const STATUS: u8 = 130;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a first signal is only noted, for [`check`]; a second one ends the command at once.
pub fn notice() -> Outcome<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag still unset and does not end the command.
        signal_hook::flag::register_conditional_shutdown(signal, STATUS.into(), Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| Failure::Message(format!("watching for Ctrl-C: {error}")))?;
    }
    Ok(())
}

/// An error once a signal has come; a few nanoseconds otherwise.
#[inline]
pub fn check() -> Outcome<()> {
    match INTERRUPTED.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Failure::Interrupted),
        _ => Ok(()),
    }
}

/// As [`check`], on every 4,096th step: for loops that are timed.
#[inline]
pub fn check_at(step: usize) -> Outcome<()> {
    if step.is_multiple_of(1 << 12) { check() } else { Ok(()) }
}
