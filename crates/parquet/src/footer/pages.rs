//! Reads filters that do not overlap the data pages.

use std::io::{Read, Seek};

use super::{FilterRange, Footer};
use crate::error::{Error, Result};

/// The minimum offset of a page: the length of the magic. The location of a chunk with a lower
/// offset is unknown.
const FIRST_PAGE_OFFSET: u64 = 4;

/// The offsets at which the pages of each chunk start and end, in ascending order. Empty chunks and
/// chunks with an unknown location are left out.
pub(crate) struct Pages(Vec<(u64, u64)>);

impl Pages {
    pub(crate) fn of(footer: &Footer) -> Self {
        let groups = 0..footer.num_row_groups();
        let places = groups.flat_map(|group| (0..footer.leaves().len()).map(move |leaf| (group, leaf)));
        let chunks = places.filter_map(|(group, leaf)| footer.chunk(group, leaf));
        let is_known = |(start, end): &(u64, u64)| *start >= FIRST_PAGE_OFFSET && start < end;
        let range = chunks.map(|chunk| (chunk.offset, chunk.offset + chunk.len_bytes));
        let mut ranges: Vec<_> = range.filter(is_known).collect();
        ranges.sort_unstable();
        Self(ranges)
    }

    /// Reads a filter as [`Footer::read_filter`] does. Returns [`Error::Corrupt`] also for a filter
    /// that overlaps the pages of a chunk.
    pub(crate) fn read_filter(
        &self,
        footer: &Footer,
        range: FilterRange,
        file: &mut (impl Read + Seek),
    ) -> Result<Vec<u8>> {
        let bytes = footer.read_filter(range, file)?;
        let end = range.offset + bytes.len() as u64;
        let next = self.0.partition_point(|&(_, end)| end <= range.offset);
        match self.0.get(next) {
            Some(&(start, _)) if start < end => {
                Err(Error::corrupt("location of the filter (inside the data pages)", range.offset))
            }
            _ => Ok(bytes),
        }
    }
}
