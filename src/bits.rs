//! Allocates vectors without a panic or abort if memory is short.

use std::collections::TryReserveError;

use crate::error::{Error, Result};

/// The error for an object that does not fit in memory, in the address space or in the length
/// fields of its format.
#[derive(Debug)]
pub(crate) struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

impl NoMemory {
    /// Returns a function that makes [`Error::TooLarge`] for the object `what`.
    pub(crate) fn of(what: &'static str) -> impl Fn(Self) -> Error {
        move |_| Error::TooLarge { what }
    }
}

/// Allocates `len` default values. An [`Error::TooLarge`] names the object `what`.
pub(crate) fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let len = usize::try_from(len).map_err(|_| Error::TooLarge { what })?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::TooLarge { what })?;
    values.resize_with(len, T::default);
    Ok(values)
}

/// Allocates `len` default values. Reports a lack of memory as [`NoMemory`], unlike [`zeros`].
pub(crate) fn try_zeros<T: Default + Clone>(len: usize) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    values.resize(len, T::default());
    Ok(values)
}

pub(crate) fn try_collect<T>(iter: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(iter.len())?;
    values.extend(iter);
    Ok(values)
}

/// Appends a value. If there is no memory, returns [`NoMemory`] and does not change `values`.
#[inline]
pub(crate) fn try_push<T>(values: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
    if values.len() == values.capacity() {
        values.try_reserve(1)?;
    }
    values.push(value);
    Ok(())
}
