//! Implements the filters. The code works on payload bytes and on [`KeyHash`](crate::KeyHash)es or,
//! for range filters, on keys. It does no I/O and computes no checksums.
//!
//! The filters are a closed set, because they are tags on disk. The list [`filters`] has a line for
//! each of them. It generates [`FilterKind`], the enum of parsed parameters ([`Params`]) and the
//! calls of the contract ([`filter::Filter`]).
//!
//! A filter builds a payload and its [`Header`] from hashes or, for range filters, from keys. A
//! [`FilterView`] answers queries from the payload and the parsed header.

use std::fmt;

/// Lists the filters: the tag on disk, the name, and the type that implements
/// [`Filter`](filter::Filter).
macro_rules! filters {
    ($generate:ident) => {
        $generate! { ($)
            /// A filter without keys. It answers "absent" to every query.
            1 Empty = constant::Constant<false>;
            /// The always-maybe filter. It answers "maybe" to every query.
            2 AlwaysMaybe = constant::Constant<true>;
            /// A standard Bloom filter. It has the lowest FPR of the Bloom filters of the same
            /// size, but a query has up to one cache miss per probe.
            3 Bloom = bloom::Bloom;
            /// A Bloom filter of 512-bit lines. If the filter is aligned to 64 bytes, a query has
            /// at most one cache miss.
            4 BlockedBloom = blocked_bloom::BlockedBloom;
            /// A Bloom filter of 256-bit blocks, with one bit of a key in each of eight lanes. Its
            /// queries are cheap, but it needs more space than [`FilterKind::BlockedBloom`] for the
            /// same FPR.
            5 SplitBlock = split_block::SplitBlock<32>;
            /// A standard ribbon filter with rows of 128 bits. It is a baseline. From 5,000 to a
            /// million keys, it usually takes 2 to 5 % more space than the FPR lower bound.
            6 Ribbon = ribbon::Ribbon;
            /// A bumped ribbon filter. With eight columns and 4,096 keys or more, its payload takes
            /// on average less than 1 % more space than the FPR lower bound.
            7 BumpedRibbon = bumped_ribbon::BumpedRibbon;
            /// A binary fuse filter with fingerprints of 8, 12 or 16 bits. A query reads three
            /// slots, and each may be a cache miss. A filter of a million keys usually takes
            /// 14 % more bits than its fingerprints. With fewer keys, this overhead is usually
            /// larger.
            8 BinaryFuse = binary_fuse::BinaryFuse;
            /// A Bloom filter of 512-bit blocks with eight lanes. Its FPR is higher than that of
            /// [`FilterKind::BlockedBloom`]: by 9 % at 10 bits per key, and by 31 % at 20 bits.
            10 SplitBlock512 = split_block::SplitBlock<64>;
            /// A range filter. It answers whether a key lies between two bounds. Its FPR has an
            /// upper bound for any data and queries. It takes about 12.7 bits per key at an FPR of
            /// 1 %, if a range spans 16 cells.
            11 Grafite = range::Grafite;
        }
    };
}

mod binary_fuse;
mod blocked_bloom;
pub(crate) mod bloom;
mod build;
mod bumped_ribbon;
mod constant;
mod filter;
mod kernels;
pub(crate) mod math;
mod range;
mod ribbon;
mod split_block;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod tests;

pub use build::Header;
pub(crate) use build::{Effort, Filled, MAX_RECORD_LEN_BYTES, Rounding, build, zeros};
pub(crate) use filter::{Budget, Budgets, Info, MILLIBITS, Planned};
pub use filter::{KeyBits, TOO_LARGE};
pub(crate) use kernels::{FilterView, InlineParams, Kernel};
pub(crate) use range::{
    MAX_RANGE_LEN, RangeHash, RangeKernel, RangeKeys, build_range, is_empty_range, is_reversed_range, max_keys_of_rate,
    range_rate,
};

use build::Blank;
use filter::{Built, Compiled, Filter, Listed, Query as _};

use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::Isa;
use crate::simd::NoMemory;

/// Returns where the bits of a key lie, if the kind sets bits.
#[must_use]
pub fn key_bits(kind: FilterKind) -> Option<KeyBits> {
    kind.info().key_bits
}

/// Generates the items that need every filter.
macro_rules! generate {
    (($d:tt) $($(#[$doc:meta])* $tag:literal $name:ident = $filter:ty;)+) => {
        /// The kinds of filter that this version builds and reads. The discriminants are the tags
        /// on disk.
        ///
        /// Tag 0 is invalid, so that a reader rejects zeroed bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum FilterKind {
            $($(#[$doc])* $name = $tag,)+
        }

        impl FilterKind {
            /// All kinds, in the order of their tags.
            pub const ALL: [Self; [$($tag),+].len()] = [$(Self::$name),+];
        }

        /// Parsed parameters that fit their payload.
        ///
        /// The enum is small, because every partition of an open filter has one. Parameters that
        /// are larger lie behind an `Arc`. Clones share them.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Params {
            $($name(<$filter as Filter>::Params),)+
        }

        $(
            impl Listed for $filter {
                const KIND: FilterKind = FilterKind::$name;

                fn wrap(params: Self::Params) -> Params {
                    Params::$name(params)
                }

                #[inline(always)]
                fn of(params: &Params) -> Option<&Self::Params> {
                    if let Some(only) = Self::ONLY {
                        return Some(only);
                    }
                    match params {
                        Params::$name(params) => Some(params),
                        _ => None,
                    }
                }
            }
        )+

        /// Evaluates an expression for the filter of a kind.
        macro_rules! of_kind {
            ($d kind:expr, $d filter:ident => $d value:expr) => {
                match $d kind {
                    $(FilterKind::$name => {
                        type $d filter = $filter;
                        $d value
                    })+
                }
            };
        }

        /// Evaluates an expression for the filter of some parameters.
        macro_rules! of_params {
            ($d geometry:expr, $d filter:ident, $d params:ident => $d value:expr) => {
                match $d geometry {
                    $(Params::$name($d params) => {
                        type $d filter = $filter;
                        $d value
                    })+
                }
            };
        }
    };
}
filters!(generate);

/// Bounds the memory of an open partition. The memory must stay below the minimum size of a
/// partition on disk: 64 bytes and an index entry.
const _: () = assert!(size_of::<Params>() <= 24);

impl FilterKind {
    pub(crate) fn info(self) -> &'static Info {
        of_kind!(self, F => const { &F::INFO })
    }

    /// Returns the name in a [`FilterSpec`](crate::FilterSpec).
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns a short phrase that says how the kind stores a key.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.info().description
    }

    /// Returns the kind with this [`name`](Self::name), or `None` for any other text.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == tag)
    }

    /// Returns whether the kind accepts a budget.
    #[doc(hidden)]
    #[must_use]
    pub fn takes_budget(self) -> bool {
        self.info().budgets != Budgets::None
    }

    pub(crate) fn rate_of_many(self, millibits: u32) -> f64 {
        of_kind!(self, F => F::rate_of_many(millibits))
    }

    /// Returns the smallest budget whose FPR is at most `rate` for many keys, or `None` if there is
    /// none.
    pub(crate) fn budget_of_rate(self, rate: f64) -> Option<Budget> {
        let millibits = math::least_millibits(rate, MILLIBITS, |millibits| self.rate_of_many(millibits))?;
        Some(Budget { rate: Some(rate), ..Budget::of_millibits(millibits) })
    }

    pub(crate) fn plan(self, budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        of_kind!(self, F => F::plan(budget, num_keys))
    }

    pub(crate) fn build(
        self,
        budget: Budget,
        hashes: &mut [KeyHash],
        effort: Effort,
    ) -> std::result::Result<Option<Built>, NoMemory> {
        of_kind!(self, F => F::build(budget, hashes, effort))
    }

    fn blank(self, budget: Budget, num_keys: u64, rounding: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        of_kind!(self, F => F::blank(budget, num_keys, rounding))
    }

    pub(crate) fn fallback_rate(self, budget: Budget) -> Option<f64> {
        of_kind!(self, F => F::fallback_rate(budget))
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Params {
    pub(crate) fn new(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Self> {
        of_kind!(header.kind, F => F::parse(header, num_keys, len_bytes).map(F::wrap))
    }

    pub(crate) fn kind(&self) -> FilterKind {
        of_params!(self, F, _params => F::KIND)
    }

    pub(crate) fn expected_fpr(&self, num_keys: u64, payload_len_bytes: u64) -> f64 {
        of_params!(self, F, params => F::expected_fpr(params, num_keys, payload_len_bytes))
    }

    pub(crate) fn probes(&self) -> u32 {
        of_params!(self, F, params => F::probes(params))
    }

    pub(crate) fn estimated_keys(&self, set_bits: u64, bits: u64) -> Option<f64> {
        of_params!(self, F, params => F::estimated_keys(params, set_bits, bits))
    }

    #[inline]
    pub(crate) fn range(&self) -> Option<&range::Geometry> {
        range::Grafite::of(self).map(AsRef::as_ref)
    }

    #[inline(always)]
    fn compile<C: Compiled>(&self, isa: Isa) -> C {
        of_params!(self, F, params => F::compile(params, isa))
    }

    #[inline(always)]
    fn prefetch(&self, padded: &[u8], len: usize, hash: KeyHash) {
        of_params!(self, F, params => F::prefetch(params, padded, len, hash));
    }

    #[cfg(test)]
    fn is_proven(&self, padded: &[u8], len: usize, hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        of_params!(self, F, params => F::is_proven(params, padded, len, hash, is_valid))
    }

    #[inline(always)]
    fn may_contain_if_valid(
        &self,
        ask: impl FnOnce() -> bool,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        of_params!(self, F, params => F::may_contain_if_valid(ask, params, padded, len, hash, is_valid))
    }

    pub(crate) fn columns(&self) -> Option<u32> {
        of_params!(self, F, params => F::columns(params))
    }

    pub(crate) fn asked_len(&self, len: usize) -> usize {
        of_params!(self, F, params => F::asked_len(params, len))
    }

    pub(crate) fn with_columns(&self, columns: u32) -> Option<Self> {
        of_params!(self, F, params => F::with_columns(params, columns).map(F::wrap))
    }

    /// Calls [`Filter::copy_columns`]. `to` is the result of [`Params::with_columns`].
    pub(crate) fn copy_columns(
        &self,
        header: &Header<'_>,
        payload: &[u8],
        to: &Self,
    ) -> Result<(Header<'static>, Vec<u8>)> {
        of_params!(self, F, params => match F::of(to) {
            Some(to) => F::copy_columns(params, header, payload, to),
            None => Err(Error::corrupt(Field::Params)),
        })
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_params!(self, F, params => F::describe(params, f))
    }
}
