//! Filter bytes on the heap that begin at a cache line, as a memory map does.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::bits::zeros;
use crate::error::{Error, Result};

const ALIGNMENT_BYTES: usize = 64;

/// A copy of a filter block on the heap, aligned to 64 bytes.
///
/// A slice of a host's buffer seldom begins at a cache line of 64 bytes. Answers are the same at any offset, but a query of an
/// absent key touches more lines, on average:
///
/// | Kind | Aligned | Any other offset |
/// |---|---|---|
/// | `blocked-bloom`, `split-block-512` | 1 | 2 |
/// | `split-block` | 1 | 1.5; 1 at an offset of 32 |
/// | `bumped-ribbon:8` | 2, and 1 for whether the key was bumped | 3, and 1 |
/// | `bumped-ribbon` of other widths | 2.1 to 2.8, and 1 | 2.1 to 2.9, and 1 |
/// | `bloom`, `binary-fuse:8` | by probes | the same |
///
/// The lines of one query are neighbours, and processors often load neighbours together. So the cost is largest where the
/// filter is in the caches. `cargo bench --bench probe -- unaligned` measures it.
///
/// The copy also stays as it is, whatever happens to the file.
///
/// ```
/// use filterblock::{AlignedBytes, Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, Verify};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(7)));
/// let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher).with_table_id(table_id);
/// builder.add(b"apple");
/// let bytes = AlignedBytes::copy_of(&builder.finish()?)?;
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
    /// Allocates `len` bytes of zeros, and lets `fill` write them: a read of a region of the host's file, for example.
    ///
    /// A length that the host has read from a file may be damaged: compare it with the length of the file first.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there is no memory for `len` bytes, and the errors of `fill`.
    pub fn filled_by<E: From<Error>>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut buffer =
            zeros::<u8>((len as u64).saturating_add(ALIGNMENT_BYTES as u64 - 1), "a filter block")?.into_boxed_slice();
        // A box does not move its content, so the offset stays right.
        let start = buffer.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES - 1);
        fill(buffer.get_mut(start..start + len).unwrap_or_default())?;
        Ok(Self { buffer, start, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there is no memory for the copy.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        Self::filled_by(bytes.len(), |copy| {
            copy.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// The content of the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, or becomes shorter meanwhile; [`Error::TooLarge`] if it does not fit
    /// in memory. The error names the file ([`Error::InFile`]).
    pub fn read(path: &Path) -> Result<Self> {
        let read = || {
            let mut file = File::open(path)?;
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

    /// A length of that size is what a host reads from a damaged footer.
    #[test]
    fn aligned_bytes_of_impossible_lengths_are_refused() {
        for len in [usize::MAX, usize::MAX - 62, usize::MAX / 2] {
            let made = AlignedBytes::filled_by(len, |_| Ok::<(), Error>(()));
            assert!(matches!(made, Err(Error::TooLarge { .. })), "{len}: {made:?}");
        }
    }
}
