//! One filter within the bytes of a block: where it lies, how it is asked, and which of its pages are verified.

use super::layout::{Content, PAGE_CHECKSUM_LEN_BYTES, Trailer, page_count};
use super::pages::{self, FirstTouch, PageStates};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::kinds::{Columns, FilterView, Geometry, Kernel};

/// When the pages of a filter are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Verify {
    /// All at open: a damaged filter is an error there, and queries ask nothing more.
    #[default]
    AtOpen,
    /// Each on its first touch: opening reads the trailer and the page sums only (a thousandth of the filter). A
    /// damaged page then answers "maybe", and is counted ([`FilterBlock::damaged_pages`](super::FilterBlock::damaged_pages)).
    OnFirstTouch,
}

/// Where one filter lies within the bytes of a block, and how it is asked.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) geometry: Geometry,
    pub(super) kernel: Kernel,
    /// `None` when all pages were checked at open.
    pub(super) states: Option<Box<PageStates>>,
}

impl Part {
    /// The filter whose payload begins at `start` of `bytes`, as `trailer` describes it.
    pub(super) fn new(bytes: &[u8], start: usize, trailer: &Trailer, verify: Verify) -> Result<Self> {
        // Trailer::read has shown that the payload lies within the bytes.
        let len = usize::try_from(trailer.payload_len_bytes)
            .map_err(|_| Error::Corrupt { field: Field::PayloadLen, offset: 0 })?;
        let geometry = match &trailer.content {
            Content::Filter { geometry, .. } => geometry.clone(),
            Content::PartitionIndex => Geometry::Full,
        };
        let kernel = Kernel::of(&geometry);
        let mut part = Self { start, len, geometry, kernel, states: None };
        match verify {
            Verify::AtOpen => part.check_pages(bytes, &trailer.table_id, trailer.place)?,
            // Nothing to look at, so nothing to remember: a million constants in partitions cost no memory.
            Verify::OnFirstTouch if len == 0 => {}
            Verify::OnFirstTouch => {
                part.states = Some(Box::new(PageStates::new(&trailer.table_id, trailer.place, len)?));
            }
        }
        Ok(part)
    }

    pub(super) fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// The payload and what lies behind it.
    #[inline(always)]
    fn padded<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..).unwrap_or_default()
    }

    fn sums<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let from = self.start + self.len;
        bytes.get(from..from + page_count(self.len) * PAGE_CHECKSUM_LEN_BYTES).unwrap_or_default()
    }

    #[inline]
    pub(super) fn view<'a>(&'a self, bytes: &'a [u8]) -> FilterView<'a> {
        FilterView::new(&self.geometry, self.kernel, self.padded(bytes), self.len)
    }

    #[inline(always)]
    pub(super) fn may_contain(&self, bytes: &[u8], hash: KeyHash) -> bool {
        match &self.states {
            None => self.kernel.may_contain(&self.geometry, self.padded(bytes), self.len, hash),
            Some(states) => self.may_contain_on_first_touch(bytes, hash, states),
        }
    }

    /// A call of its own: what it needs would otherwise take registers from the loops of those who need none of it.
    #[inline(never)]
    fn may_contain_on_first_touch(&self, bytes: &[u8], hash: KeyHash, states: &PageStates) -> bool {
        let payload = self.payload(bytes);
        self.view(bytes).may_contain_guarded(hash, &FirstTouch { states, payload, sums: self.sums(bytes) })
    }

    #[inline]
    pub(super) fn may_contain_with(&self, bytes: &[u8], hash: KeyHash, columns: Columns) -> bool {
        let view = self.view(bytes);
        match &self.states {
            None => view.may_contain_with(hash, columns),
            Some(states) => {
                let payload = self.payload(bytes);
                let guard = FirstTouch { states, payload, sums: self.sums(bytes) };
                view.may_contain_with_guarded(hash, columns, &guard)
            }
        }
    }

    pub(super) fn check_pages(&self, bytes: &[u8], table_id: &[u8; 16], place: u32) -> Result<()> {
        pages::check_all(table_id, place, self.payload(bytes), self.sums(bytes))
            .map_err(|error| error.moved_by(self.start as u64))
    }
}
