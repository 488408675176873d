//! Reads filters that overlap neither the data pages nor another filter.

use std::io::{Read, Seek};

use super::{FilterRange, Footer};
use crate::error::{Error, Result};

/// The minimum offset of a page: the length of the magic. The location of a chunk with a lower
/// offset is unknown.
const FIRST_PAGE_OFFSET: u64 = 4;

/// The offsets at which the pages of each chunk start and end, and the offsets of the filters, each
/// in ascending order. Empty chunks and chunks with an unknown location have no pages here.
pub(crate) struct Taken {
    pages: Vec<(u64, u64)>,
    filters: Vec<u64>,
}

impl Taken {
    pub(crate) fn of(footer: &Footer) -> Self {
        let groups = 0..footer.num_row_groups();
        let places = groups.flat_map(|group| (0..footer.leaves().len()).map(move |leaf| (group, leaf)));
        let chunks: Vec<_> = places.filter_map(|(group, leaf)| footer.chunk(group, leaf)).collect();
        let is_known = |(start, end): &(u64, u64)| *start >= FIRST_PAGE_OFFSET && start < end;
        let pages = chunks.iter().map(|chunk| (chunk.offset, chunk.offset + chunk.len_bytes));
        let mut pages: Vec<_> = pages.filter(is_known).collect();
        pages.sort_unstable();
        let mut filters: Vec<_> = chunks.iter().filter_map(|chunk| Some(chunk.filter?.offset)).collect();
        filters.sort_unstable();
        Self { pages, filters }
    }

    /// Reads a filter of a chunk as [`Footer::read_filter`] does. Returns [`Error::Corrupt`] also
    /// for a filter that overlaps the pages or the filter of another chunk. The filter of other
    /// values would deny the values of this chunk.
    pub(crate) fn read_filter(
        &self,
        footer: &Footer,
        range: FilterRange,
        file: &mut (impl Read + Seek),
    ) -> Result<Vec<u8>> {
        let bytes = footer.read_filter(range, file)?;
        let end = range.offset + bytes.len() as u64;
        let next = self.pages.partition_point(|&(_, end)| end <= range.offset);
        if self.pages.get(next).is_some_and(|&(start, _)| start < end) {
            return Err(Error::corrupt("location of the filter (inside the data pages)", range.offset));
        }
        // The filter itself begins here. No other filter may begin inside it.
        let first = self.filters.partition_point(|&offset| offset < range.offset);
        if self.filters.partition_point(|&offset| offset < end) > first + 1 {
            return Err(Error::corrupt("location of the filter (inside another filter)", range.offset));
        }
        Ok(bytes)
    }
}
