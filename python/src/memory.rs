//! Allocates memory whose size the caller chooses. Too little memory raises `MemoryError`, and neither
//! aborts the process nor panics.

use std::collections::TryReserveError;

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
