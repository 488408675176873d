//! Answers Ctrl-C during long work. Python runs the handlers of signals only in its main thread, and
//! only if this thread asks for them.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::pyclass::{PyClass, boolean_struct::True};

use crate::args::Name;
use crate::errors::{panicked, with_type};
use crate::memory::NoMemory;

/// The time between two questions for signals. A person does not notice this delay.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of steps, such as keys, between two looks at the clock.
const STEPS: u32 = 1024;

/// Asks for signals during a loop without the GIL.
#[derive(Debug)]
pub struct Signals {
    steps: u32,
    asked: Instant,
}

impl Signals {
    pub fn new() -> Self {
        Self { steps: 0, asked: Instant::now() }
    }

    /// Counts a step of the loop, and asks for signals from time to time. The caller must hold no
    /// lock, because the function then waits for the GIL.
    ///
    /// # Errors
    /// Raises the exception of a signal handler, such as `KeyboardInterrupt`.
    #[inline]
    pub fn step(&mut self) -> PyResult<()> {
        self.steps += 1;
        if self.steps < STEPS { Ok(()) } else { self.ask() }
    }

    /// Asks for signals if the last question was long ago. As for [`step`](Self::step), the caller
    /// must hold no lock.
    #[cold]
    pub fn ask(&mut self) -> PyResult<()> {
        self.steps = 0;
        if self.asked.elapsed() < PAUSE {
            return Ok(());
        }
        let asked = Python::attach(|py| py.check_signals());
        self.asked = Instant::now();
        asked
    }
}

/// The number of bytes that are worth starting a thread. To read fewer bytes takes less time.
pub const LONG: u64 = 1 << 20;

/// Runs `work` without the GIL. If it is long, runs it on another thread, and asks for signals
/// meanwhile. After the exception of a signal handler, `work` goes on, but nobody gets its result.
/// So `work` must not change anything that others see.
///
/// # Errors
/// Raises the exception of a signal handler, and `MemoryError` if there is no memory for a thread.
pub fn run<T: Send + 'static>(py: Python<'_>, is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    if !is_long {
        return Ok(py.detach(work));
    }
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let work = move || {
        let _ = sender.send(work());
    };
    thread::Builder::new().name("filterblock".to_owned()).spawn(work).map_err(|_| NoMemory)?;
    loop {
        let (received, back) = py.detach(move || (receiver.recv_timeout(PAUSE), receiver));
        receiver = back;
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(panicked("the work panicked; nothing was written; report the bug"));
            }
        }
    }
}

/// Runs `work` on an object, as [`run`] does.
pub fn with<T: PyClass<Frozen = True> + Sync, R: Send + 'static>(
    object: &Bound<'_, T>,
    is_long: bool,
    work: impl FnOnce(&T) -> R + Send + 'static,
) -> PyResult<R> {
    let (py, object) = (object.py(), object.clone().unbind());
    run(py, is_long, move || work(object.get()))
}

/// Opens the file of an object, as [`run`] does.
pub fn open<T: PyClass + Send + 'static>(
    py: Python<'_>,
    name: &Name,
    open: impl FnOnce(&Path) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let path = name.path.clone();
    let is_long = py.detach(|| path.metadata()).is_ok_and(|found| found.len() >= LONG);
    let opened = name.told(py, run(py, is_long, move || open(&path)).flatten());
    opened.map_err(|error| with_type(py, error, &name.path, T::NAME))
}
