//! The data that a query of a range filter needs besides the filter.

use std::ops::Bound;

use crate::hash::KeyHasher;
use crate::kinds::{RangeHash, RangeKernel};

/// The bounds of a query.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The data that a query of a range filter needs besides the filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeQuery {
    pub(super) hash: RangeHash,
    pub(super) kernel: RangeKernel,
}

impl RangeQuery {
    pub(super) fn of(hasher: &KeyHasher) -> Self {
        Self { hash: RangeHash::of(hasher), kernel: RangeKernel::detect() }
    }
}
