//! filterblock adds a small checksummed filter to each SST file of a log-structured store, so that
//! a get of an absent key usually needs no disk read.
//!
//! ```
//! use filterblock::{Answer, Expected, FilterBlock, FilterBuilder, HashSeed, KeyHasher, TableFilter, Verify, layout};
//!
//! let hasher = KeyHasher::xxh3(HashSeed(42)); // one for the whole store
//! let table_id = *b"table 0000000012"; // one for each SST
//!
//! // The writer of an SST stores the block, its checksum and the number of entries.
//! let mut builder = FilterBuilder::new("blocked-bloom:10".parse()?, &hasher).with_table_id(table_id);
//! builder.add(b"apple");
//! builder.add(b"pear");
//! let block = builder.finish()?;
//! let checksum = layout::checksum_of(&block).expect("a block is longer than its trailer");
//!
//! // The reader says what it expects. After an error, the SST is read without its filter.
//! let expected = Expected::of_table(table_id, &hasher).with_num_entries(2).with_checksum(checksum);
//! let filter = TableFilter::from(FilterBlock::open(block, &expected, Verify::AtOpen));
//! assert!(filter.may_contain(b"apple"));
//! if filter.ask_hash(hasher.of(b"plum")) == Answer::No { /* skip the SST */ }
//! # Ok::<(), filterblock::Error>(())
//! ```
//!
//! **An error never becomes "absent"**. If a block is damaged, has a newer version, or is not the
//! block that [`Expected`] describes, [`TableFilter`] answers that the key may be in the SST.
//!
//! # Read path
//!
//! ```text
//! key ─▶ KeyHasher: one KeyHash for all SSTs
//!     ─▶ FilterSet: for each SST, usually reads one cache line of the set, then lines of the filter (`blocked-bloom`: 1)
//!        ├─ Answer::No          skip the SST
//!        ├─ Answer::Maybe       read the SST
//!        └─ Answer::Unfiltered  read the SST: no usable filter, counted
//! ```
//!
//! # Overview
//!
//! | To | Use |
//! |---|---|
//! | build a filter | [`FilterBuilder`], [`PartitionedBuilder`] |
//! | choose a kind and a size | [`FilterSpec`], [`FilterKind`], [`FilterPolicy`], [`planning`], [`BlockPlan`] |
//! | open a block | [`FilterBlock::open`], [`Expected`], [`Verify`], [`TableFilter`] |
//! | ask many filters | [`FilterSet`] |
//! | take prefixes from keys | [`PrefixExtractor`] |
//! | hash keys | [`KeyHasher`], [`HashSeed`], [`Secret`] |
//! | hold the bytes | [`AlignedBytes`], `Mapped` (feature `mmap`), [`SharedBytes`], [`Reclaimer`] |
//! | inspect a block | [`FilterBlock::open_any`], [`ParsedBlock`], [`Metadata`], [`Statistics`], [`layout`] |
//! | store many tiny filters | [`compact`] |
//! | read and write the filters of LevelDB, RocksDB and Parquet | `foreign` (feature `foreign`) |
//! | keep filters that change, in memory | `variants` (feature `variants`) |
//!
//! The crate `filterblock-store` is a small log-structured store whose gets ask these filters.
//!
//! # Embedding
//!
//! The page [`embedding`] is the how-to for the author of an engine:
//! [when to build](embedding#build-at-flush-and-at-compaction),
//! [what to store](embedding#store-what-the-block-cannot-know),
//! [how to open](embedding#open-state-what-you-expect),
//! [how to ask](embedding#ask-hash-once),
//! [partitions](embedding#partitions),
//! [verified bytes](embedding#verified-bytes),
//! [prefixes](embedding#prefixes),
//! [ranges](embedding#ranges),
//! [memory](embedding#memory),
//! [shrinking](embedding#shrink-fewer-columns-in-less-memory),
//! [verification and damage](embedding#verify-at-open-or-on-first-touch),
//! [what to count](embedding#count),
//! [upgrades](embedding#upgrade),
//! [chosen keys](embedding#if-attackers-can-choose-keys),
//! [what never to do](embedding#never-do) and
//! [adapters of engines](embedding#engines-that-exist).

mod bits;
mod block;
mod checksum;
mod codec;
mod error;
mod extractor;
mod filters;
#[cfg(feature = "foreign")]
pub mod foreign;
mod hash;
mod hash_kind;
pub mod planning;
mod policy;
mod simd;
mod spec;
mod sync;
#[cfg(feature = "variants")]
pub mod variants;

pub use block::{
    Added, AlignedBytes, Answer, BlockPlan, Expected, FilterBlock, FilterBuilder, FilterSet, FilterSetCounts,
    FilterSetShrunk, FilterSlot, Goal, Metadata, ParsedBlock, Partition, PartitionEntry, PartitionIndex,
    PartitionedBuilder, Reclaimer, SelfCheck, SharedBytes, Statistics, TableFilter, VerifiedFilter, VerifiedTrailer,
    Verify, compact, layout, open_regular_file,
};
#[cfg(feature = "mmap")]
pub use block::{Mapped, Populate};
pub use error::{Error, Field, Result};
pub use extractor::PrefixExtractor;
pub use filters::{FilterKind, FilterView};
pub use hash::{HashIdentity, HashSeed, KeyHash, KeyHasher, Secret};
pub use hash_kind::{Fingerprint, HashKind};
pub use policy::{AboveBottom, ByLevel, FilterPolicy, LevelShape, MemoryBudget, Monkey, TableShape};
pub use spec::FilterSpec;

/// Returns the name of the instruction set that queries use in this process: `"avx512"`, `"avx2"`,
/// `"neon"` or `"portable"`.
///
/// The environment variable `FILTERBLOCK_ISA` can select another set that the processor has. The
/// process reads the variable once. Kinds of filter without vector code always run portable code.
#[must_use]
pub fn instruction_set() -> &'static str {
    simd::Isa::detect().name()
}

#[cfg(all(doctest, feature = "foreign", feature = "mmap"))]
#[doc = include_str!("../docs/FOREIGN.md")]
struct ForeignDocument;

#[cfg(doctest)]
#[doc = include_str!("../docs/TUTORIAL.md")]
struct Tutorial;

// EMBEDDING.md defines the link [kinds] as CHOOSING.md. Markdown uses the first definition of a
// link, so in the API reference this line makes [kinds] lead to the enum.
/// [kinds]: FilterKind
#[doc = include_str!("../docs/EMBEDDING.md")]
#[cfg(any(doc, doctest))]
pub mod embedding {}
