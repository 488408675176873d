//! The filter block on disk: a payload, a checksum for each of its pages, and a trailer that describes it.
//! `docs/FORMAT.md` is the specification; [`layout`] is the one place that knows positions.
//!
//! ```text
//! | payload, whole pages of 4 KiB but the last | page sums | extension | trailer, 60 bytes |
//! ^ 4 KiB boundary of a sorted file                                     magic at the very end ^
//! ```

mod aligned;
pub mod compact;
mod expected;
pub mod layout;
mod locked;
#[cfg(feature = "mmap")]
mod mapped;
mod metadata;
mod pages;
mod part;
mod partition;
mod partition_index;
mod partitioned_builder;
mod reader;
mod set;
mod shared_bytes;
mod table_filter;
mod verified;
mod writer;

pub use aligned::AlignedBytes;
pub use expected::Expected;
pub use layout::Added;
pub use locked::LockedBlock;
#[cfg(feature = "mmap")]
pub use mapped::{Mapped, Populate};
pub use metadata::{Metadata, Statistics};
pub use pages::DamageHandler;
pub use part::Verify;
pub use partition_index::{Partition, PartitionEntry, PartitionIndex};
pub use partitioned_builder::PartitionedBuilder;
pub use reader::FilterBlock;
pub use set::{FilterSet, FilterSetCounts, FilterSlot};
pub use shared_bytes::{Reclaimer, SharedBytes};
pub use table_filter::{Answer, TableFilter};
pub use verified::VerifiedFilter;
pub use writer::{FilterBuilder, SelfCheck};
