//! Builds and reads an index: one checksummed file that tells which of many files may hold a key.
//!
//! Each indexed file with keys has one or several split-block Bloom filters of Parquet's format.
//! The index stores the filters block-major: row 0 holds the first blocks of all filters, row 1
//! holds the next blocks. A query for a key needs one row, so one contiguous read answers for all
//! files. docs/INDEX_FORMAT.md specifies the bytes.
//!
//! ```
//! use std::io::Cursor;
//! use filterblock_parquet::index::{
//!     DistinctHashes, FileIdentity, IndexBuilder, IndexReader, InMemory, KeyType, Settings, SourceKind, hash,
//! };
//!
//! let settings = Settings { column: String::new(), logical_type: String::new(), key_type: KeyType::Bytes, fpr: 0.01 };
//! let mut builder = IndexBuilder::new(settings, Cursor::new(Vec::new()))?;
//! for (path, keys) in [("fruits", ["apple", "plum"]), ("trees", ["oak", "plum"])] {
//!     let mut hashes = DistinctHashes::new();
//!     keys.iter().for_each(|key| hashes.add(hash(key.as_bytes())));
//!     builder.add_hashes(FileIdentity::of_path(path, SourceKind::KeyList), hashes)?;
//! }
//! let built = builder.build()?;
//!
//! let index = IndexReader::open(InMemory(built.bytes))?;
//! let (mut row, mut files) = (Vec::new(), Vec::new());
//! index.candidates(hash(b"oak"), &mut row, &mut files);
//! assert!(files.contains(&1)); // "trees"
//! # Ok::<(), filterblock_parquet::Error>(())
//! ```
//!
//! **An index never denies a key that it holds.** If a row is damaged or cannot be read, the answer
//! is "maybe" for all files. An index whose header or file table is damaged cannot be opened. The
//! caller must then treat all files as candidates. A file that has changed since it was indexed may
//! have keys that the index denies: see [`Stamp`] and [`IndexReader::distrust`].

mod builder;
mod cells;
mod content;
mod layout;
mod read_at;
mod reader;
mod shape;
mod stamp;
mod table;
mod values;

pub use crate::distinct::DistinctHashes;
pub use builder::{Built, FileSummary, IndexBuilder};
pub use cells::hash;
pub use layout::{HEADER_LEN_BYTES, KeyType, MAGIC, VERSION, is_index};
pub use read_at::{InMemory, ReadAt};
pub use reader::{Answer, IndexReader, QueryCounts};
pub use stamp::{Difference, Stamp, TAIL_LEN_BYTES};
pub use table::{FileIdentity, IndexedFile, MAX_PATH_LEN_BYTES, Settings, SourceKind};
pub use values::ParquetColumn;
