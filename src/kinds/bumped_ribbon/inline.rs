//! A geometry that is read for one query, without heap memory.

use std::ops::{Deref, DerefMut};

use super::layer::Columns;
use super::read::{Geometry, Layer, Layers, MAX_LAYERS};
use crate::hash::KeyHash;
use crate::simd::Portable;

/// Room for the layers of most filters. [`Unread::may_contain`] overestimates the number of layers
/// by up to two, so three layers and a system still fit. As a layer bumps one key in 25, these hold
/// 64 million keys.
const USUAL_LAYERS: usize = 5;

/// Layers inside the geometry, with room for `N`. This is for a geometry that lives as long as one
/// query and uses no heap memory.
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
        // If there is no room for a layer, the payload is longer than the layers, and the geometry
        // is rejected.
        if let Some(free) = self.all.get_mut(self.len) {
            *free = layer;
            self.len += 1;
        }
    }
}

/// The parameters of a filter that a reader needs besides the payload, as the trailer stores them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread<'a> {
    pub(in crate::kinds) params: [u8; 3],
    pub(in crate::kinds) record: &'a [u8],
    pub(in crate::kinds) num_keys: u64,
    pub(in crate::kinds) len_bytes: u64,
}

impl Unread<'_> {
    /// Reads the geometry and runs the query. Answers "maybe" if the geometry is not valid.
    pub(in crate::kinds) fn may_contain(self, padded: &[u8], hash: KeyHash) -> bool {
        // Each number of the record ends with a byte below 128. The record has one number for each
        // layer, a zero, and then two numbers for the last system, if there is one.
        let most_layers = self.record.iter().filter(|&&byte| byte < 0x80).count().saturating_sub(1);
        if most_layers <= USUAL_LAYERS {
            self.ask::<USUAL_LAYERS>(padded, hash)
        } else {
            self.ask::<MAX_LAYERS>(padded, hash)
        }
    }

    /// Never inlined, because the geometry takes much of the stack.
    #[inline(never)]
    fn ask<const N: usize>(self, padded: &[u8], hash: KeyHash) -> bool {
        let ribbon = Geometry::<Inline<N>>::parse(self.params, self.record, self.num_keys, self.len_bytes);
        ribbon.map_or(true, |ribbon| ribbon.ask(Portable, padded, hash, ribbon.groups()))
    }
}
