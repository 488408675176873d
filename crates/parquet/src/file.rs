//! Answers by the filters of a Parquet file in memory, without values.

use std::ops::Range;
use std::sync::Arc;

use crate::bloom::ParquetBloom;
use crate::error::{Error, Field, Result};
use crate::metadata::{ParquetColumnChunk, ParquetMetadata};
use crate::schema::Leaf;

/// A Parquet file over `bytes`, which may be a memory map. Filters are read in place.
#[derive(Debug, Clone)]
pub struct ParquetFile<D> {
    bytes: D,
    metadata: Arc<ParquetMetadata>,
}

impl<D: AsRef<[u8]>> ParquetFile<D> {
    /// Opens a file and reads its metadata.
    ///
    /// # Errors
    /// Returns the errors of [`ParquetMetadata::range`] and [`ParquetMetadata::parse`].
    pub fn open(bytes: D) -> Result<Self> {
        let (metadata, offset) = ParquetMetadata::load(bytes.as_ref().len() as u64, |range| {
            slice(bytes.as_ref(), &range).ok_or(Error::corrupt(Field::FileLen, 0))
        })?;
        let metadata = Arc::new(ParquetMetadata::parse(metadata, offset)?);
        Ok(Self { bytes, metadata })
    }

    /// Returns the metadata.
    #[must_use]
    pub fn metadata(&self) -> &Arc<ParquetMetadata> {
        &self.metadata
    }

    /// Returns every column chunk, with and without a filter, ordered by row group.
    #[must_use]
    pub fn column_chunks(&self) -> &[ParquetColumnChunk] {
        self.metadata.column_chunks()
    }

    /// Returns the leaf columns in the order of the schema. Every row group has these columns.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        self.metadata.leaves()
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the chunk of the column at `path` in a row group, or `None` unless exactly one chunk
    /// has this path. Names may contain dots, so several columns can have the same path.
    #[must_use]
    pub fn column_chunk(&self, row_group: usize, path: &str) -> Option<&ParquetColumnChunk> {
        let mut found =
            self.column_chunks().iter().filter(|chunk| chunk.row_group == row_group && *chunk.path == *path);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the filter of a chunk, or `None` if [`ParquetColumnChunk::filter`] is `None`. A
    /// filter without a set bit has the exception of [`ParquetMetadata::parse_filter`].
    ///
    /// # Errors
    /// Returns the errors of [`ParquetMetadata::filter_range`] and
    /// [`ParquetMetadata::parse_filter`].
    pub fn filter(&self, chunk: &ParquetColumnChunk) -> Result<Option<ParquetBloom<'_>>> {
        let Some(range) = self.metadata.filter_range(chunk)? else { return Ok(None) };
        let bytes = slice(self.bytes.as_ref(), &range);
        let bytes = bytes.ok_or(Error::corrupt(Field::FilterLocation, range.start))?;
        self.metadata.parse_filter(chunk, bytes).map(Some)
    }

    /// Returns the number of filters that cannot be used: those with an error in [`Self::filter`],
    /// and those without a set bit in a chunk that may have values. Their answers are "maybe".
    #[must_use]
    pub fn num_unusable_filters(&self) -> u64 {
        let is_unusable = |chunk: &&ParquetColumnChunk| match self.filter(chunk) {
            Ok(filter) => filter.is_some_and(|filter| filter.num_blocks() == 0),
            Err(_) => true,
        };
        self.column_chunks().iter().filter(is_unusable).count() as u64
    }

    /// Returns whether a chunk may contain a value, given in the plain encoding. If the chunk has
    /// no filter, or the filter cannot be used, the answer is "maybe".
    #[must_use]
    pub fn may_contain(&self, chunk: &ParquetColumnChunk, plain_value: &[u8]) -> bool {
        self.filter(chunk).ok().flatten().is_none_or(|filter| filter.may_contain(plain_value))
    }

    /// Answers for many values as [`Self::may_contain`] does, in their order. It stops at the end
    /// of the shorter slice.
    pub fn may_contain_batch(&self, chunk: &ParquetColumnChunk, plain_values: &[&[u8]], answers: &mut [bool]) {
        match self.filter(chunk) {
            Ok(Some(filter)) => filter.may_contain_batch(plain_values, answers),
            _ => answers.iter_mut().zip(plain_values).for_each(|(answer, _)| *answer = true),
        }
    }

    /// Reads the header of every filter, and returns the number of filters. A Parquet file has no
    /// checksums over filters, so damaged bits go unnoticed.
    ///
    /// # Errors
    /// Returns the error of the first invalid filter.
    pub fn verify(&self) -> Result<u64> {
        let mut filters = 0;
        for chunk in self.column_chunks() {
            filters += u64::from(self.filter(chunk)?.is_some());
        }
        Ok(filters)
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

fn slice<'a>(file: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    file.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}
