//! Implements the range filter, which answers whether a key lies between two bounds. Its FPR has an
//! upper bound for any data and any queries.
//!
//! ```text
//! key ─▶ mapping: an integer x, in the order of the keys ─▶ cell = x >> dropped_bits
//!     ─▶ code = (q(stretch of the cell) + the low bits of the cell) mod universe ─▶ Elias-Fano
//! ```
//! With `n` keys and a range of `l` cells without a key, the answer is "maybe" with a probability
//! of at most `l * n / universe`. The rounding of the hash may raise this bound by up to 3.2 % of
//! itself: see [`MAX_CODES`].
//!
//! (Costa, Ferragina, Vinciguerra, "Grafite: taming adversarial queries with optimal range
//! filters", SIGMOD 2024. The mapping and the choice of the cells are this crate's own.)
//!
//! The payload has the mapping, zeros up to a multiple of 8 bytes, and the codes. The record in the
//! extension has all parameters, so that the trailer's checksum covers them.

mod build;
mod bytes;
mod choose;
mod codes;
mod elias_fano;
mod keys;
mod kind;
mod mapping;
mod query;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use build::build as build_range;
pub(crate) use codes::RangeHash;
pub(crate) use keys::RangeKeys;
pub(super) use kind::Grafite;
pub(crate) use kind::{MAX_RANGE_LEN, max_keys_of_rate, range_rate};
pub(crate) use query::{RangeKernel, is_empty as is_empty_range, is_reversed as is_reversed_range};

pub(super) use record::Geometry;

/// The maximum length of the common prefix of all keys. Further common bytes are positions with one
/// symbol.
const MAX_PREFIX_LEN_BYTES: usize = 255;
/// The maximum number of positions of a mapping.
const MAX_POSITIONS: usize = 255;
/// The maximum number of leading bytes of a key that a mapping reads.
const KEPT_LEN_BYTES: usize = MAX_PREFIX_LEN_BYTES + MAX_POSITIONS;
/// The maximum number of plain positions. Together they have at most 120 bits.
const MAX_PLAIN_POSITIONS: u8 = 15;
/// The largest universe of codes. It is small compared with the prime 2^61 - 1 of the hash
/// function, so no code is more than 3.2 % likelier than `1 / universe`.
const MAX_CODES: u64 = 1 << 56;
/// The number of cells in the ranges that a filter for scans is sized for.
const SCAN_CELLS: u64 = 16;

/// Returns 99.5 % of a number of neighbours, rounded up. With a lower share, many queries next to a
/// key would fall into the cell of that key. With a higher share, cells would become small, and
/// scans would span many cells.
fn enough(neighbours: u64) -> u64 {
    neighbours - neighbours / 200
}
