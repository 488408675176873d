//! Reads a geometry for one query, without heap memory.

use std::ops::{Deref, DerefMut};

use super::layer::Columns;
use super::read::{Geometry, Layer, Layers, MAX_LAYERS};
use crate::filters::Header;
use crate::hash::KeyHash;
use crate::simd::Portable;

/// The number of layers for which most queries reserve room. [`Unread::may_contain`] overestimates
/// the number of layers by up to two, so three layers always fit. They are enough for about 60
/// million keys, or for about 12 million keys in a compact filter.
const USUAL_LAYERS: usize = 5;

/// Up to `N` layers inside the geometry, without heap memory.
struct Inline<const N: usize> {
    all: [Layer; N],
    len: usize,
}

impl<const N: usize> Default for Inline<N> {
    fn default() -> Self {
        Self { all: std::array::from_fn(|_| Layer::new(0, Columns { all: 1, fewer_share: 0 })), len: 0 }
    }
}

impl<const N: usize> Deref for Inline<N> {
    type Target = [Layer];

    #[inline]
    fn deref(&self) -> &[Layer] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> DerefMut for Inline<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Layer] {
        self.all.get_mut(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> Layers for Inline<N> {
    fn push(&mut self, layer: Layer) {
        // `Unread::may_contain` chooses `N` so that every layer has room.
        if let Some(free) = self.all.get_mut(self.len) {
            *free = layer;
            self.len += 1;
        }
    }
}

/// A header that was not read yet, and the numbers that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct Unread<'a> {
    pub(in crate::filters) header: Header<'a>,
    pub(in crate::filters) num_keys: u64,
    pub(in crate::filters) len_bytes: u64,
}

impl Unread<'_> {
    /// Reads the geometry and answers the query. Answers "maybe" if the geometry is not valid.
    pub(in crate::filters) fn may_contain(&self, padded: &[u8], hash: KeyHash) -> bool {
        // The record has one varint for each layer and a zero. If there is a single system, a
        // varint and a seed byte follow. The last byte of a varint is below 128.
        let most_layers = self.header.record.iter().filter(|&&byte| byte < 0x80).count().saturating_sub(1);
        if most_layers <= USUAL_LAYERS {
            self.ask::<USUAL_LAYERS>(padded, hash)
        } else {
            self.ask::<MAX_LAYERS>(padded, hash)
        }
    }

    /// Answers the query with a geometry of at most `N` layers. This function is not inlined,
    /// because the geometry takes much of the stack.
    #[inline(never)]
    fn ask<const N: usize>(&self, padded: &[u8], hash: KeyHash) -> bool {
        let ribbon =
            Geometry::<Inline<N>>::parse(self.header.params, &self.header.record, self.num_keys, self.len_bytes);
        ribbon.map_or(true, |ribbon| ribbon.ask(Portable, padded, hash, ribbon.groups()))
    }
}
