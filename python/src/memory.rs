//! Allocates memory whose size the caller chooses. Too little memory raises `MemoryError`, and neither
//! aborts the process nor panics.

use std::collections::TryReserveError;
use std::fmt::{self, Display, Write};

use pyo3::PyErr;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Too little memory. It turns into a `MemoryError`.
#[derive(Debug)]
pub struct NoMemory;

impl From<NoMemory> for PyErr {
    fn from(_: NoMemory) -> Self {
        PyMemoryError::new_err("there is too little memory; pass fewer keys at once, or use a smaller filter")
    }
}

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

/// The bytes that must be free before a step of a library that aborts without memory.
pub const ROOM: usize = 1 << 20;

/// Checks that so many bytes can be allocated.
pub fn check(len_bytes: usize) -> Result<(), NoMemory> {
    Ok(Vec::<u8>::new().try_reserve_exact(len_bytes)?)
}

/// Returns the start of a text, for a message. The caller may have chosen a text of any length.
pub fn short(text: impl Display) -> String {
    struct Short(String);
    impl Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let fits = |end: usize| text.get(..end);
            self.0.push_str(fits(text.len().min(200)).or_else(|| (0..200).rev().find_map(fits)).unwrap_or_default());
            if self.0.len() < 200 && text.len() <= 200 { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut start = Short(String::new());
    if write!(start, "{text}").is_err() {
        start.0.push_str("...");
    }
    start.0
}

/// Returns an error rate with three significant digits, for a message.
pub fn rate(rate: f64) -> String {
    let rounded = format!("{rate:.2e}").parse().unwrap_or(rate);
    if rounded != 0.0 && rounded < 1e-4 { format!("{rounded:e}") } else { rounded.to_string() }
}

/// Returns the name of the type of an object, for a message.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    let part = |name| kind.getattr(name).map_or_else(|_| "?".to_owned(), short);
    match part("__module__").as_str() {
        "builtins" => part("__qualname__"),
        module => format!("{module}.{}", part("__qualname__")),
    }
}

/// Appends values.
#[inline]
pub fn extend<T: Copy>(values: &mut Vec<T>, more: &[T]) -> Result<(), NoMemory> {
    if values.capacity() - values.len() < more.len() {
        values.try_reserve(more.len())?;
    }
    values.extend_from_slice(more);
    Ok(())
}

/// Appends a value.
pub fn push<T>(values: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
    values.try_reserve(1)?;
    values.push(value);
    Ok(())
}

/// Copies bytes.
pub fn copied(bytes: &[u8]) -> Result<Vec<u8>, NoMemory> {
    let mut copy = Vec::new();
    extend(&mut copy, bytes).map(|()| copy)
}

/// Returns a `bytes` object. Unlike `PyBytes::new`, it does not panic.
pub fn new_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })
}
