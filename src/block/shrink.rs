//! Shrinks a filter that is already built. A bumped ribbon can answer with fewer of its columns, so a host
//! with little memory keeps a weaker filter instead of none.
//!
//! Each dropped column at most doubles the FPR. A shrunk filter answers "maybe" whenever the whole
//! filter does, so it never denies a present key.

use super::bytes::{AlignedBytes, SharedBytes};
use super::layout::Trailer;
use super::parsed::ParsedBlock;
use super::part::Verify;
use super::reader::FilterBlock;
use crate::error::{Result, too_large};
use crate::filters::{Params, zeros};

const SHRUNK: &str = "a shrunk filter";

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Returns a copy with as many columns as fit in `max_len_bytes`, and at least one column.
    /// Returns `None` if the block is short enough, or has no smaller form. The copy has no range
    /// filter, so it answers "maybe" for every range that can hold a key. Hosts use a
    /// [`FilterCache`](super::FilterCache).
    ///
    /// The copy is a complete block on the heap, and its checksum differs from the original's. Keep
    /// the original in the SST, because dropped columns cannot be computed again.
    ///
    /// # Errors
    /// Returns [`Error::ChecksumMismatch`](crate::Error::ChecksumMismatch) if a page that the copy
    /// needs is damaged, and [`Error::TooLarge`](crate::Error::TooLarge) if there is no memory.
    #[doc(hidden)]
    pub fn shrunk_to(&self, max_len_bytes: u64) -> Result<Option<FilterBlock<SharedBytes>>> {
        let Some(start) = self.columns_to_drop_from() else { return Ok(None) };
        if self.metadata().block_len_bytes <= max_len_bytes {
            return Ok(None);
        }
        let fits = |&columns: &u32| self.len_with(columns).is_some_and(|len| len <= max_len_bytes);
        let columns = (1..start).rfind(fits).unwrap_or(1);
        if columns < start { self.copy_of_columns(columns) } else { Ok(None) }
    }

    /// Returns a copy of the block with only the first `columns` columns and without a range
    /// filter. Returns `None` if this block has no such smaller form.
    fn copy_of_columns(&self, columns: u32) -> Result<Option<FilterBlock<SharedBytes>>> {
        let Some(copy) = self.bytes_of_columns(columns)? else { return Ok(None) };
        let copy = SharedBytes::from(AlignedBytes::copy_of(&copy)?);
        ParsedBlock::open(copy, Verify::AtOpen)?.bind_to(&self.hasher).map(Some)
    }

    /// Returns the bytes of [`copy_of_columns`](Self::copy_of_columns).
    pub(super) fn bytes_of_columns(&self, columns: u32) -> Result<Option<Vec<u8>>> {
        let (Some(header), Some(params)) = (self.header(), self.params_of_copy(columns)) else { return Ok(None) };
        let (bytes, trailer) = (self.as_bytes(), &self.trailer);
        let payload = self.filter.payload(bytes);
        let (header, mut copy) = if self.filter.params == params {
            let mut copy = zeros(payload.len()).map_err(too_large(SHRUNK))?;
            copy.copy_from_slice(payload);
            (header.clone(), copy)
        } else {
            self.filter.params.copy_columns(header, payload, &params)?
        };
        // The copy gets new checksums, which would hide damage of the original. So the original
        // pages are verified after the copy, even if they were verified at open. A memory map may
        // read a page from the file again, and the file may be damaged by then. The columns of a
        // group of eight are interleaved, so the copy read whole groups.
        let groups = self.filter.params.with_columns(columns.next_multiple_of(8));
        let len = groups.map_or(self.filter.len, |groups| groups.asked_len(self.filter.len));
        let checked = self.filter.check_pages_before(len, bytes, &trailer.table_id, trailer.partition_number);
        checked.map_err(|error| error.moved_by(self.offset))?;
        // A range filter cannot shrink, so the copy has none.
        let (header, payload_len_bytes) = (Some(header), copy.len() as u64);
        let trailer = Trailer { header, payload_len_bytes, ranges: None, ..Trailer::clone(trailer) };
        trailer.append_to(&mut copy).map_err(too_large(SHRUNK))?;
        Ok(Some(copy))
    }
}

impl<D: AsRef<[u8]>> ParsedBlock<D> {
    /// Returns the number of columns below which the smaller forms of the block begin. It is the
    /// present number of columns, or one more for a block that has a range filter: a copy has no
    /// range filter, so even a copy of all columns is smaller. Returns `None` if the filter cannot
    /// drop columns. Of a filter in partitions, a host can load and unload partitions.
    pub(super) fn columns_to_drop_from(&self) -> Option<u32> {
        if self.partitions().is_some() || self.trailer.partition_number != 0 {
            return None;
        }
        Some(self.filter.params.columns()? + u32::from(self.filter.start > 0))
    }

    /// Returns the length in bytes of a copy of the first `columns` columns. Returns `None` if the
    /// block has no such smaller form.
    pub(super) fn len_with(&self, columns: u32) -> Option<u64> {
        let payload_len = self.params_of_copy(columns)?.asked_len(self.filter.len);
        let record_len = self.header()?.record.len();
        Trailer { ranges: None, ..Trailer::clone(&self.trailer) }.block_len_bytes(payload_len as u64, record_len)
    }

    fn params_of_copy(&self, columns: u32) -> Option<Params> {
        let params = &self.filter.params;
        if params.columns() == Some(columns) { Some(params.clone()) } else { params.with_columns(columns) }
    }
}
