//! Drops columns of a finished filter. The columns are independent systems of equations over the
//! same starts and coefficients, so the first `c` columns of a filter are a filter of `c` columns.
//!
//! A payload stores its groups of eight columns one after the other. So if `c` is a multiple of
//! eight, the beginning of the payload is the payload of the first `c` columns, and needs no copy.
//! Any other `c` needs a copy, because a block stores its words of all columns of a group together.

use super::layer::{Blocks, Columns, bumps_len_bytes};
use super::read::{Geometry, Layer};
use super::small::Small;
use crate::error::too_large;
use crate::error::{Error, Field, Result};
use crate::filters::Header;
use crate::filters::build::zeros;

impl Geometry {
    /// Returns the geometry of the first `columns` columns. Returns `None` if the filter has at
    /// most `columns` columns, or if `columns` is 0.
    pub(super) fn with_columns(&self, columns: u32) -> Option<Self> {
        // Blocks with one column less have `all - 1` columns, which are at least `columns`.
        if columns == 0 || columns >= self.columns.all {
            return None;
        }
        let columns = Columns { all: columns, fewer_share: 0 };
        let layers = self.layers.iter().map(|layer| Layer::new(layer.blocks.count, columns)).collect();
        let last = self.last.as_ref().map(|last| Small::new(last.slots, last.seed, columns));
        Self::lay_out(columns, layers, last)
    }

    /// Returns the header of this geometry, which [`Geometry::with_columns`] made from a filter with
    /// the header `whole`.
    pub(super) fn header_like(&self, whole: &Header<'_>) -> Header<'static> {
        // With layers, the last two parameters are the share of blocks with one column less. This
        // share is 0, because `with_columns` makes blocks with equal numbers of columns. For a
        // single system, the last two parameters are its seed and its number of spare slots.
        let [_, seed, spare] = whole.params;
        let rest = if self.has_layers() { [0; 2] } else { [seed, spare] };
        Header { params: [self.columns.param(), rest[0], rest[1]], ..whole.clone().into_owned() }
    }

    /// Copies the columns of `to`, which [`Geometry::with_columns`] made, out of the payload of
    /// this geometry. Returns an error if the payload is too short, because zeros in the copy would
    /// deny present keys.
    pub(super) fn copy_columns(&self, payload: &[u8], to: &Self) -> Result<Vec<u8>> {
        let mut copy = zeros(to.payload_len).map_err(too_large("a shrunk filter"))?;
        self.copy_to(payload, to, &mut copy).ok_or(Error::Corrupt { field: Field::PayloadLen, offset: 0 })?;
        Ok(copy)
    }

    /// Copies the columns and the bump bits of all layers, and the columns of the single system.
    /// Returns `None` if any of the bytes is missing.
    fn copy_to(&self, payload: &[u8], to: &Self, copy: &mut [u8]) -> Option<()> {
        for group in 0..to.columns.groups() {
            for (layer, new) in self.layers.iter().zip(&to.layers) {
                let from =
                    Words { blocks: layer.blocks, columns: self.columns, group, start: *layer.groups.get(group)? };
                let into = Words { blocks: new.blocks, columns: to.columns, group, start: *new.groups.get(group)? };
                from.copy_to(payload, into, copy)?;
                if group == 0 {
                    let len = bumps_len_bytes(layer.asked.starts.buckets());
                    let bumps = payload.get(layer.asked.bumps..)?.get(..len)?;
                    copy.get_mut(new.asked.bumps..)?.get_mut(..len)?.copy_from_slice(bumps);
                }
            }
            if let (Some(last), Some(new)) = (&self.last, &to.last) {
                let from = Words { blocks: last.blocks, columns: self.columns, group, start: *last.groups.get(group)? };
                let into = Words { blocks: new.blocks, columns: to.columns, group, start: *new.groups.get(group)? };
                from.copy_to(payload, into, copy)?;
                // The short block stores its columns one after another without padding. So the kept
                // columns may end inside a byte, and the rest of that byte is cleared.
                let bits = new.tail() * to.columns.of_group(group);
                let tail = payload.get(from.offset(last.blocks.count)..)?.get(..bits.div_ceil(8))?;
                let new_tail = copy.get_mut(into.offset(new.blocks.count)..)?.get_mut(..bits.div_ceil(8))?;
                new_tail.copy_from_slice(tail);
                if let Some(byte) = new_tail.last_mut().filter(|_| !bits.is_multiple_of(8)) {
                    *byte &= (1 << (bits % 8)) - 1;
                }
            }
        }
        Some(())
    }
}

/// The words of whole blocks in one group of columns.
#[derive(Clone, Copy)]
struct Words {
    blocks: Blocks,
    columns: Columns,
    group: usize,
    /// The offset of the group.
    start: usize,
}

impl Words {
    fn offset(self, block: usize) -> usize {
        let is_last = self.group + 1 == self.columns.groups();
        self.start + 8 * self.blocks.words_before(block, self.columns.of_group(self.group), is_last)
    }

    /// Copies the columns of `into` in every block. Returns `None` if any of the bytes is missing.
    fn copy_to(self, payload: &[u8], into: Self, copy: &mut [u8]) -> Option<()> {
        let len = 8 * into.columns.of_group(into.group);
        (0..self.blocks.count).try_for_each(|block| {
            let words = payload.get(self.offset(block)..)?.get(..len)?;
            copy.get_mut(into.offset(block)..)?.get_mut(..len)?.copy_from_slice(words);
            Some(())
        })
    }
}
