//! Reads the bytes of an index from memory, from a memory map, from a file or with range requests.

use std::fs::File;
use std::io;

/// Reads ranges of an index. An implementation for an object store sends one range request per
/// call.
pub trait ReadAt {
    /// Returns the bytes `offset .. offset + len_bytes`. An implementation that does not have the
    /// bytes in memory reads them into `buffer`.
    ///
    /// # Errors
    /// Returns an error if the range cannot be read in full.
    fn read_at<'a>(&'a self, offset: u64, len_bytes: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]>;

    /// Returns the length of the index in bytes.
    ///
    /// # Errors
    /// Returns an error if the length cannot be determined.
    fn len_bytes(&self) -> io::Result<u64>;
}

/// An index in memory or in a memory map.
#[derive(Debug, Clone)]
pub struct InMemory<D>(pub D);

impl<D: AsRef<[u8]>> ReadAt for InMemory<D> {
    fn read_at<'a>(&'a self, offset: u64, len_bytes: usize, _buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.0.as_ref().get(start..)?.get(..len_bytes));
        bytes.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.as_ref().len() as u64)
    }
}

impl ReadAt for File {
    fn read_at<'a>(&'a self, offset: u64, len_bytes: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        // The read overwrites the bytes of an earlier read, so only additional bytes are set to
        // zero.
        if buffer.len() < len_bytes {
            buffer.resize(len_bytes, 0);
        }
        let wanted = buffer.get_mut(..len_bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        read_exact_at(self, wanted, offset)?;
        Ok(wanted)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, wanted: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, wanted, offset)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &File, wanted: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(wanted)
}
