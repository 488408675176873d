//! Reads and writes files with a buffer. Reports a lack of memory for the buffer as an error,
//! whereas the buffered readers and writers of the standard library abort the process.

use filterblock::internals::too_large;
use std::fs::File;
use std::io::{self, Read, Write};

use super::layout::PAGE_LEN_BYTES;
use crate::error::Result;
use filterblock_simd::try_zeros;

pub(super) const BUFFER_LEN_BYTES: usize = 1 << 18;

const _: () = assert!(BUFFER_LEN_BYTES.is_multiple_of(PAGE_LEN_BYTES));

/// A file with a buffer. A caller either only reads from it or only writes to it.
#[derive(Debug)]
pub(super) struct Buffered<'a> {
    file: &'a File,
    buffer: Vec<u8>,
    /// The unread or unwritten bytes of the buffer are `buffer[from..to]`.
    from: usize,
    to: usize,
}

impl<'a> Buffered<'a> {
    pub(super) fn new(file: &'a File) -> Result<Self> {
        let buffer = try_zeros(BUFFER_LEN_BYTES).map_err(too_large("a buffer of pages"))?;
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
