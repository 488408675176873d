//! Reads or maps another engine's file. Files up to 256 MiB are read: another process could truncate
//! a mapped file, and access to the missing pages would kill the command. Longer files are mapped,
//! to save memory.

use std::fs::File;
use std::path::Path;

use filterblock::AlignedBytes;
use filterblock::{Mapped, Populate};
use filterblock_foreign::{Error, Field, Result};

/// The maximum length of a file that is read into memory. By default, RocksDB's tables have 64 MiB.
const READ_LEN_BYTES_MAX: u64 = 256 << 20;

/// The bytes of a file.
#[derive(Debug)]
pub enum Content {
    Read(AlignedBytes),
    /// A mapped file. If it is truncated, the next access may kill the command. But engines never
    /// change a finished file.
    Mapped(Mapped),
}

impl Content {
    /// Reads or maps a file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        if len <= READ_LEN_BYTES_MAX {
            return Ok(Self::Read(AlignedBytes::read(path)?));
        }
        let len = usize::try_from(len).map_err(|_| Error::Corrupt { field: Field::Length, offset: 0 })?;
        Ok(Self::Mapped(Mapped::region(&file, 0, len, Populate::No)?))
    }
}

impl AsRef<[u8]> for Content {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes.as_ref(),
            Self::Mapped(bytes) => bytes.as_ref(),
        }
    }
}
