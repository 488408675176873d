//! Shrinks filters that are already built. A bumped ribbon can answer with fewer of its columns, so
//! a host with little memory keeps a weaker filter instead of none.
//!
//! Each dropped column at most doubles the FPR. A shrunk filter answers "maybe" whenever the whole
//! filter does, so it never denies a present key.

use super::aligned::AlignedBytes;
use super::expected::Expected;
use super::layout::{Content, Trailer, block_len_bytes};
use super::locked::LockedBlock;
use super::part::Verify;
use super::reader::FilterBlock;
use super::shared_bytes::SharedBytes;
use crate::bits::NoMemory;
use crate::error::Result;
use crate::kinds::Geometry;

/// The result of [`FilterBlock::shrink_in_place`] or [`FilterBlock::shrunk_to`].
///
/// Only [`Shrunk::Smaller`] means that there is a smaller filter. In all other cases the filter
/// stays as it was, and no copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shrunk<T> {
    /// Columns were dropped, or a copy was made without the range filter. The result is within the
    /// limit, or it has the fewest columns possible: one in a copy, eight in place.
    Smaller(T),
    /// The filter is within the limit.
    Fits,
    /// The filter is above the limit, but it has the fewest columns possible.
    Smallest,
    /// The filter is above the limit, and its kind cannot drop columns. Only bumped ribbons
    /// ([`FilterKind::BumpedRibbon`](crate::FilterKind::BumpedRibbon)) can.
    NoColumns,
    /// The filter is above the limit, and it has partitions or is a single partition. Load and
    /// unload partitions instead: see [`PartitionIndex`](super::PartitionIndex).
    Partitioned,
}

impl<T> Shrunk<T> {
    /// Returns the value of [`Shrunk::Smaller`], and `None` in all other cases.
    #[must_use]
    pub fn smaller(self) -> Option<T> {
        match self {
            Self::Smaller(filter) => Some(filter),
            Self::Fits | Self::Smallest | Self::NoColumns | Self::Partitioned => None,
        }
    }
}

/// The method by which columns are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drop {
    /// Drops groups of eight columns. The bytes stay where they are.
    InPlace,
    /// Drops single columns. The other columns are copied.
    ByCopy,
}

impl Drop {
    /// Returns the next smaller number of columns, or `None` if `columns` is already the smallest.
    pub(super) fn next_below(self, columns: u32) -> Option<u32> {
        let next = match self {
            Self::InPlace => columns.saturating_sub(1) / 8 * 8,
            Self::ByCopy => columns.saturating_sub(1),
        };
        (next > 0).then_some(next)
    }
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens a block and drops columns in place until the block is at most `max_len_bytes` long:
    /// see [`FilterBlock::shrink_in_place`]. If the limit is too low, the filter keeps the fewest
    /// columns possible. A filter that cannot drop columns stays whole.
    ///
    /// [`Verify::AtOpen`] verifies only the pages that hold kept columns. The pages of a range
    /// filter beside the filter are always verified on first touch. To open a memory map without
    /// reading the pages of dropped columns, map the file with
    /// [`Populate::No`](super::Populate::No).
    ///
    /// # Errors
    /// Returns the errors of [`FilterBlock::open`].
    pub fn open_within(data: D, expected: &Expected<'_>, verify: Verify, max_len_bytes: u64) -> Result<Self> {
        let mut block = Self::open(data, expected, Verify::OnFirstTouch)?;
        // The result is ignored: the caller reads the length of the block from its metadata.
        let _: Shrunk<()> = block.shrink_in_place(max_len_bytes);
        match verify {
            Verify::OnFirstTouch => Ok(block),
            Verify::AtOpen => {
                block.verify_own_pages()?;
                Ok(block.without_page_states())
            }
        }
    }

    /// Drops groups of eight columns in place, until the block is at most `max_len_bytes` long, or
    /// until only eight columns are left.
    ///
    /// The bytes stay where they are, but neither queries nor [`FilterBlock::verify_pages`] read
    /// the pages that hold only dropped columns. This method is for blocks in memory maps: the
    /// kernel can evict these pages. For bytes on the heap, it frees no memory.
    ///
    /// The limit applies to [`Metadata::block_len_bytes`](super::Metadata::block_len_bytes), which
    /// counts only the kept columns.
    #[must_use = "not every filter can shrink"]
    pub fn shrink_in_place(&mut self, max_len_bytes: u64) -> Shrunk<()> {
        let columns = match self.columns_within(max_len_bytes, Drop::InPlace) {
            Shrunk::Smaller(columns) => columns,
            Shrunk::Fits => return Shrunk::Fits,
            Shrunk::Smallest => return Shrunk::Smallest,
            Shrunk::NoColumns => return Shrunk::NoColumns,
            Shrunk::Partitioned => return Shrunk::Partitioned,
        };
        if self.keep_in_place(columns) { Shrunk::Smaller(()) } else { Shrunk::Smallest }
    }

    /// Returns a copy with as many columns as fit in `max_len_bytes`, and at least one column. See
    /// [`Shrunk`] for the cases in which no copy is made. The copy has no range filter
    /// ([`FilterBuilder::with_ranges`](super::FilterBuilder::with_ranges)), so it answers "maybe"
    /// for every range that can hold a key.
    ///
    /// The copy is a complete block on the heap. Its checksum differs from the checksum of the
    /// original, so the copy does not open if [`Expected::with_checksum`] gives the checksum of the
    /// original. Keep the original in the SST, because dropped columns cannot be computed again.
    ///
    /// Reads only the pages of the groups of eight columns that hold kept columns. Verifies these
    /// pages, unless the block was verified at open and then shrunk in place.
    ///
    /// # Errors
    /// Returns [`Error::ChecksumMismatch`](crate::Error::ChecksumMismatch) if a page that the copy
    /// needs is damaged, and [`Error::TooLarge`](crate::Error::TooLarge) if there is no memory.
    pub fn shrunk_to(&self, max_len_bytes: u64) -> Result<Shrunk<FilterBlock<SharedBytes>>> {
        Ok(match self.columns_within(max_len_bytes, Drop::ByCopy) {
            Shrunk::Smaller(columns) => match self.copy_of_columns(columns)? {
                Some(copy) => Shrunk::Smaller(copy),
                None => Shrunk::Smallest,
            },
            Shrunk::Fits => Shrunk::Fits,
            Shrunk::Smallest => Shrunk::Smallest,
            Shrunk::NoColumns => Shrunk::NoColumns,
            Shrunk::Partitioned => Shrunk::Partitioned,
        })
    }

    /// Returns [`Shrunk::Smaller`] with the largest number of columns that fits in `max_len_bytes`,
    /// or with the fewest columns possible if the limit is too low. The other variants say why the
    /// block cannot or need not shrink.
    fn columns_within(&self, max_len_bytes: u64, how: Drop) -> Shrunk<u32> {
        if self.metadata().block_len_bytes <= max_len_bytes {
            return Shrunk::Fits;
        }
        if self.partitions().is_some() || self.trailer.partition_number != 0 {
            return Shrunk::Partitioned;
        }
        let Some(start) = self.columns_to_drop_from(how) else { return Shrunk::NoColumns };
        let mut columns = start;
        while let Some(fewer) = how.next_below(columns) {
            columns = fewer;
            if self.len_with(columns, how).is_some_and(|len| len <= max_len_bytes) {
                break;
            }
        }
        if columns == start { Shrunk::Smallest } else { Shrunk::Smaller(columns) }
    }

    /// Returns the number of columns from which [`Drop::next_below`] counts down to all smaller
    /// forms of the block. It is the present number of columns, or one more for a copy of a block
    /// that has a range filter and still all columns. The copy has no range filter, so even a copy
    /// of all columns is smaller. Returns `None` if the filter cannot drop columns.
    pub(super) fn columns_to_drop_from(&self, how: Drop) -> Option<u32> {
        if self.partitions().is_some() || self.trailer.partition_number != 0 {
            return None;
        }
        let columns = self.filter.geometry.columns()?;
        let sheds_ranges = how == Drop::ByCopy && self.has_whole_payload() && self.filter.start > 0;
        Some(columns + u32::from(sheds_ranges))
    }

    /// Returns whether queries use the whole payload. They do not after columns were dropped in
    /// place.
    fn has_whole_payload(&self) -> bool {
        self.filter.geometry.asked_len(self.filter.len) == self.filter.len
    }

    /// Returns the length in bytes of the block with only the first `columns` columns, or of a copy
    /// of these columns. Returns `None` if the block has no such smaller form.
    pub(super) fn len_with(&self, columns: u32, how: Drop) -> Option<u64> {
        let asked_len = |geometry: &Geometry| geometry.asked_len(self.filter.len);
        match how {
            Drop::InPlace => self.len_with_payload(asked_len(&self.filter.geometry.with_columns(columns)?)),
            Drop::ByCopy => {
                let payload_len = asked_len(&self.geometry_of_copy(columns)?);
                let extension_len = self.trailer.extension_len_bytes(None);
                block_len_bytes(payload_len as u64, self.record_len())?.checked_add(extension_len as u64)
            }
        }
    }

    fn geometry_of_copy(&self, columns: u32) -> Option<Geometry> {
        let geometry = &self.filter.geometry;
        let is_all = geometry.columns() == Some(columns) && self.has_whole_payload();
        if is_all { Some(geometry.clone()) } else { geometry.with_columns(columns) }
    }

    /// Returns the length in bytes that the block would have with a payload of `payload_len` bytes.
    /// Returns `None` if the length does not fit in 64 bits.
    pub(super) fn len_with_payload(&self, payload_len: usize) -> Option<u64> {
        let extension_len = self.trailer.extension_len_bytes(self.trailer.ranges);
        let len = block_len_bytes(payload_len as u64, self.record_len())?.checked_add(self.filter.start as u64)?;
        len.checked_add(extension_len as u64)
    }

    /// Returns the length in bytes of the record of parameters, or 0 if there is none.
    fn record_len(&self) -> usize {
        match &self.trailer.content {
            Content::Filter { shape, .. } => shape.layers.len(),
            Content::PartitionIndex => 0,
        }
    }

    /// Drops all columns after the first `columns`, which must be a multiple of eight. If the
    /// filter has at most `columns` columns or cannot drop columns, it does not change, and the
    /// result is `false`.
    fn keep_in_place(&mut self, columns: u32) -> bool {
        debug_assert!(columns.is_multiple_of(8), "only whole groups of eight columns can be dropped in place");
        self.filter.geometry.with_columns(columns).is_some_and(|geometry| {
            self.filter.set_geometry(geometry);
            true
        })
    }

    /// Returns a copy of the block with only the first `columns` columns and without a range
    /// filter. Returns `None` if this block has no such smaller form.
    pub(super) fn copy_of_columns(&self, columns: u32) -> Result<Option<FilterBlock<SharedBytes>>> {
        let Content::Filter { shape, .. } = &self.trailer.content else { return Ok(None) };
        let Some(geometry) = self.geometry_of_copy(columns) else { return Ok(None) };
        let (bytes, is_whole) = (self.as_bytes(), self.has_whole_payload());
        let payload = self.filter.payload(bytes);
        let (shape, mut copy) = if self.filter.geometry.columns() == Some(columns) {
            (shape.clone(), copied(payload)?)
        } else {
            self.filter.geometry.copy_columns(shape, payload, &geometry)?
        };
        // The copy gets new checksums, which would hide damage of the original. So the original
        // pages are verified after the copy, even if they were verified at open. A memory map may
        // read a page from the file again, and the file may be damaged by then. A block that was
        // verified and then shrunk in place is not verified again: the host may have discarded the
        // bytes after the kept columns. These bytes include the page checksums.
        if is_whole || self.filter.states.is_some() {
            // The columns of a group are interleaved, so the copy read whole groups.
            let groups = self.filter.geometry.with_columns(columns.next_multiple_of(8));
            let len = groups.unwrap_or_else(|| self.filter.geometry.clone()).asked_len(self.filter.len);
            let checked =
                self.filter.check_pages_before(len, bytes, &self.trailer.table_id, self.trailer.partition_number);
            checked.map_err(|error| error.moved_by(self.offset))?;
        }
        let payload_len_bytes = copy.len() as u64;
        let content = Content::Filter { shape, geometry };
        // A range filter cannot shrink, so the copy has none.
        let trailer = Trailer { content, payload_len_bytes, ranges: None, ..Trailer::clone(&self.trailer) };
        trailer.append_to(&mut copy).map_err(NoMemory::of("a shrunk filter"))?;
        let copy = SharedBytes::from(AlignedBytes::copy_of(&copy)?);
        LockedBlock::open(copy, Verify::AtOpen)?.unlock_with(&self.hasher).map(Some)
    }
}

fn copied(payload: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(payload.len()).map_err(NoMemory::from).map_err(NoMemory::of("a shrunk filter"))?;
    copy.extend_from_slice(payload);
    Ok(copy)
}

impl FilterBlock<SharedBytes> {
    /// Returns a block that shares the bytes of this block and has only the first `columns`
    /// columns. Reads no page of the payload, but reads the trailer and the page checksums again.
    /// `columns` must be a multiple of eight, and below the number of columns of this block.
    /// Returns `None` if this block is verified on first touch or cannot drop columns.
    pub(super) fn shared_in_place(&self, columns: u32) -> Result<Option<Self>> {
        if self.filter.states.is_some() || self.columns_to_drop_from(Drop::InPlace).is_none() {
            return Ok(None);
        }
        // This block has already verified its pages, so the new block need not.
        let block = LockedBlock::open(self.data.clone(), Verify::OnFirstTouch)?.unlock_with(&self.hasher)?;
        let mut block = FilterBlock { offset: self.offset, ..block.without_page_states() };
        Ok(block.keep_in_place(columns).then_some(block))
    }
}
