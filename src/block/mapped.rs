//! Maps filter blocks into memory.
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe, because another process may change it; see the SAFETY comment"
)]

use std::fs::File;
use std::path::Path;

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{Mmap, MmapOptions};

use super::regular_file::{check_regular, open_regular_file};
use crate::error::{Error, Field, Result};

/// Tells whether all pages of a memory map are read when the file is mapped, or each page at its
/// first touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Populate {
    /// Reads all pages when the file is mapped, on Linux 5.14 or newer. If a page cannot be read,
    /// for example because the file became shorter, mapping returns an error. Older kernels and
    /// other systems read each page when it is first touched. If the page cannot be read then, the
    /// touch raises a signal.
    Yes,
    /// Reads each page when it is first touched. On Linux, the kernel is told not to read ahead.
    No,
}

/// A read-only memory map of a file, or of a region of a file.
///
/// The file must not be changed or truncated while it is mapped. A writer meets this condition if
/// it writes each file under a temporary name, renames it, and never changes it afterwards. A host
/// that cannot guarantee the condition must read the file onto the heap
/// ([`AlignedBytes::read`](super::AlignedBytes::read)).
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps a whole file, with [`Populate::Yes`].
    ///
    /// # Errors
    /// Returns an error that names the file if the file cannot be opened, mapped or read, if it is
    /// not a regular file, or if it exceeds the address space.
    pub fn open(path: &Path) -> Result<Self> {
        let map = || {
            let file = open_regular_file(path)?;
            let len = file.metadata()?.len();
            let len = usize::try_from(len).map_err(|_| Error::TooLarge { what: "a memory map" })?;
            Self::region(&file, 0, len, Populate::Yes)
        };
        map().map_err(|error: Error| error.in_file(path))
    }

    /// Maps `len` bytes of a file, starting at `offset`. If `offset` is a multiple of 4,096,
    /// queries touch the fewest pages and cache lines. Any other `offset` works, too.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the file is shorter than `offset + len`. Returns [`Error::Io`]
    /// if it is not a regular file, or if the operating system reports an error.
    pub fn region(file: &File, offset: u64, len: usize, populate: Populate) -> Result<Self> {
        let end = offset.checked_add(len as u64);
        let found = file.metadata()?;
        check_regular(&found)?;
        let file_len = found.len();
        if end.is_none_or(|end| file_len < end) {
            return Err(Error::Corrupt { field: Field::Length, offset });
        }
        // The operating system rejects empty maps.
        if len == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only, and the documentation of `Mapped` requires that nobody
        // changes or truncates the file. Filters read the payload only as integers, for which any
        // value is valid. So if a payload changes nevertheless, answers may be wrong, but memory is
        // not corrupted. Reading a page beyond the end of a truncated file raises a signal.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        #[cfg(target_os = "linux")]
        match populate {
            Populate::Yes => map.advise(Advice::PopulateRead).or_else(unless_unknown)?,
            // An error is ignored: a kernel that rejects the advice reads ahead, which is slower
            // but not wrong.
            Populate::No => drop(map.advise(Advice::Random)),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = populate;
        Ok(Self(Some(map)))
    }
}

/// Turns the error of Linux kernels before 5.14 into success. These kernels do not know the advice
/// `MADV_POPULATE_READ`, and read each page when it is first touched.
#[cfg(target_os = "linux")]
fn unless_unknown(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
}

impl AsRef<[u8]> for Mapped {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_advice_unknown_to_the_kernel_is_ignored() {
        use std::io::ErrorKind::{InvalidInput, Other, OutOfMemory, PermissionDenied};
        for (kind, is_fine) in [(InvalidInput, true), (Other, false), (OutOfMemory, false), (PermissionDenied, false)] {
            assert_eq!(unless_unknown(kind.into()).is_ok(), is_fine, "{kind}");
        }
    }
}
