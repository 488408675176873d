//! Signals that end a command: what it has made so far and not finished goes first.
//!
//! A thread waits for the signals, since the command itself may be anywhere: waiting for a line of its input, building a
//! filter for minutes, or in a write. Files without a name (`O_TMPFILE`) would not outlive even a SIGKILL, but they cannot
//! replace a file, and not every file system has them; a second way for the rest would stay necessary.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::failure::{Failure, Outcome};

#[cfg_attr(unix, path = "interrupt/unix.rs")]
#[cfg_attr(not(unix), path = "interrupt/other.rs")]
mod platform;

pub use platform::outlive_file_size_limit;

/// What is in use is tried again: the threads of a store may still be writing into its directory.
const REMOVALS_MAX: usize = 100;

/// The first signal that came; 0 stands for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Whether the command looks for a first signal itself, by [`check`].
static GRACEFUL: AtomicBool = AtomicBool::new(false);
static MADE: Mutex<Made> = Mutex::new(Made { paths: Vec::new(), is_watched: false });

/// What must not stay behind. Whoever holds its lock is not ended by a signal meanwhile.
struct Made {
    paths: Vec<PathBuf>,
    is_watched: bool,
}

fn made() -> MutexGuard<'static, Made> {
    // A list of paths is never half changed.
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a command that stopped by itself, since it saw a signal: of that signal where the system can do so. The status
/// that is given is for systems that cannot.
pub fn status_after_signal() -> u8 {
    platform::die_of(SIGNAL.load(Ordering::SeqCst));
    status()
}

/// The exit status of a command that a signal ended, as a shell tells it.
fn status() -> u8 {
    u8::try_from(128 + SIGNAL.load(Ordering::SeqCst)).unwrap_or(u8::MAX)
}

/// Runs `work`, which looks for signals by [`check`] and removes what it made itself. A second signal does not wait.
pub fn gracefully<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    watch(&mut made()).map_err(|error| Failure::Message(format!("watching for Ctrl-C: {error}")))?;
    GRACEFUL.store(true, Ordering::SeqCst);
    let done = work();
    GRACEFUL.store(false, Ordering::SeqCst);
    // A signal from now on ends the command at once; one that came before is seen here.
    let done = done?;
    check().map(|()| done)
}

/// An error once a signal has come; a few nanoseconds otherwise.
#[inline]
pub fn check() -> Outcome<()> {
    if SIGNAL.load(Ordering::SeqCst) == 0 { Ok(()) } else { Err(Failure::Interrupted) }
}

/// As [`check`], on every 4,096th step: for loops that are timed.
#[inline]
pub fn check_at(step: usize) -> Outcome<()> {
    if step.is_multiple_of(1 << 12) { check() } else { Ok(()) }
}

/// A file or directory that is removed when this is dropped, and when a signal ends the command.
#[derive(Debug)]
pub struct Temporary<T> {
    // Dropped in this order: it is noted for as long as it is there.
    made: T,
    noted: Noted,
}

/// A path in [`MADE`].
#[derive(Debug)]
struct Noted(PathBuf);

impl Drop for Noted {
    fn drop(&mut self) {
        made().paths.retain(|path| *path != self.0);
    }
}

impl<T: AsRef<Path>> Temporary<T> {
    /// Makes it: no signal comes between the making and the noting.
    pub fn make(make: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let mut all = made();
        watch(&mut all)?;
        let made = make()?;
        let path = made.as_ref().to_path_buf();
        all.paths.push(path.clone());
        Ok(Self { made, noted: Noted(path) })
    }

    /// Finishes it by one `step`, such as giving it its name, which no signal cuts in two.
    pub fn finish<R>(self, step: impl FnOnce(T) -> R) -> R {
        let Self { made: it, noted } = self;
        let all = made();
        let done = step(it);
        drop(all);
        drop(noted);
        done
    }
}

impl<T> std::ops::Deref for Temporary<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.made
    }
}

/// Starts the thread that waits for signals, once.
fn watch(all: &mut Made) -> io::Result<()> {
    if !all.is_watched {
        platform::watch(end)?;
        all.is_watched = true;
    }
    Ok(())
}

/// Ends the process, unless the command does so itself.
fn end(signal: i32) {
    // In this order, while `gracefully` changes its flag before it looks for a signal: one of the two sees the other.
    let is_first = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if is_first && GRACEFUL.load(Ordering::SeqCst) {
        return;
    }
    // Held until the end: nothing more is made, and nothing is published.
    let all = made();
    all.paths.iter().for_each(|path| remove(path));
    platform::die_of(SIGNAL.load(Ordering::SeqCst));
    signal_hook::low_level::exit(status().into());
}

fn remove(path: &Path) {
    for _ in 0..REMOVALS_MAX {
        let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // Whatever else refuses will refuse again.
            _ => return,
        }
    }
}
