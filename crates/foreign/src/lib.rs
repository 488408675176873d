//! Reads and writes the filters of LevelDB and RocksDB bit for bit, and reads the files that contain the
//! filters. The crate `filterblock-parquet` does the same for Parquet.
//!
//! * [`leveldb`]: LevelDB's Bloom filter, and LevelDB's tables, which this crate also writes.
//! * [`rocksdb`]: RocksDB's full filters (both Bloom formats and Ribbon), and its block-based
//!   tables.
//!
//! A filter is read in place from any bytes. Invalid, truncated and reserved bytes get the answer
//! that the engine gives. If the engine's rules leave a case open, the answer is "maybe". Opening a
//! table verifies the checksum of every part that an answer depends on, if the table has checksums.
//! docs/FOREIGN.md lists the supported versions and
//! options.

mod block;
mod block_checksum;
mod compression;
mod detect;
mod error;
mod hash32;
mod index;
mod info;
pub mod leveldb;
mod native;
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

#[cfg(doctest)]
#[doc = include_str!("../../../docs/FOREIGN.md")]
struct Document;
