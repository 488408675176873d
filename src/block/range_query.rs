//! Defines the hash function and the kernel with which a block queries its range filter.

use std::ops::Bound;

use crate::hash::KeyHasher;
use crate::kinds::{RangeHash, RangeKernel};

/// The lower and the upper bound of a query.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The hash function and the kernel that a query of a range filter needs besides the filter.
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
