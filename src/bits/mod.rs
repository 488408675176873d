//! Zeros where there is memory for them, and cells of a few bits each, packed.

#[cfg(feature = "variants")]
mod packed;

#[cfg(feature = "variants")]
pub(crate) use packed::PackedArray;

use std::collections::TryReserveError;

use crate::error::{Error, Result};

/// There is no memory, or no address, for what was to be made. Who knows what that was names it in an error.
#[derive(Debug)]
pub(crate) struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

impl NoMemory {
    /// [`Error::TooLarge`], naming `what`.
    pub(crate) fn of(what: &'static str) -> impl Fn(Self) -> Error {
        move |_| Error::TooLarge { what }
    }
}

/// So many default values, or an error where there is no memory for them.
///
/// # Errors
/// [`Error::TooLarge`], naming `what`.
pub(crate) fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let len = usize::try_from(len).map_err(|_| Error::TooLarge { what })?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::TooLarge { what })?;
    values.resize_with(len, T::default);
    Ok(values)
}

/// So many default values, of a type that can be copied over the memory at once.
pub(crate) fn try_zeros<T: Default + Clone>(len: usize) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    values.resize(len, T::default());
    Ok(values)
}

/// As many values as an iterator gives.
pub(crate) fn try_collect<T>(iter: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, NoMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(iter.len())?;
    values.extend(iter);
    Ok(values)
}

/// Appends a value.
#[inline]
pub(crate) fn try_push<T>(values: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
    if values.len() == values.capacity() {
        values.try_reserve(1)?;
    }
    values.push(value);
    Ok(())
}
