//! Removes unfinished files before a signal ends the command.
//!
//! A thread waits for the signals, because the command itself may be blocked or busy. Unnamed files
//! (`O_TMPFILE`) would vanish even after a SIGKILL. They were rejected because they cannot replace
//! an existing file and not every file system supports them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::prelude::*;

#[cfg_attr(unix, path = "interrupt/unix.rs")]
#[cfg_attr(not(unix), path = "interrupt/other.rs")]
mod platform;

pub use platform::outlive_file_size_limit;

/// The maximum number of attempts to remove a directory. The threads of a store may still be
/// writing into it.
const REMOVALS_MAX: usize = 100;

/// The first signal that arrived, or 0.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// True while the command runs [`gracefully`] and polls for the first signal by [`check`].
static GRACEFUL: AtomicBool = AtomicBool::new(false);
static MADE: Mutex<Made> = Mutex::new(Made { paths: Vec::new(), is_watched: false });

/// The temporary files and directories of the command. While a thread holds the lock of [`MADE`],
/// no signal that [`watch`] receives ends the process.
struct Made {
    paths: Vec<PathBuf>,
    is_watched: bool,
}

fn made() -> MutexGuard<'static, Made> {
    // A panic cannot leave the list of paths half changed, so a poisoned lock is safe to use.
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a command that has stopped itself because of a signal. If the system allows it, the process
/// dies of that signal. Otherwise the function returns the exit status.
pub fn status_after_signal() -> u8 {
    platform::die_of(SIGNAL.load(Ordering::SeqCst));
    status()
}

/// Returns the exit status that a shell reports for a command killed by the signal.
fn status() -> u8 {
    u8::try_from(128 + SIGNAL.load(Ordering::SeqCst)).unwrap_or(u8::MAX)
}

/// Runs `work`, which polls for signals by [`check`] and removes its own files. A second signal
/// ends the command immediately. If a signal arrived and `work` succeeded anyway, returns
/// [`Failure::Interrupted`]. Returns another error if signals cannot be watched.
pub fn gracefully<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    watch(&mut made()).map_err(|error| {
        Failure::Message(format!(
            "cannot watch for Ctrl-C: {error}; check the limits on threads and open files, and try again"
        ))
    })?;
    GRACEFUL.store(true, Ordering::SeqCst);
    let done = work();
    GRACEFUL.store(false, Ordering::SeqCst);
    // From now on a signal ends the command immediately. The check below sees a signal that arrived
    // earlier.
    let done = done?;
    check().map(|()| done)
}

/// Returns [`Failure::Interrupted`] once a signal has arrived. A call is one atomic load, so loops
/// may call it in each step.
#[inline]
pub fn check() -> Outcome<()> {
    if SIGNAL.load(Ordering::SeqCst) == 0 { Ok(()) } else { Err(Failure::Interrupted) }
}

/// Calls [`check`] on every 4,096th step, for loops whose time is measured.
#[inline]
pub fn check_at(step: usize) -> Outcome<()> {
    if step.is_multiple_of(1 << 12) { check() } else { Ok(()) }
}

/// A file or directory that is removed on drop, and before a signal that [`watch`] receives ends
/// the command.
pub struct Temporary<T> {
    // Fields drop in this order, so the path stays in the list for as long as the file exists.
    made: T,
    noted: Noted,
}

/// A path in the list of [`MADE`]. Dropping it removes the path from the list.
struct Noted(PathBuf);

impl Drop for Noted {
    fn drop(&mut self) {
        made().paths.retain(|path| *path != self.0);
    }
}

impl<T: AsRef<Path>> Temporary<T> {
    /// Makes the file or directory and records its path. Before that, starts to watch for signals.
    /// No signal that [`watch`] receives ends the process between making and recording.
    pub fn make(make: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let mut all = made();
        watch(&mut all)?;
        let made = make()?;
        let path = made.as_ref().to_path_buf();
        all.paths.push(path.clone());
        Ok(Self { made, noted: Noted(path) })
    }

    /// Runs the final `step`, such as a rename, and then forgets the path. A signal that [`watch`]
    /// receives ends the process only before or after the step.
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

/// Starts the thread that waits for signals, unless it already runs.
fn watch(all: &mut Made) -> io::Result<()> {
    if !all.is_watched {
        platform::watch(end)?;
        all.is_watched = true;
    }
    Ok(())
}

/// Handles a signal: removes the temporary files and ends the process, unless the command polls for
/// signals and this signal is the first one.
fn end(signal: i32) {
    // This function stores `SIGNAL` and then reads `GRACEFUL`. `gracefully` clears `GRACEFUL` and
    // then reads `SIGNAL`. So a signal is never lost: this function sees the cleared flag, or
    // `gracefully` sees the signal. After an error of the work, the command ends in any case.
    let is_first = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if is_first && GRACEFUL.load(Ordering::SeqCst) {
        return;
    }
    // The lock is held until the process ends, so that no file is made or published any more.
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
            // The path is removed, or another attempt would fail too.
            _ => return,
        }
    }
}
