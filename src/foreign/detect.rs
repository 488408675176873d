//! Which engine a file is of, by the bytes at its ends.

use super::{leveldb, parquet, rocksdb};

/// A file of another engine in which filters may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A table of LevelDB, or of RocksDB's `format_version` 0, which is not read.
    LevelDbTable,
    /// A block-based table of RocksDB.
    RocksDbTable,
    /// A Parquet file, its metadata encrypted or not.
    ParquetFile,
}

impl FileKind {
    /// The kind of the file that `bytes` are; `None` where no magic is one that is known. Nothing else is looked at.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if leveldb::has_magic(bytes) {
            Some(Self::LevelDbTable)
        } else if rocksdb::has_magic(bytes) {
            Some(Self::RocksDbTable)
        } else if parquet::has_magic(bytes) {
            Some(Self::ParquetFile)
        } else {
            None
        }
    }
}
