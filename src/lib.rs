//! Filter blocks for log-structured stores: a few bits a key, beside each sorted file, that say "surely not here"
//! without a disk read.
//!
//! * [`FilterBuilder`] collects the hashes of a file's keys and encodes a checksummed block.
//! * [`FilterBlock`] reads such a block in place, from a slice, a vector or a memory map, and is safe on any bytes.
//! * [`planning`] tells sizes and rates before anything is built.
//! * `foreign` (feature `foreign`) reads and writes the filters of LevelDB, RocksDB and Parquet.
//! * `variants` (feature `variants`) is the rest of the Bloom family, in memory and open to changes.
//! * The crate `filterblock-store` is a small log-structured store whose reads consult those blocks.
//!
//! Below the API a key is hashed once ([`KeyHash`]); an error never becomes "absent": doubt answers "maybe".

mod bits;
mod block;
mod checksum;
mod codec;
mod error;
#[cfg(feature = "foreign")]
pub mod foreign;
mod hash;
mod kinds;
pub mod planning;
mod policy;
mod simd;
mod spec;
mod sync;
#[cfg(feature = "variants")]
pub mod variants;

pub use block::{
    Added, AlignedBytes, Answer, DamageHandler, Expected, FilterBlock, FilterBuilder, LockedBlock, Metadata, Partition,
    PartitionEntry, PartitionIndex, PartitionedBuilder, SelfCheck, Statistics, TableFilter, VerifiedFilter, Verify,
    compact, layout,
};
#[cfg(feature = "mmap")]
pub use block::{Mapped, Populate};
pub use error::{Error, Field, Result};
pub use hash::{Fingerprint, HashIdentity, HashKind, HashSeed, KeyHash, KeyHasher, Secret};
pub use kinds::{Columns, FilterKind, FilterView};
pub use policy::{ByLevel, FilterPolicy, LevelShape, MemoryBudget, Monkey, TableShape};
pub use spec::FilterSpec;

/// The vector instructions that probes use on this processor: `"avx512"`, `"avx2"`, `"neon"` or `"portable"`.
#[must_use]
pub fn instruction_set() -> &'static str {
    kinds::Isa::detect().name()
}

#[cfg(all(doctest, feature = "foreign", feature = "mmap"))]
#[doc = include_str!("../docs/FOREIGN.md")]
struct ForeignDocument;
