//! Allocates vectors of default values, and returns an error if memory is short.

use crate::error::{Error, Result};

/// Returns a vector of `len` default values.
///
/// # Errors
/// Returns [`Error::TooLarge`] with `what` if the vector does not fit in memory.
pub(crate) fn zeros<T: Default>(len: u64, what: &'static str) -> Result<Vec<T>> {
    let too_large = || Error::TooLarge { what };
    let len = usize::try_from(len).map_err(|_| too_large())?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| too_large())?;
    values.resize_with(len, T::default);
    Ok(values)
}
