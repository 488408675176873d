//! Allocates vectors, and reports lack of memory as an error.

use crate::error::{Error, Result};
use crate::simd::NoMemory;

/// Returns a function that makes [`Error::TooLarge`] for the object `what`.
pub fn too_large(what: &'static str) -> impl Fn(NoMemory) -> Error {
    move |_| Error::TooLarge { what }
}

/// Allocates `len` default values.
///
/// # Errors
/// Returns [`Error::TooLarge`] for the object `what`.
pub fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let len = usize::try_from(len).map_err(|_| Error::TooLarge { what })?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::TooLarge { what })?;
    values.resize_with(len, T::default);
    Ok(values)
}
