//! A geometry that is read for one query, without memory from the heap.

use std::ops::{Deref, DerefMut};

use super::layer::Columns;
use super::read::{Geometry, Layer, Layers, MAX_LAYERS};
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::Portable;

/// Within the geometry, as large as any: for a geometry that lives as long as a query, and takes no memory from the heap.
pub(super) struct Inline {
    all: [Layer; MAX_LAYERS],
    len: usize,
}

impl Default for Inline {
    fn default() -> Self {
        Self { all: std::array::from_fn(|_| Layer::new(0, Columns { all: 1, fewer_share: 0 })), len: 0 }
    }
}

impl Deref for Inline {
    type Target = [Layer];

    #[inline]
    fn deref(&self) -> &[Layer] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Inline {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Layer] {
        self.all.get_mut(..self.len).unwrap_or_default()
    }
}

impl Layers for Inline {
    fn push(&mut self, layer: Layer) {
        if let Some(free) = self.all.get_mut(self.len) {
            *free = layer;
            self.len += 1;
        }
    }
}

/// What a reader must know of a filter besides its payload, as the trailer has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread<'a> {
    pub(in crate::kinds) params: [u8; 3],
    pub(in crate::kinds) record: &'a [u8],
    pub(in crate::kinds) num_keys: u64,
    pub(in crate::kinds) len_bytes: u64,
}

impl Unread<'_> {
    /// # Errors
    /// As [`Geometry::new`].
    #[inline(never)]
    pub(in crate::kinds) fn check(self) -> Result<()> {
        self.read().map(drop)
    }

    fn read(self) -> Result<Geometry<Inline>> {
        Geometry::parse(self.params, self.record, self.num_keys, self.len_bytes)
    }

    /// Reads the geometry and asks it. "Maybe" where [`check`](Self::check) is an error. Never inlined: the geometry takes a
    /// kilobyte of the stack.
    #[inline(never)]
    pub(in crate::kinds) fn may_contain(self, padded: &[u8], hash: KeyHash) -> bool {
        self.read().map_or(true, |ribbon| ribbon.ask(Portable, padded, hash, ribbon.groups()))
    }
}
