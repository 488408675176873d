//! Reads the filters that a footer locates.

use std::io::{Read, Seek};

use crate::ParquetBloom;

use super::{FilterRange, Footer, read_at};
use crate::error::{Error, Result};
use crate::thrift::Struct;

/// The maximum length of a filter's header. Known writers need 15 to 20 bytes.
const MAX_HEADER_LEN_BYTES: u64 = 256;
/// The length of the magic at the start of a file.
const MAGIC_LEN_BYTES: u64 = 4;

impl Footer {
    /// Reads the filter at `range`: its header and its bits.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] or [`Error::Filter`] if the filter or its location is not valid,
    /// or if the footer stores another length than the filter's header.
    /// Returns [`Error::Changed`] if the file became shorter, and [`Error::Io`] if a read fails.
    pub fn read_filter(&self, range: FilterRange, file: &mut (impl Read + Seek)) -> Result<Vec<u8>> {
        let offset = range.offset;
        let outside = || Error::corrupt("location of the filter", offset);
        let left = self.metadata_offset().checked_sub(offset).filter(|&left| left > 0 && offset >= MAGIC_LEN_BYTES);
        let left = left.ok_or_else(outside)?;
        let left = match range.len_bytes {
            Some(len) if len > left => return Err(outside()),
            Some(len) => len,
            None => left,
        };
        let header = read(file, offset, left.min(MAX_HEADER_LEN_BYTES))?;
        let invalid = || Error::corrupt("header of the filter", offset);
        let (parsed, header_len) = Struct::parse(&header).map_err(|_| invalid())?;
        let bits = parsed.int(1).and_then(|len| u64::try_from(len).ok()).ok_or_else(invalid)?;
        let fits = |len: &u64| range.len_bytes.map_or(*len <= left, |stored| *len == stored);
        let len = bits.checked_add(header_len as u64).filter(fits);
        let filter = read(file, offset, len.ok_or(Error::corrupt("length of the filter", offset))?)?;
        // `parse` checks the fields of the header that are not read above.
        ParquetBloom::parse(&filter).map_err(|error| error.moved_by(offset))?;
        Ok(filter)
    }
}

/// Reads `len` bytes at `offset`. The caller has checked the length against the file.
fn read(file: &mut (impl Read + Seek), offset: u64, len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| Error::corrupt("length of the filter", offset))?;
    let mut bytes = vec![0; len];
    read_at(file, offset, &mut bytes)?;
    Ok(bytes)
}
