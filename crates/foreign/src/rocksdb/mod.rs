//! Reads and builds RocksDB's full filters and filter partitions, and reads the block-based tables
//! that contain them.

mod builder;
mod fast_local_bloom;
mod filter;
mod footer;
mod kind;
mod legacy_bloom;
mod partitioned;
mod policy;
mod prefix;
mod properties;
mod ribbon;
mod table;

pub use builder::{RocksDbFilterBuilder, RocksDbFilterOptions};
pub use filter::RocksDbFilter;
pub(super) use footer::has_magic;
pub use kind::RocksDbFilterKind;
pub use policy::NATIVE_POLICY;
pub use prefix::RocksDbPrefixExtractor;
pub use properties::{RocksDbIndexKind, RocksDbProperties};
pub use table::{RocksDbFilterLayout, RocksDbFilterRange, RocksDbTable};
