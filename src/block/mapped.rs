//! Filter blocks in a memory map.
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe, because another process may change it; see the SAFETY comment"
)]

use std::fs::File;
use std::path::Path;

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Field, Result};

/// Whether making a memory map reads its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Populate {
    /// Reads all pages in one sequential read on Linux 5.14 or newer. If a page cannot be read, for
    /// example because the file became shorter, making the map returns an error. Other systems read
    /// each page when it is first touched. There, the touch of such a page raises a signal.
    Yes,
    /// Reads each page when it is first touched. Linux is told not to read ahead.
    No,
}

/// A read-only memory map of a file, or of a region of one.
///
/// The file must not be changed or truncated while it is mapped. The writers of this crate meet
/// this condition: they create each file under a temporary name and rename it. If the host cannot
/// guarantee this, it must read the file onto the heap
/// ([`AlignedBytes::read`](super::AlignedBytes::read)).
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps a whole file and reads its pages: see [`Populate::Yes`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, mapped or read to its end, and
    /// [`Error::TooLarge`] if it exceeds the address space. The error names the file.
    pub fn open(path: &Path) -> Result<Self> {
        let map = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            let len = usize::try_from(len).map_err(|_| Error::TooLarge { what: "a memory map" })?;
            Self::region(&file, 0, len, Populate::Yes)
        };
        map().map_err(|error: Error| error.in_file(path))
    }

    /// Maps `len` bytes of a file, starting at `offset`. An `offset` that is a multiple of 4,096
    /// puts each line of the filter on one cache line. Any other `offset` works, too, but queries
    /// may touch more cache lines.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the file is shorter than `offset + len`, and [`Error::Io`] if
    /// the operating system reports an error.
    pub fn region(file: &File, offset: u64, len: usize, populate: Populate) -> Result<Self> {
        let end = offset.checked_add(len as u64);
        let file_len = file.metadata()?.len();
        if end.is_none_or(|end| file_len < end) {
            return Err(Error::Corrupt { field: Field::Length, offset });
        }
        // The operating system refuses empty maps.
        if len == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only, and its bytes are only read as integers, for which any
        // value is valid. If the file changes while it is mapped, answers may be wrong, but memory
        // is not corrupted. The type's documentation asks for files that do not change. Page
        // checksums detect a change of a page only if it happens before the page is verified.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        #[cfg(target_os = "linux")]
        match populate {
            Populate::Yes => map.advise(Advice::PopulateRead).or_else(unless_unknown)?,
            // This is only advice. A kernel that rejects it reads ahead, which is slower but not
            // wrong.
            Populate::No => drop(map.advise(Advice::Random)),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = populate;
        Ok(Self(Some(map)))
    }
}

/// Accepts the error of Linux kernels before 5.14, which cannot read pages in advance. They read
/// each page when it is first touched.
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
