//! Provides the common code of the kinds whose payload is a plain array of bits in whole granules.

use std::ops::RangeInclusive;

use super::header::{Budget, Header, zeros};
use super::math;
use crate::error::{Error, Field, Result};
use crate::simd::NoMemory;

/// The size of a payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) len_bytes: u64,
    /// Thousandths of a bit per key, after rounding to whole granules.
    pub(super) millibits: u64,
}

/// Returns the size that a budget gives to `num_keys` keys. Returns `None` if the number of bits
/// does not fit 64 bits.
pub(super) fn size(budget: Budget, num_keys: u64, granule_len_bytes: u64) -> Option<Size> {
    let granules = math::granules(num_keys, budget.millibits.into(), granule_len_bytes * 8)?;
    let len_bytes = granules.checked_mul(granule_len_bytes)?;
    Some(Size { len_bytes, millibits: math::millibits_per_key(len_bytes.checked_mul(8)?, num_keys) })
}

/// Allocates a payload of zeros with this size. A `size` of `None` never fits in memory.
pub(super) fn payload(size: Option<Size>) -> std::result::Result<(Size, Vec<u8>), NoMemory> {
    let size = size.ok_or(NoMemory)?;
    Ok((size, zeros(usize::try_from(size.len_bytes).map_err(|_| NoMemory)?)?))
}

/// Reads a header whose only parameter is the number of probes.
pub(super) fn parse(
    header: &Header<'_>,
    num_keys: u64,
    len_bytes: u64,
    valid_probes: RangeInclusive<u32>,
    granule_len_bytes: u64,
) -> Result<u32> {
    let corrupt = |field| Err(Error::Corrupt { field, offset: 0 });
    let [probes, rest @ ..] = header.params;
    let probes = u32::from(probes);
    if rest != [0; 2] || !header.record.is_empty() || !valid_probes.contains(&probes) {
        return corrupt(Field::Params);
    }
    if len_bytes == 0 || !len_bytes.is_multiple_of(granule_len_bytes) {
        return corrupt(Field::PayloadLen);
    }
    // A filter has at least one key, and at least one bit per key.
    if (1..=len_bytes.saturating_mul(8)).contains(&num_keys) { Ok(probes) } else { corrupt(Field::NumKeys) }
}
