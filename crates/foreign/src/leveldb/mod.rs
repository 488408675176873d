//! Reads and writes LevelDB's Bloom filter (`leveldb.BuiltinBloomFilter2`) and LevelDB's tables.

mod bloom;
mod filter_block;
mod policy;
mod table;
mod table_writer;

pub use bloom::{LevelDbBloom, LevelDbBloomBuilder};
pub use filter_block::{LevelDbFilterBlock, LevelDbFilterBlockBuilder};
pub use policy::NATIVE_POLICY;
pub(super) use table::has_magic;
pub use table::{LevelDbFilterRange, LevelDbTable};
pub use table_writer::{LevelDbTableOptions, LevelDbTableWriter};
