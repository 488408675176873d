//! What a filter in a file says of itself.

use std::path::Path;

use super::FileFilter;
use super::layout::Length;
use crate::variants::Bloom;
use crate::variants::error::{Error, Result};

impl FileFilter {
    /// The number of keys added, as far as each was certainly not there when it came. After a crash those of a sync that was
    /// not done are not counted.
    ///
    /// # Errors
    /// [`Error::LengthUnknown`] after a union or an intersection, and after a page was lost.
    pub fn len(&self) -> Result<u64> {
        let reason = match self.length() {
            Length::Known(added) => return Ok(added),
            Length::Combined => "the filter was united or intersected with another",
            Length::Damaged => "a page of the file was lost",
        };
        Err(Error::LengthUnknown { reason }.in_file(&self.path))
    }

    /// Whether no key was ever added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bloom.count_ones() == 0
    }

    /// The keys that it was made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.header.capacity
    }

    /// The rate that it was made for.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        self.header.rate
    }

    /// The rate as full as it is now.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.bloom.expected_rate()
    }

    /// The number of bits.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.bloom.num_bits()
    }

    /// The number of bits of a key.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.bloom.num_probes()
    }

    /// Whether it was opened for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.writer.is_none()
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Pages that did not hold when the file was opened. One of bits counts as 4,032 bits that are set, and is written so
    /// with the next key that has one of them; with any the length is unknown for good. [`clear`](Self::clear) mends
    /// them.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        self.damaged_pages
    }

    /// A copy in memory: to be compared, compressed or frozen. Aborts the process where there is no memory for it.
    #[must_use]
    pub fn to_bloom(&self) -> Bloom {
        self.snapshot(Bloom::clone).0
    }
}
