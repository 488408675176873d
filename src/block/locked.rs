//! Opens and checks a block without its hasher. The block cannot answer queries yet, because its
//! hash function may need a secret.

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

/// A checked filter block without its hasher. It gives access to metadata, pages and bytes, but
/// answers no queries.
///
/// With another hash function, seed or secret than the writer's, a filter would deny present keys.
/// So unlock the block before the first query: see [`LockedBlock::unlock_expecting`].
pub struct LockedBlock<D>(pub(super) FilterBlock<D>);

/// Omits the bytes, which may be gigabytes.
impl<D> fmt::Debug for LockedBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBlock").field("trailer", &self.0.trailer).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]>> LockedBlock<D> {
    /// Opens and checks a block. With [`Verify::AtOpen`], the check includes the pages.
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open_any`], except for a missing secret.
    pub fn open(data: D, verify: Verify) -> Result<Self> {
        FilterBlock::open_at(data, 0, verify).map(Self)
    }

    /// Opens and checks partition `number` of a partitioned filter from the partition's own bytes.
    /// Numbers start at 0. This function is for tools that inspect files.
    ///
    /// After unlocking, the partition never denies a key or prefix, because only the index knows
    /// which keys belong to it. To query a partition, open a [`Partition`](super::Partition) with
    /// [`PartitionIndex::open_partition`](super::PartitionIndex::open_partition).
    ///
    /// # Errors
    /// Returns the errors of [`LockedBlock::open`], and [`Error::Corrupt`] if the bytes are another
    /// partition or no partition.
    pub fn open_partition(data: D, number: u32, verify: Verify) -> Result<Self> {
        let partition_number =
            number.checked_add(1).ok_or(Error::Corrupt { field: Field::PartitionNumber, offset: 0 })?;
        FilterBlock::open_at(data, partition_number, verify).map(Self)
    }

    /// Returns the block, ready for queries. Does not check the block's SST. This method is for
    /// tools that inspect files. A store must use [`LockedBlock::unlock_expecting`], because a
    /// sound block of another SST can deny present keys.
    ///
    /// # Errors
    /// Returns [`Error::Secret`] if the secret is missing or wrong, and [`Error::Invalid`] if a
    /// secret is given but the block needs none.
    pub fn unlock(self, secret: Option<&Secret>) -> Result<FilterBlock<D>> {
        let hasher = self.0.trailer.hash.hasher(secret)?;
        Ok(self.0.with_hasher(hasher))
    }

    /// Returns the block, ready for queries with hashes of `hasher`. Does not check the block's
    /// SST, so this method is for tools, like [`LockedBlock::unlock`].
    ///
    /// # Errors
    /// Returns [`Error::Unexpected`] if the block has another hash function or seed than `hasher`,
    /// and [`Error::Secret`] if it has another secret.
    pub fn unlock_with(self, hasher: &KeyHasher) -> Result<FilterBlock<D>> {
        self.0.trailer.hash.check(hasher)?;
        Ok(self.0.with_hasher(hasher.clone()))
    }

    /// Returns the parameters of the filter as one line of text. Returns `None` for a partition
    /// index, which has no parameters.
    #[must_use]
    pub fn parameters(&self) -> Option<String> {
        self.geometry().map(ToString::to_string)
    }

    /// Returns whether the extension holds parameters of the filter: the record of a ribbon or of a
    /// range filter.
    #[must_use]
    pub fn has_layers(&self) -> bool {
        matches!(&self.0.trailer.content, Content::Filter { shape, .. } if !shape.layers.is_empty())
    }

    fn geometry(&self) -> Option<&Geometry> {
        match &self.0.trailer.content {
            Content::Filter { geometry, .. } => Some(geometry),
            Content::PartitionIndex => None,
        }
    }

    /// Returns the filter's kind and parameters, or `None` for a partition index.
    #[cfg(feature = "variants")]
    pub(crate) fn shape(&self) -> Option<&Shape> {
        match &self.0.trailer.content {
            Content::Filter { shape, .. } => Some(shape),
            Content::PartitionIndex => None,
        }
    }

    /// Returns the bytes of the filter itself, without page checksums, extension and trailer. For a
    /// filter in partitions, returns the bytes of the partition index.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.0.filter.payload(self.as_bytes())
    }

    /// Returns the partition number in the trailer: 0 for a whole filter or a partition index, and
    /// `i + 1` for partition `i`, counted from 0.
    #[cfg(feature = "variants")]
    pub(crate) fn partition_number(&self) -> u32 {
        self.0.trailer.partition_number
    }

    /// Returns a block with another payload and number of keys, and without table id and range
    /// filter. All other fields are those of this block. `shape` must be the shape of this block.
    #[cfg(feature = "variants")]
    pub(crate) fn with_payload(&self, shape: &Shape, num_keys: u64, mut payload: Vec<u8>) -> Result<Vec<u8>> {
        let payload_len_bytes = payload.len() as u64;
        Geometry::new(shape, num_keys, payload_len_bytes)?;
        let trailer =
            Trailer { table_id: [0; 16], num_keys, payload_len_bytes, ranges: None, ..Trailer::clone(&self.0.trailer) };
        trailer.append_to(&mut payload).map_err(crate::bits::NoMemory::of("a filter block"))?;
        Ok(payload)
    }

    /// Compares all pages with their checksums: see [`FilterBlock::verify_pages`].
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::verify_pages`].
    pub fn verify_pages(&self) -> Result<()> {
        self.0.verify_pages()
    }

    /// Returns the reason why the range filter beside the filter cannot be used: see
    /// [`FilterBlock::ranges_error`].
    #[must_use]
    pub fn ranges_error(&self) -> Option<&Error> {
        self.0.ranges_error()
    }

    /// Returns the bytes of the whole block.
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
    fn parameters_exist_for_a_filter_but_not_for_an_index() {
        let mut builder = FilterBuilder::new("bloom:10".parse().unwrap(), HashSeed(1));
        builder.add(b"key");
        let filter = builder.finish().unwrap();
        let filter = LockedBlock::open(filter.as_slice(), Verify::AtOpen).unwrap();
        assert!(matches!(filter.geometry(), Some(Geometry::Bloom(_))));
        let mut builder = PartitionedBuilder::new("bloom:10".parse().unwrap(), KeyHasher::xxh3(HashSeed(1)), 4);
        builder.add(b"key").unwrap();
        let index = builder.finish().unwrap();
        assert_eq!(LockedBlock::open(index.as_slice(), Verify::AtOpen).unwrap().geometry(), None);
    }
}
