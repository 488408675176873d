//! RocksDB: the filters of its block-based tables, whole or of one partition.

mod builder;
mod fast_local_bloom;
mod filter;
mod legacy_bloom;
mod ribbon;

pub use builder::{FilterBuilder, FilterOptions};
pub use filter::{Filter, FilterKind};
