//! Zeros where there is memory for them, and cells of a few bits each, packed.

#[cfg(feature = "variants")]
mod packed;

#[cfg(feature = "variants")]
pub(crate) use packed::PackedArray;

use crate::error::{Error, Result};

/// So many default values, or an error where there is no memory for them.
///
/// # Errors
/// [`Error::TooLarge`], naming `what`.
pub(crate) fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let too_large = || Error::TooLarge { what };
    let len = usize::try_from(len).map_err(|_| too_large())?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| too_large())?;
    values.resize_with(len, T::default);
    Ok(values)
}
