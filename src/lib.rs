//! filterblock adds a small checksummed filter to each SST file of a log-structured store, so that
//! a get of an absent key usually needs no disk read.
//!
//! ```
//! use filterblock::{Answer, FilterBlock, FilterHandle, FilterOptions, HashSeed, KeyHasher, TableFilter, Verify};
//!
//! let hasher = KeyHasher::xxh3(HashSeed(42)); // one for the whole store
//! let table_id = *b"table 0000000012"; // one for each SST
//!
//! // The writer of an SST stores the block, and a handle in the footer.
//! let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
//! builder.add(hasher.key(b"apple"));
//! builder.add(hasher.key(b"pear"));
//! let built = builder.finish()?;
//! let footer = FilterHandle::of(&built, 0, 2).encode(); // offset of the block, number of entries
//!
//! // The reader says which SST it opens. After an error, the SST is read without its filter.
//! let expected = FilterHandle::decode(&footer)?.expected(table_id, &hasher);
//! let filter = TableFilter::from(FilterBlock::open(built.bytes, &expected, Verify::AtOpen));
//! assert_eq!(filter.ask(hasher.key(b"apple")), Answer::Maybe);
//! if filter.ask(hasher.key(b"plum")) == Answer::No { /* skip the SST */ }
//! # Ok::<(), filterblock::Error>(())
//! ```
//!
//! **An error never becomes "absent"**. If a block is damaged, has a newer version, or is not the
//! block that the [`FilterHandle`] describes, [`TableFilter`] answers that the key may be in the SST.
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
//! | build a filter | [`FilterOptions`], [`FilterBuilder`] |
//! | choose a kind and a size | [`FilterSpec`], [`FilterKind`], [`policy`], [`planning`] |
//! | store and open a block | [`FilterHandle`], [`FilterBlock::open`], [`Expected`], [`Verify`] |
//! | ask many filters | [`FilterSet`], [`TableFilter`] |
//! | bound the memory of many filters, read each when it is first asked | [`FilterCache`], [`CachedFilter`] |
//! | ask many runs at once | [`RunMap`] |
//! | take prefixes from keys | [`PrefixExtractor`] |
//! | hash keys | [`KeyHasher`], [`Key`], [`Secret`] |
//! | hold the bytes | [`AlignedBytes`], `Mapped` (feature `mmap`), [`SharedBytes`] |
//! | inspect a block | [`ParsedBlock`], [`Metadata`], [`Statistics`], [`layout`] |
//! | ask bytes that the host has verified | [`VerifiedFilter`], [`VerifiedTrailer`] |
//! | store many tiny filters | [`compact`] |
//! | split a filter by key range | [`partitions`] |
//!
//! Other crates use this one: `filterblock-store` is a small log-structured store whose gets ask these
//! filters, `filterblock-foreign` and `filterblock-parquet` read and write the filters of LevelDB,
//! RocksDB and Parquet, and `filterblock-family` keeps filters that change in memory.
//!
//! # Embedding
//!
//! The page [`embedding`] is the how-to for the author of an engine:
//! [the whole path](embedding#the-whole-path),
//! [when to build](embedding#build-at-flush-and-at-compaction),
//! [what to store](embedding#store-what-the-block-cannot-know),
//! [how to open](embedding#open-state-what-you-expect),
//! [how to ask](embedding#ask-hash-once),
//! [many runs](embedding#many-runs-one-probe),
//! [prefixes](embedding#prefixes),
//! [ranges](embedding#ranges),
//! [memory](embedding#memory),
//! [many filters](embedding#many-filters-one-bound-read-on-first-use),
//! [verification and damage](embedding#verify-at-open-or-on-first-touch),
//! [what to count](embedding#count),
//! [partitions](embedding#partitions),
//! [verified bytes](embedding#verified-bytes),
//! [upgrades](embedding#upgrade),
//! [chosen keys](embedding#if-attackers-can-choose-keys),
//! [what never to do](embedding#never-do) and
//! [adapters of engines](embedding#engines-that-exist).

mod block;
mod codec;
mod error;
mod extractor;
mod filters;
mod hash;
mod hash_kind;
mod plans;
pub mod policy;
mod spec;

use filterblock_simd as simd;

pub use block::{
    Added, AlignedBytes, Answer, Built, CachedFilter, Expected, FilterBlock, FilterBuilder, FilterCache,
    FilterCacheCounts, FilterHandle, FilterOptions, FilterSet, FilterSetCounts, FilterSlot, Metadata, ParsedBlock,
    RunMap, Runs, SharedBytes, Statistics, TableFilter, VerifiedFilter, VerifiedTrailer, Verify, WholeKeys, compact,
    layout,
};
#[cfg(feature = "mmap")]
pub use block::{Mapped, Populate};
#[doc(hidden)]
pub use block::{Reclaimer, open_regular_file};
pub use error::{Error, Field, Result};
pub use extractor::PrefixExtractor;
pub use filters::FilterKind;
#[doc(hidden)]
pub use hash::HashIdentity;
pub use hash::{HashSeed, Key, KeyHash, KeyHasher, Secret};
#[doc(hidden)]
pub use hash_kind::Fingerprint;
pub use hash_kind::HashKind;
pub use spec::FilterSpec;

/// The atomic types and locks: loom's in the loom tests of this crate, else the standard library's.
mod sync {
    #[cfg(all(loom, test))]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};
    #[cfg(all(loom, test))]
    pub(crate) use loom::thread;
    #[cfg(not(all(loom, test)))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};
    #[cfg(not(all(loom, test)))]
    pub(crate) use std::thread;
}

pub mod partitions {
    //! Filters that are split by key range, so that a host can keep the index in memory and load one
    //! partition on demand. No engine in this project's tree writes such filters.

    pub use crate::block::{Partition, PartitionEntry, PartitionIndex, PartitionedBuilder};
}

pub mod planning {
    //! Plans the size, the false-positive rate (FPR) and the query cost of a filter before the filter
    //! is built.
    //!
    //! This module has the textbook formulas for a standard Bloom filter of `m` bits with `n` keys and
    //! `k` probes. [`Plan`] covers the filters that this crate builds.
    //!
    //! ```text
    //! share of bits that stay 0   p = (1 - 1/m)^(kn)  ~  e^(-kn/m)
    //! FPR                         c = (1 - p)^k,  lowest for k = (m/n) ln 2 and p = 1/2:  c = 2^-k = 0.6185^(m/n)
    //! bits for an FPR             m = -kn / ln(1 - c^(1/k)),  least for k = log2(1/c):  m = 1.4427 n log2(1/c)
    //! ```
    //! (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970; Broder and
    //! Mitzenmacher, "Network applications of Bloom filters: a survey", 2004; Mitzenmacher, "Compressed
    //! Bloom filters", 2002.)
    //!
    //! Both formulas for `p` lead to an FPR that treats the bits of a query as independent. This FPR is
    //! too low by a relative `O(k²/m)` (Bose et al., 2008). For a megabit, the error is negligible. For
    //! a cache line, it is 1 % at 10 bits per key. For built filters, use [`Plan::expected_fpr`].
    //!
    //! ```
    //! use filterblock::planning;
    //!
    //! // A hundred thousand keys at 1 %: 1.199 bytes per key, 7 probes.
    //! let shortest = planning::shortest(100_000, 0.01)?;
    //! assert_eq!((shortest.bits, shortest.probes), (959_296, 7));
    //! assert!((planning::simplified_fpr(100_000, shortest.bits, 7) - 0.01).abs() < 1e-7);
    //! # Ok::<(), filterblock::Error>(())
    //! ```

    pub use crate::block::{BlockPlan, Goal};
    pub use crate::plans::*;
}

#[doc(hidden)]
pub mod internals {
    //! What the core shares with the other crates of this project, which require exactly this version.
    //! It has no stable API.

    pub use crate::block::{SMALLEST_IS_LARGER, check_regular, millibits, seal};
    pub use crate::error::{too_large, write_io, zeros};
    pub use crate::fields;
    pub use crate::filters::{Header, KeyBits, TOO_LARGE, key_bits};
    pub use crate::plans::{MAX_BITS, TOO_MANY_KEYS, check_keys_and_rate};
    pub use crate::spec::EQUAL_HASHES;

    pub mod bloom {
        //! The probes of a Bloom filter.
        pub use crate::filters::bloom::{mixed, positions};
    }
    pub mod checksum {
        //! CRC-32.
        pub use crate::codec::{Crc32, crc32};
    }
    pub mod codec {
        //! Integers and byte strings.
        pub use crate::codec::*;
    }
    pub mod math {
        //! Sizes and false-positive rates.
        pub use crate::filters::math::{
            MAX_BLOOM_PROBES, bloom_rate, equal_hash, estimated_keys, scattered_lines, whole_keys, with_equal_hashes,
        };
    }
}

/// Returns the name of the instruction set that queries use in this process: `"avx512"`, `"avx2"`,
/// `"neon"` or `"portable"`.
///
/// Kinds of filter without vector code always run portable code.
#[must_use]
pub fn instruction_set() -> &'static str {
    simd::Isa::detect().name()
}

/// Sets what [`instruction_set`] returns, for tests and benchmarks. Call it before the first query.
///
/// # Errors
/// Returns [`Error::Invalid`] if the processor does not have the instruction set, or if the process
/// uses another one already.
#[doc(hidden)]
pub fn set_instruction_set(name: &str) -> Result<()> {
    simd::Isa::choose(name).map_err(|reason| Error::invalid("instruction set", name, reason))
}

#[cfg(test)]
#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

#[cfg(doctest)]
#[doc = include_str!("../docs/TUTORIAL.md")]
struct Tutorial;

// EMBEDDING.md defines the link [kinds] as CHOOSING.md. Markdown uses the first definition of a
// link, so in the API reference this line makes [kinds] lead to the enum.
/// [kinds]: FilterKind
#[doc = include_str!("../docs/EMBEDDING.md")]
#[cfg(any(doc, doctest))]
pub mod embedding {}
