//! RocksDB: the filters of its block-based tables, whole or of one partition, and the tables in which they lie.

mod builder;
mod fast_local_bloom;
mod filter;
mod footer;
mod kind;
mod legacy_bloom;
mod partitioned;
mod prefix;
mod properties;
mod ribbon;
mod table;

pub use builder::{RocksDbFilterBuilder, RocksDbFilterOptions};
pub use filter::RocksDbFilter;
pub(super) use footer::has_magic;
pub use kind::RocksDbFilterKind;
pub use prefix::RocksDbPrefixExtractor;
pub use properties::{RocksDbIndexKind, RocksDbProperties};
pub use table::{RocksDbFilterLayout, RocksDbFilterRange, RocksDbTable};
