//! Shrinks filters by dropping columns. Only bumped ribbons have columns that can be dropped. Each
//! dropped column that all blocks have doubles the FPR.

use super::bumped_ribbon;
use super::geometry::Geometry;
use super::shape::Shape;
use crate::error::{Error, Field, Result};

impl Geometry {
    fn ribbon(&self) -> Option<&bumped_ribbon::Geometry> {
        match self {
            Self::BumpedRibbon(_, ribbon) => Some(ribbon),
            Self::Empty
            | Self::AlwaysMaybe
            | Self::Bloom { .. }
            | Self::BlockedBloom { .. }
            | Self::SplitBlock { .. }
            | Self::Ribbon(_)
            | Self::BinaryFuse(_)
            | Self::Range(_) => None,
        }
    }

    /// Returns the number of columns. A filter can drop all of them but one. Returns `None` for
    /// kinds that cannot drop columns.
    pub(crate) fn columns(&self) -> Option<u32> {
        self.ribbon().map(bumped_ribbon::Geometry::columns)
    }

    /// Returns the number of bytes that queries may read of a payload of `len` bytes. It is less
    /// than `len` only if this geometry was made by [`Geometry::with_columns`].
    pub(crate) fn asked_len(&self, len: usize) -> usize {
        self.ribbon().map_or(len, |ribbon| ribbon.payload_len().min(len))
    }

    /// Returns the geometry of the first `columns` columns alone. Returns `None` if the kind cannot
    /// drop columns, if the filter has at most `columns` columns, or if `columns` is 0.
    ///
    /// If `columns` is a multiple of eight, the new geometry is also valid for the payload of this
    /// geometry.
    pub(crate) fn with_columns(&self, columns: u32) -> Option<Self> {
        self.ribbon()?.with_columns(columns).map(Self::from_ribbon)
    }

    /// Returns the shape and the payload of the first columns alone. `shape` and `payload` belong
    /// to this geometry, and `to` is the result of [`Geometry::with_columns`].
    pub(crate) fn copy_columns(&self, shape: &Shape, payload: &[u8], to: &Self) -> Result<(Shape, Vec<u8>)> {
        let wrong = Error::Corrupt { field: Field::Params, offset: 0 };
        let (Some(from), Some(to)) = (self.ribbon(), to.ribbon()) else { return Err(wrong) };
        let copy = from.copy_columns(payload, to)?;
        Ok((to.shape_like(shape), copy))
    }
}
