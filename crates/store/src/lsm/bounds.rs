//! Compares keys with the bounds of scans.

use std::ops::Bound;

/// Borrows the key of a bound.
pub(super) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Returns whether a key lies before an upper bound, or equals an included bound.
pub(super) fn is_before(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

/// Returns whether a key lies between two bounds.
pub(super) fn is_within(key: &[u8], from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    is_after(key, as_slice(from)) && is_before(key, as_slice(to))
}

/// Returns whether a key lies after a lower bound, or equals an included bound.
pub(super) fn is_after(key: &[u8], start: Bound<&[u8]>) -> bool {
    match start {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    }
}
