//! Bytes on the heap that begin at a cache line, as a map does: a filter's line is then a line of memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::bits::zeros;
use crate::error::{Error, Result};

const ALIGNMENT_BYTES: usize = 64;

/// A filter block copied to the heap: whatever becomes of the file, these bytes stay.
pub struct HeapBytes {
    buffer: Box<[u8]>,
    start: usize,
    len: usize,
}

impl HeapBytes {
    /// `len` bytes, filled by `fill`.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(super) fn filled(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Self> {
        let mut buffer = zeros::<u8>(len as u64 + ALIGNMENT_BYTES as u64 - 1, "a filter block")?.into_boxed_slice();
        // The pointer is that of the box, which does not move its content.
        let start = buffer.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES - 1);
        fill(buffer.get_mut(start..start + len).unwrap_or_default())?;
        Ok(Self { buffer, start, len })
    }

    /// The content of the file at `path`, which must not become shorter meanwhile.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let read = || {
            let mut file = File::open(path)?;
            let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX / 2);
            Self::filled(len, |bytes| Ok(file.read_exact(bytes)?))
        };
        read().map_err(|error: Error| error.in_file(path))
    }
}

impl AsRef<[u8]> for HeapBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl std::fmt::Debug for HeapBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeapBytes").field("len", &self.len).finish_non_exhaustive()
    }
}
