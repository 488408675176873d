//! Zeros where there is memory for them.

use crate::error::{Error, Result};

/// `len` default values, or an error where there is no memory for them.
///
/// # Errors
/// [`Error::TooLarge`], which names `what`.
pub(crate) fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let too_large = || Error::TooLarge { what };
    let len = usize::try_from(len).map_err(|_| too_large())?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| too_large())?;
    values.resize_with(len, T::default);
    Ok(values)
}
