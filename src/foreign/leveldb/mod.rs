//! LevelDB: its Bloom filter (`leveldb.BuiltinBloomFilter2`), and the tables in which it lies.

mod bloom;
mod filter_block;
mod table;
mod table_writer;

pub use bloom::{BloomBuilder, BloomFilter};
pub use filter_block::{FilterBlock, FilterBlockBuilder};
pub(super) use table::has_magic;
pub use table::{FilterRange, Table};
pub use table_writer::{TableOptions, TableWriter};
