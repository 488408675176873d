//! The filters of other engines, read and written bit for bit, and the files in which they lie.
//!
//! * [`leveldb`]: the Bloom filter of LevelDB, and its tables, which are also written.
//! * [`rocksdb`]: the full filters of RocksDB: Bloom filters of both formats, and Ribbon; its block-based tables.
//! * [`parquet`]: the split-block Bloom filter of a Parquet column chunk; Parquet files.
//!
//! A reader takes any bytes, reads them in place, and follows the original's rules for odd, cut and reserved ones: doubt
//! answers "maybe". A file is checked when it is opened, as far as an answer rests on it. docs/FOREIGN.md says which versions
//! and options are known.

mod block;
mod block_checksum;
mod compression;
mod detect;
mod error;
mod hash32;
mod index;
mod info;
pub mod leveldb;
pub mod parquet;
pub mod rocksdb;
mod stored;
mod xxph3;

pub use block_checksum::ChecksumKind;
pub use compression::MAX_BLOCK_LEN_BYTES;
pub use detect::FileKind;
pub use error::{Error, Field, Result};
pub use index::KeyForm;
pub use info::ForeignFilterInfo;
pub use stored::Verified;
