//! Allocates vectors without a panic or abort if memory is short.

use std::collections::TryReserveError;

/// An object does not fit in memory, in the address space or in the length fields of its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

/// Allocates `len` default values.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory for them.
pub fn try_zeros<T: Default + Clone>(len: usize) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    values.resize(len, T::default());
    Ok(values)
}

/// Collects the values of an iterator.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory for them.
pub fn try_collect<T>(iter: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(iter.len())?;
    values.extend(iter);
    Ok(values)
}

/// Appends a value.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory for it. `values` is then unchanged.
#[inline]
pub fn try_push<T>(values: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
    if values.len() == values.capacity() {
        values.try_reserve(1)?;
    }
    values.push(value);
    Ok(())
}
