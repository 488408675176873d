//! Filter blocks in a memory map.
#![expect(unsafe_code, reason = "mapping a file is unsafe, because another process may change it; see the block")]

use std::fs::File;
use std::path::Path;

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Field, Result};

/// Whether the pages of a map are read when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Populate {
    /// All of them, in one sequential read: a file that is shorter than it was said to be is an error here, not a
    /// signal later.
    Yes,
    /// Each when it is first touched, and only it: the operating system is told not to read around it.
    No,
}

/// A read-only memory map of a file, or of a region of one.
///
/// The file must not be changed or cut while it is mapped: this crate's own writers only ever create files under a
/// temporary name and rename them. Whoever cannot promise that of a file reads it onto the heap instead.
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps a whole file and reads all its pages.
    ///
    /// # Errors
    /// When the file cannot be opened, mapped or read to its end.
    pub fn open(path: &Path) -> Result<Self> {
        let map = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            let len = usize::try_from(len).map_err(|_| Error::Corrupt { field: Field::Length, offset: 0 })?;
            Self::region(&file, 0, len, Populate::Yes)
        };
        map().map_err(|error: Error| error.in_file(path))
    }

    /// Maps `len` bytes of a file from `offset` on, which is a multiple of 4,096.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that, and whatever the operating system reports.
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
        // SAFETY: the map is read-only, and the bytes are only ever read as integers, for which any value is valid.
        // Should the file change under it, answers may be wrong but memory is not corrupted; the type's documentation
        // asks for files that do not change, and page sums are there for those that do.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        #[cfg(target_os = "linux")]
        match populate {
            Populate::Yes => map.advise(Advice::PopulateRead).or_else(unless_unknown)?,
            // Advice only: a kernel that does not take it reads around each page, which is slower and not wrong.
            Populate::No => drop(map.advise(Advice::Random)),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = populate;
        Ok(Self(Some(map)))
    }
}

/// Kernels before 5.14 do not know the call: pages are then read when they are touched.
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
    fn a_call_unknown_to_the_kernel_is_the_only_failure_ignored() {
        use std::io::ErrorKind::{InvalidInput, Other, OutOfMemory, PermissionDenied};
        for (kind, is_fine) in [(InvalidInput, true), (Other, false), (OutOfMemory, false), (PermissionDenied, false)] {
            assert_eq!(unless_unknown(kind.into()).is_ok(), is_fine, "{kind}");
        }
    }
}
