//! Plans, builds, opens, queries and shrinks filter blocks, alone and in sets. A filter block has a
//! payload, one checksum for each page of the payload, an extension and a trailer. `docs/FORMAT.md`
//! is the specification, also for blocks with partitions or a range filter. The module [`compact`] has
//! a shorter form for tiny filters.
//!
//! ```text
//! | payload: 4 KiB pages, last may be shorter | page checksums | extension | trailer, 60 bytes |
//! ^ place it at a 4 KiB boundary of the file                           magic at the very end ^
//! ```

mod builder;
mod bytes;
mod cache;
pub mod compact;
mod expected;
pub mod layout;
mod options;
mod parsed;
mod part;
mod partition;
mod partition_index;
mod partitioned_builder;
mod plan;
mod ranges;
mod reader;
mod run_map;
mod set;
mod shrink;
mod verified;

pub use builder::{Built, FilterBuilder, seal};
pub use bytes::{AlignedBytes, Reclaimer, SharedBytes, check_regular, open_regular_file};
#[cfg(feature = "mmap")]
pub use bytes::{Mapped, Populate};
pub use cache::{CachedFilter, FilterCache, FilterCacheCounts};
pub use expected::{Expected, FilterHandle};
pub use layout::Added;
pub use options::{FilterOptions, WholeKeys};
pub use parsed::{Metadata, ParsedBlock, Statistics};
pub use part::{Answer, Verify};
pub use partition_index::{Partition, PartitionEntry, PartitionIndex};
pub use partitioned_builder::PartitionedBuilder;
pub use plan::{BlockPlan, Goal, SMALLEST_IS_LARGER, millibits};
pub use reader::{FilterBlock, TableFilter};
pub use run_map::{RunMap, Runs};
pub use set::{FilterSet, FilterSetCounts, FilterSlot};
pub use verified::{VerifiedFilter, VerifiedTrailer};
