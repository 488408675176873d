//! Implements the filter kinds. The code works on payload bytes and on
//! [`KeyHash`](crate::KeyHash)es or, for range filters, on keys. It does no I/O and computes no
//! checksums.
//!
//! The kinds are a closed set, because they are tags on disk. One list in this file generates
//! [`FilterKind`] and the dispatch to the facts of each kind ([`Kind`](contract::Kind)). A
//! `match` over kinds or geometries in this module has no wildcard, so the compiler reports every
//! `match` that a new kind must extend.
//!
//! A kind builds a payload and its [`Shape`] from hashes or, for range filters, from keys. A
//! [`FilterView`] answers queries from the payload and the parsed shape.

/// Lists the kinds. Each entry has the tag on disk, the name in the code, the name in a
/// [`FilterSpec`](crate::FilterSpec), the type that implements [`Kind`](contract::Kind), and a
/// phrase that says how the kind stores a key.
///
/// A generator macro takes the list and writes the items that need every kind.
macro_rules! kinds {
    ($generate:ident) => {
        $generate! {
            /// A filter without keys. It answers "absent" to every query.
            1 Empty "empty" constant::Empty, "no keys: always absent";
            /// The always-maybe filter. It answers "maybe" to every query.
            2 AlwaysMaybe "always-maybe" constant::AlwaysMaybe, "always maybe";
            /// A standard Bloom filter. It has the lowest FPR of the Bloom filters of the same
            /// size, but a query has up to one cache miss per probe.
            3 Bloom "bloom" bloom::Bloom, "bits anywhere in the filter";
            /// A Bloom filter of 512-bit lines. If the filter is aligned to 64 bytes, a query has
            /// at most one cache miss.
            4 BlockedBloom "blocked-bloom" blocked_bloom::BlockedBloom, "all bits of a key in one 512-bit cache line";
            /// A Bloom filter of 256-bit blocks, with one bit of a key in each of eight lanes. Its
            /// queries are cheap, but it needs more space than [`FilterKind::BlockedBloom`] for the
            /// same FPR.
            5 SplitBlock "split-block" split_block::SplitBlock, "one bit of a key in each 32-bit lane of a 256-bit block";
            /// A standard ribbon filter with rows of 128 bits. It is a baseline. From 5,000 to a
            /// million keys, it usually takes 2 to 5 % more space than the FPR lower bound.
            6 Ribbon "ribbon" ribbon::Ribbon, "one linear equation of 128 coefficients per key";
            /// A bumped ribbon filter. With eight columns and 4,096 keys or more, its payload takes
            /// on average less than 1 % more space than the FPR lower bound.
            7 BumpedRibbon "bumped-ribbon" bumped_ribbon::BumpedRibbon,
                "one linear equation per key; bumped keys are in later layers or in the single system";
            /// A binary fuse filter with fingerprints of 8, 12 or 16 bits. A query reads three
            /// slots, each of which may be a cache miss. A filter of a million keys usually takes
            /// 14 % more bits than its fingerprints. With fewer keys, this overhead is usually
            /// larger.
            8 BinaryFuse "binary-fuse" binary_fuse::BinaryFuse, "a fingerprint that is the XOR of three slots";
            /// A Bloom filter of 512-bit blocks with eight lanes. Its FPR is higher than that of
            /// [`FilterKind::BlockedBloom`]: by 9 % at 10 bits per key, and by 31 % at 20 bits.
            10 SplitBlock512 "split-block-512" split_block::SplitBlock512, "one bit of a key in each 64-bit lane of a 512-bit cache line";
            /// A range filter. It answers whether a key lies between two bounds. Its FPR has an
            /// upper bound for any data and queries. It takes about 12.7 bits per key at an FPR of
            /// 1 %, if a range spans 16 cells.
            11 Grafite "grafite" range::Grafite, "a code that keeps the order of neighbouring keys";
        }
    };
}

mod binary_fuse;
mod blank;
mod blocked_bloom;
pub(crate) mod bloom;
mod bumped_ribbon;
#[cfg(test)]
mod bytes_tests;
mod constant;
mod contract;
mod facts;
mod fill;
mod geometry;
mod guard;
mod inline;
mod kernels;
mod kind;
mod lines;
pub(crate) mod math;
mod plain;
mod query;
mod range;
mod ribbon;
mod shape;
mod shrink;
mod split_block;
#[cfg(test)]
mod statistics;
mod view;

pub(crate) use contract::{Budget, Budgets, MILLIBITS, Planned, TOO_LARGE};
pub(crate) use fill::{Filled, fill};
pub(crate) use geometry::Geometry;
#[cfg(test)]
pub(crate) use guard::Checked;
pub(crate) use guard::Guard;
pub(crate) use inline::InlineGeometry;
pub(crate) use kernels::Kernel;
pub use kind::FilterKind;
pub(crate) use lines::scattered_lines;
pub(crate) use range::{
    MAX_RANGE_LEN, RangeHash, RangeKernel, RangeKeys, build_range, is_empty_range, is_reversed_range, max_keys_of_rate,
    range_rate,
};
#[cfg(feature = "foreign")]
pub(crate) use ribbon::{Geometry as RibbonLayout, Row as RibbonRow, solve as solve_ribbon};
#[cfg(feature = "variants")]
pub(crate) use ribbon::{MAX_COLUMNS as MAX_RETRIEVED_BITS, Retrieval};
pub(crate) use shape::{Effort, MAX_LAYERS_LEN_BYTES, Rounding, Shape};
pub use view::FilterView;
