//! Plans, builds, opens, queries and shrinks filter blocks, alone and in sets. A filter block has a
//! payload, one checksum for each page of the payload, an extension and a trailer. `docs/FORMAT.md`
//! is the specification, also for blocks with partitions or a range filter. The module [`compact`] has
//! a shorter form for tiny filters.
//!
//! ```text
//! | payload: 4 KiB pages, last may be shorter | page checksums | extension | trailer, 60 bytes |
//! ^ place it at a 4 KiB boundary of the file                           magic at the very end ^
//! ```

mod aligned;
mod builder;
#[cfg(test)]
mod builder_tests;
pub mod compact;
mod expected;
mod handle;
pub mod layout;
#[cfg(feature = "mmap")]
mod mapped;
mod metadata;
mod options;
mod pages;
mod parsed;
mod part;
mod partition;
mod partition_index;
mod partitioned_builder;
mod plan;
mod prefix_taker;
mod query_counts;
mod range_writer;
mod ranges;
mod reader;
mod regular_file;
mod run_map;
mod set;
mod set_budget;
mod shared_bytes;
mod shrink;
mod table_filter;
mod trailer;
mod verified;

pub use aligned::AlignedBytes;
pub use builder::{Built, FilterBuilder, seal};
pub use expected::Expected;
pub use handle::FilterHandle;
pub use layout::Added;
#[cfg(feature = "mmap")]
pub use mapped::{Mapped, Populate};
pub use metadata::{Metadata, Statistics};
pub use options::{FilterOptions, WholeKeys};
pub use parsed::ParsedBlock;
pub use part::Verify;
pub use partition_index::{Partition, PartitionEntry, PartitionIndex};
pub use partitioned_builder::PartitionedBuilder;
pub use plan::{BlockPlan, Goal, SMALLEST_IS_LARGER, millibits};
pub use reader::FilterBlock;
pub use regular_file::{check_regular, open_regular_file};
pub use run_map::{RunMap, Runs};
pub use set::{FilterSet, FilterSetCounts, FilterSlot};
pub use set_budget::FilterSetShrunk;
pub use shared_bytes::{Reclaimer, SharedBytes};
pub use table_filter::{Answer, TableFilter};
pub use verified::{VerifiedFilter, VerifiedTrailer};
