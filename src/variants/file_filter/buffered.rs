//! Reads and writes of a file in large pieces. Those of the standard library abort the process where there is no memory for
//! their buffers.

use std::fs::File;
use std::io::{self, Read, Write};

use super::layout::PAGE_LEN_BYTES;
use crate::bits::{self, NoMemory};
use crate::variants::error::Result;

/// What is read or written at once.
pub(super) const BUFFER_LEN_BYTES: usize = 1 << 18;

const _: () = assert!(BUFFER_LEN_BYTES.is_multiple_of(PAGE_LEN_BYTES));

/// A file that is read from its start, or written to, but not both.
#[derive(Debug)]
pub(super) struct Buffered<'a> {
    file: &'a File,
    buffer: Vec<u8>,
    /// What of the buffer was read from the file and not yet taken, or is not yet in the file.
    from: usize,
    to: usize,
}

impl<'a> Buffered<'a> {
    /// # Errors
    /// [`Error::TooLarge`](crate::variants::Error::TooLarge) where there is no memory for the buffer.
    pub(super) fn new(file: &'a File) -> Result<Self> {
        let buffer = bits::try_zeros(BUFFER_LEN_BYTES).map_err(NoMemory::of("a buffer of pages"))?;
        Ok(Self { file, buffer, from: 0, to: 0 })
    }
}

impl Read for Buffered<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.from == self.to {
            (self.from, self.to) = (0, self.file.read(&mut self.buffer)?);
        }
        let taken = self.buffer.get(self.from..self.to).unwrap_or_default().read(out)?;
        self.from += taken;
        Ok(taken)
    }
}

impl Write for Buffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.to == self.buffer.len() {
            self.flush()?;
        }
        let taken = self.buffer.get_mut(self.to..).unwrap_or_default().write(bytes)?;
        self.to += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(self.buffer.get(..self.to).unwrap_or_default())?;
        self.to = 0;
        Ok(())
    }
}
