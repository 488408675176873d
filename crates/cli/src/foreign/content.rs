//! The bytes of another engine's file: copied, so that whoever cuts the file meanwhile does not end the command; mapped where
//! that would take too much memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use filterblock::AlignedBytes;
use filterblock::foreign::{Error, Field, FileKind, Result};
use filterblock::{Mapped, Populate};

/// Longer files are mapped. RocksDB's tables have 64 MiB, and larger ones are rare; so much is read in a tenth of a second.
const READ_LEN_BYTES_MAX: u64 = 256 << 20;

/// At the ends of a file: more than any magic.
const END_LEN_BYTES: u64 = 8;

/// A file's bytes.
#[derive(Debug)]
pub enum Content {
    Read(AlignedBytes),
    /// Who cuts the file under the command ends it; its writers never change a finished one.
    Mapped(Mapped),
}

impl Content {
    /// The content of a file.
    ///
    /// # Errors
    /// When it cannot be read.
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

/// What a file is by its ends, before all of it is read: it may be a large one of another kind.
///
/// # Errors
/// When it cannot be read.
pub fn kind_of(path: &Path) -> Result<Option<FileKind>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut ends = Vec::new();
    (&mut file).take(END_LEN_BYTES).read_to_end(&mut ends)?;
    if len > END_LEN_BYTES {
        file.seek(SeekFrom::Start(len - END_LEN_BYTES))?;
        file.take(END_LEN_BYTES).read_to_end(&mut ends)?;
    }
    Ok(FileKind::of(&ends))
}
