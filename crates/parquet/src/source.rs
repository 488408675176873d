//! Reads a file up to a length that is fixed when the reader is made.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// The first bytes of a file. On Unix, reads do not use the position of the file handle, so another
/// part of the program can append to the file meanwhile.
#[derive(Debug, Clone)]
pub struct FileStart {
    file: Arc<File>,
    len_bytes: u64,
}

impl FileStart {
    /// Returns a reader of the first `len_bytes` bytes of `file`.
    #[must_use]
    pub fn new(file: File, len_bytes: u64) -> Self {
        Self { file: Arc::new(file), len_bytes }
    }
}

impl Length for FileStart {
    fn len(&self) -> u64 {
        self.len_bytes
    }
}

impl ChunkReader for FileStart {
    type T = BufReader<FromOffset>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(1 << 10, FromOffset { file: self.clone(), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len_bytes) {
            return Err(ParquetError::EOF("the file ends before the end of the page".into()));
        }
        let mut bytes = vec![0; length];
        let mut from = FromOffset { file: self.clone(), offset: start };
        from.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A reader of the bytes from an offset to the end of a [`FileStart`].
#[derive(Debug)]
pub struct FromOffset {
    file: FileStart,
    offset: u64,
}

impl Read for FromOffset {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len_bytes.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = bytes.len().min(left);
        let Some(bytes) = bytes.get_mut(..len).filter(|bytes| !bytes.is_empty()) else { return Ok(0) };
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&*self.file.file, bytes, self.offset)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&*self.file.file, bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
