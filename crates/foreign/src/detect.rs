//! Detects the engine of a file by its magic.

use super::{leveldb, rocksdb};

/// A kind of file of another engine that may contain filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A table of LevelDB, or of RocksDB's `format_version` 0, which is not supported.
    LevelDbTable,
    /// A block-based table of RocksDB.
    RocksDbTable,
    /// A Parquet file. Its metadata may be encrypted.
    ParquetFile,
}

impl FileKind {
    /// Returns the kind of the file with these bytes, or `None` if its magic is unknown. It checks
    /// only the last eight bytes of a table, and the first and last four bytes of a Parquet file.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if leveldb::has_magic(bytes) {
            Some(Self::LevelDbTable)
        } else if rocksdb::has_magic(bytes) {
            Some(Self::RocksDbTable)
        } else if has_parquet_magic(bytes) {
            Some(Self::ParquetFile)
        } else {
            None
        }
    }
}

fn has_parquet_magic(file: &[u8]) -> bool {
    [b"PAR1", b"PARE"].iter().any(|magic| file.starts_with(*magic) && file.ends_with(*magic))
}
