//! Copies filter blocks to the heap, aligned to a cache line.

use std::io::Read;
use std::path::Path;

use super::regular_file::open_regular_file;
use crate::error::zeros;
use crate::error::{Error, Result};

const ALIGNMENT_BYTES: usize = 64;

/// A copy of a filter block on the heap, aligned to 64 bytes.
///
/// Answers are the same at any alignment, but a query of unaligned bytes may read more cache lines.
/// `cargo bench --bench probe -- unaligned` measures the cost.
///
/// The copy does not change when the file that held the block changes.
///
/// ```
/// use filterblock::{AlignedBytes, Expected, FilterBlock, FilterOptions, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(7)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let bytes = AlignedBytes::copy_of(&builder.finish()?.bytes)?;
/// assert!(bytes.as_ref().as_ptr().addr() % 64 == 0);
/// let block = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen)?;
/// # Ok::<(), filterblock::Error>(())
/// ```
pub struct AlignedBytes {
    buffer: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// Allocates `len` zero bytes and lets `fill` overwrite them, for example by reading a region
    /// of the host's file.
    ///
    /// If the host read `len` from a file, `len` may be damaged. Compare it with the length of the
    /// file first.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if `len` bytes cannot be allocated. Returns the errors of
    /// `fill`.
    pub fn filled_by<E: From<Error>>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut buffer =
            zeros::<u8>((len as u64).saturating_add(ALIGNMENT_BYTES as u64 - 1), "a filter block")?.into_boxed_slice();
        // Moving a box does not move its content, so the bytes stay aligned.
        let start = buffer.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES - 1);
        fill(buffer.get_mut(start..start + len).unwrap_or_default())?;
        Ok(Self { buffer, start, len })
    }

    /// Copies `bytes` to the heap, aligned to 64 bytes.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the copy cannot be allocated.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        Self::filled_by(bytes.len(), |copy| {
            copy.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Reads the whole file at `path`.
    ///
    /// # Errors
    /// Returns an error that names the file if the file cannot be read, is not a regular file, or
    /// does not fit in memory.
    pub fn read(path: &Path) -> Result<Self> {
        let read = || {
            let mut file = open_regular_file(path)?;
            let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX / 2);
            Self::filled_by(len, |bytes| Ok::<(), Error>(file.read_exact(bytes)?))
        };
        read().map_err(|error: Error| error.in_file(path))
    }
}

impl AsRef<[u8]> for AlignedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host may read impossible lengths from a damaged footer.
    #[test]
    fn aligned_bytes_of_impossible_lengths_are_refused() {
        for len in [usize::MAX, usize::MAX - 62, usize::MAX / 2] {
            let made = AlignedBytes::filled_by(len, |_| Ok::<(), Error>(()));
            assert!(matches!(made, Err(Error::TooLarge { .. })), "{len}: {made:?}");
        }
    }
}
