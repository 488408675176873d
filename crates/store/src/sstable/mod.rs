//! Writes, reads, checks and salvages SST files. An SST file holds keys in ascending order with
//! their values, an index, and usually a filter block, which saves most disk reads for absent keys.
//! docs/STORE_FORMAT.md defines the format.
//!
//! A file holds each key at most once. A tombstone marks a deleted key. [`TableWriter`] writes a
//! file front to back, and gives the complete file its final name. After that the file never
//! changes.
//!
//! ```
//! use std::{path::Path, sync::Arc};
//! use filterblock::{Answer, HashSeed, KeyHasher};
//! use filterblock_store::sstable::{Lookup, Table, TableOptions, TableReadOptions, TableWriter};
//! use filterblock_store::storage::Memory;
//!
//! # fn main() -> filterblock_store::Result<()> {
//! let storage = Memory::new();
//! let mut writer = TableWriter::create(&storage, Path::new("fruit.sst"), TableOptions::default())?;
//! writer.add(b"apple", Some(b"red"))?;
//! writer.add(b"plum", None)?;
//! writer.finish()?;
//!
//! let table = Arc::new(Table::open(&storage, Path::new("fruit.sst"), TableReadOptions::default())?);
//! assert_eq!(table.get(b"apple")?, Lookup::Value(b"red".to_vec()));
//! assert_eq!(table.get(b"plum")?, Lookup::Tombstone);
//! assert_eq!(table.filter().ask(KeyHasher::xxh3(HashSeed::default()).key(b"apple")), Answer::Maybe);
//! assert_eq!(table.iter().count(), 2);
//! # Ok(())
//! # }
//! ```

mod block_cache;
mod check;
mod cursor;
mod data_block;
mod filter;
mod index_block;
mod layout;
mod properties;
mod reader;
mod salvage;
mod writer;

pub use block_cache::BlockCache;
pub(crate) use block_cache::{BlockValue, CachedBlock, FoundValue};
pub use check::TableCheck;
pub use cursor::{TableCursor, TableIter};
pub use filter::{FilterMemory, TableFilter};
pub(crate) use filter::{FilterSpecs, check_ranges};
pub(crate) use layout::is_footer;
pub use layout::{
    BLOCK_TRAILER_LEN_BYTES, Compression, FILTER_ALIGNMENT_BYTES, FOOTER_FIELDS, FOOTER_LEN_BYTES, MAGIC,
    MAX_ITEM_LEN_BYTES, TableId, VERSION,
};
pub use properties::{PROPERTY_TAGS, Properties, TableOrigin};
pub(crate) use reader::KnownBlock;
pub use reader::{BlockReads, Lookup, Table, TableReadOptions};
pub use salvage::{KeyRange, Loss};
pub(crate) use salvage::{Known, Peek, salvage};
pub use writer::{TableOptions, TableSummary, TableWriter};
