//! A block that has been checked and cannot be asked yet: for that it takes the secret of its hash function.

use std::fmt;

use super::layout::Content;
#[cfg(feature = "variants")]
use super::layout::Trailer;
use super::part::Verify;
use super::reader::FilterBlock;
use crate::error::{Error, Field, Result};
use crate::hash::{KeyHasher, Secret};
use crate::kinds::Geometry;
#[cfg(feature = "variants")]
use crate::kinds::Shape;

/// A sound filter block without its secret: it tells everything but which keys are absent.
///
/// A hash made by another function, or under another secret, would be denied, so there is no way to ask before
/// [`LockedBlock::unlock`]. A block whose keys were hashed without a secret unlocks without one.
pub struct LockedBlock<D>(pub(super) FilterBlock<D>);

/// Without the bytes, which may be gigabytes.
impl<D> fmt::Debug for LockedBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBlock").field("trailer", &self.0.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> LockedBlock<D> {
    /// Checks a block, its pages when `verify` says.
    ///
    /// # Errors
    /// As [`FilterBlock::open_any`], but for a missing secret.
    pub fn open(data: D, verify: Verify) -> Result<Self> {
        FilterBlock::open_at(data, 0, verify).map(Self)
    }

    /// Checks one partition of a filter that is split by key range, alone, from its bytes: the `number`-th, from 0. For tools
    /// that inspect files.
    ///
    /// Unlocked, the partition answers "maybe" to every query, because only the index knows which keys belong to it: ask a
    /// [`Partition`](super::Partition), which [`PartitionIndex::open_partition`](super::PartitionIndex::open_partition) opens.
    ///
    /// # Errors
    /// As [`LockedBlock::open`]; another partition, or a block that is none, is [`Error::Corrupt`].
    pub fn open_partition(data: D, number: u32, verify: Verify) -> Result<Self> {
        let place = number.checked_add(1).ok_or(Error::Corrupt { field: Field::PartitionNumber, offset: 0 })?;
        FilterBlock::open_at(data, place, verify).map(Self)
    }

    /// The block, ready to be asked, whatever table it belongs to: for tools that inspect files. A store must use
    /// [`LockedBlock::unlock_expecting`], since a sound block of another table denies the keys of this one.
    ///
    /// # Errors
    /// [`Error::Secret`] without the secret that it takes, and for another one;
    /// [`Error::Invalid`] for one where none is taken.
    pub fn unlock(self, secret: Option<&Secret>) -> Result<FilterBlock<D>> {
        let hasher = self.0.trailer.hash.hasher(secret)?;
        Ok(FilterBlock { hasher, ..self.0 })
    }

    /// The block, ready to be asked by hashes that `hasher` makes, whatever table it belongs to: for tools, as
    /// [`LockedBlock::unlock`].
    ///
    /// # Errors
    /// [`Error::Unexpected`] for a block of another hash function or seed, [`Error::Secret`] for one under another
    /// secret.
    pub fn unlock_with(self, hasher: &KeyHasher) -> Result<FilterBlock<D>> {
        self.0.trailer.hash.check(hasher)?;
        Ok(FilterBlock { hasher: hasher.clone(), ..self.0 })
    }

    /// What the kind's parameters mean, as a line of text; `None` for an index of partitions, which has none.
    #[must_use]
    pub fn parameters(&self) -> Option<String> {
        self.geometry().map(ToString::to_string)
    }

    /// Whether the extension of the trailer holds a record of a ribbon's layers.
    #[must_use]
    pub fn has_layers(&self) -> bool {
        self.geometry().is_some_and(Geometry::has_layers)
    }

    fn geometry(&self) -> Option<&Geometry> {
        match &self.0.trailer.content {
            Content::Filter { geometry, .. } => Some(geometry),
            Content::PartitionIndex => None,
        }
    }

    /// The filter's kind and parameters; `None` for an index of partitions.
    #[cfg(feature = "variants")]
    pub(crate) fn shape(&self) -> Option<&Shape> {
        match &self.0.trailer.content {
            Content::Filter { shape, .. } => Some(shape),
            Content::PartitionIndex => None,
        }
    }

    /// The bytes of the filter itself, without page checksums, extension and trailer.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.0.filter.payload(self.as_bytes())
    }

    /// 0 for a whole filter or an index, `i + 1` for the i-th partition.
    #[cfg(feature = "variants")]
    pub(crate) fn place(&self) -> u32 {
        self.0.trailer.place
    }

    /// A block of this one's `shape` that says the same but for its keys and bits, and belongs to no table.
    ///
    /// # Errors
    /// The field that does not hold, when no reader would take the block.
    #[cfg(feature = "variants")]
    pub(crate) fn with_payload(&self, shape: &Shape, num_keys: u64, mut payload: Vec<u8>) -> Result<Vec<u8>> {
        let payload_len_bytes = payload.len() as u64;
        Geometry::new(shape, num_keys, payload_len_bytes)?;
        let trailer = Trailer { table_id: [0; 16], num_keys, payload_len_bytes, ..Trailer::clone(&self.0.trailer) };
        trailer.append_to(&mut payload).map_err(crate::bits::NoMemory::of("a filter block"))?;
        Ok(payload)
    }

    /// See [`FilterBlock::verify_pages`].
    ///
    /// # Errors
    /// As there.
    pub fn verify_pages(&self) -> Result<()> {
        self.0.verify_pages()
    }

    /// The bytes of the whole block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{FilterBuilder, PartitionedBuilder};
    use crate::hash::HashSeed;

    #[test]
    fn parameters_are_told_of_a_filter_and_not_of_an_index() {
        let mut builder = FilterBuilder::new("bloom:10".parse().unwrap(), HashSeed(1));
        builder.add(b"key");
        let filter = builder.finish().unwrap();
        let filter = LockedBlock::open(filter.as_slice(), Verify::AtOpen).unwrap();
        assert!(matches!(filter.geometry(), Some(Geometry::Bloom { .. })));
        let mut builder = PartitionedBuilder::new("bloom:10".parse().unwrap(), KeyHasher::xxh3(HashSeed(1)), 4);
        builder.add(b"key").unwrap();
        let index = builder.finish().unwrap();
        assert_eq!(LockedBlock::open(index.as_slice(), Verify::AtOpen).unwrap().geometry(), None);
    }
}
