//! Returns the properties of a filter in a file, and a copy of the filter in memory.

use std::path::Path;

use super::FileFilter;
use super::layout::Length;
use crate::Bloom;
use crate::error::{Error, Result};

impl FileFilter {
    /// Returns the number of added keys that were certainly absent when they were added. After a
    /// crash, keys that were added since the last complete sync may be missing in this number.
    ///
    /// # Errors
    /// Returns [`Error::LengthUnknown`] after a union or an intersection, and if a page was
    /// damaged. After [`clear`](Self::clear), the number is known again.
    pub fn len(&self) -> Result<u64> {
        let reason = match self.length() {
            Length::Known(added) => return Ok(added),
            Length::Combined => "the filter was united or intersected with another",
            Length::Damaged => "a page of the filter was damaged",
        };
        Err(Error::LengthUnknown { reason }.in_file(&self.path))
    }

    /// Returns whether no bit is set. The filter then holds no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bloom.count_ones() == 0
    }

    /// Returns the number of keys that the filter was created for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.header.capacity
    }

    /// Returns the FPR that the filter was created for.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        self.header.rate
    }

    /// Returns the FPR at the current fill ratio.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.bloom.expected_fpr()
    }

    /// Returns the number of bits.
    #[must_use]
    pub fn num_bits(&self) -> u64 {
        self.bloom.num_bits()
    }

    /// Returns the number of probes of a key. Two probes may hit the same bit.
    #[must_use]
    pub fn num_probes(&self) -> u32 {
        self.bloom.num_probes()
    }

    /// Returns whether the filter was opened for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.writer.is_none()
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of pages after the header that were damaged when the file was opened. The
    /// number is 0 after [`clear`](Self::clear) or [`intersect_with`](Self::intersect_with), which
    /// write a new file.
    ///
    /// All bits of a damaged page of bits count as set. After any damage, [`len`](Self::len) is
    /// unknown until `clear`.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        self.damaged_pages
    }

    /// Returns a copy of the filter in memory, for example to compare, compress or freeze it.
    pub fn to_bloom(&self) -> Result<Bloom> {
        self.snapshot(Bloom::try_clone).0
    }

    /// Returns the number of bits that are set.
    #[must_use]
    pub fn count_ones(&self) -> u64 {
        self.bloom.count_ones()
    }

    /// Estimates the number of distinct keys from the bits that are set, as
    /// [`Bloom::estimated_keys`] does.
    #[must_use]
    pub fn estimated_keys(&self) -> f64 {
        self.bloom.estimated_keys()
    }
}
