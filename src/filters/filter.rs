//! Defines the contract of a filter: the facts and functions that every entry of the list of filters
//! provides.

use std::fmt;
use std::ops::RangeInclusive;

use super::build::Blank;
pub(crate) use super::build::{Budget, Built};
use super::build::{Effort, Header, Rounding};
use super::{FilterKind, Params, math};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::{Isa, RESIDENT_LEN_BYTES, Simd};

/// The valid budgets, in thousandths of a bit per key. Below 1 bit per key, a filter answers
/// "maybe" for most absent keys. Above 100 bits per key, a lower FPR has no practical use.
pub(crate) const MILLIBITS: RangeInclusive<u32> = 1_000..=100_000;

/// The number of keys for which [`Filter::rate_of_many`] computes the FPR. At this number, rounding
/// of the payload length is negligible. The lowest FPR of a standard Bloom filter depends on this
/// number, because an absent key may have the hash of a present key.
pub(super) const MANY_KEYS: u64 = 512_000_000;

/// The reason in the error if a size is too large for a plan.
pub const TOO_LARGE: &str = "its size is too large for a plan; plan for fewer keys or a higher FPR";
/// The reason why [`Filter::plan`] finds no plan for a bumped ribbon of about 2^62 bytes or more.
pub const TOO_LARGE_FOR_MEMORY: &str = "too large for this machine's memory; plan for fewer keys";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budgets {
    /// No budget, because the filter has no payload.
    None,
    /// From the minimum of [`MILLIBITS`] up to this many thousandths of a bit per key.
    UpTo(u32),
    /// One of these widths in bits. The widths are in ascending order.
    Widths(&'static [u32]),
}

impl Budgets {
    pub(super) const ALL: Self = Self::UpTo(*MILLIBITS.end());

    /// Returns whether the filter accepts this many thousandths of a bit per key. Returns `false` for
    /// NaN.
    pub(crate) fn take(self, millibits: f64) -> bool {
        match self {
            Self::None => false,
            Self::UpTo(most) => millibits >= f64::from(*MILLIBITS.start()) && millibits <= f64::from(most),
            Self::Widths(widths) => widths.iter().any(|&width| f64::from(width) * 1000.0 == millibits),
        }
    }
}

/// The properties of a filter that are known before it is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    pub(crate) len_bytes: u64,
    /// The length of the filter's record in the extension.
    pub(crate) record_len_bytes: usize,
    pub(crate) rate: f64,
    /// The maximum number of bits that a query tests: see [`Filter::probes`].
    pub(crate) probes: u32,
    /// The mean number of cache lines that a query of an absent key reads.
    pub(crate) lines_if_absent: f64,
    /// The mean number of cache lines that a query of a present key reads.
    pub(crate) lines_if_present: f64,
}

impl Planned {
    /// Returns the plan of a filter that has no record. A query reads one cache line, or none if
    /// the payload is empty.
    pub(super) fn in_one_line(len_bytes: u64, rate: f64, probes: u32) -> Self {
        let lines = if len_bytes == 0 { 0.0 } else { 1.0 };
        Self { len_bytes, record_len_bytes: 0, rate, probes, lines_if_absent: lines, lines_if_present: lines }
    }
}

/// The facts of a filter that do not depend on its keys.
#[derive(Debug)]
pub(crate) struct Info {
    /// The name in a [`FilterSpec`](crate::FilterSpec).
    pub(crate) name: &'static str,
    /// A phrase that says how the filter stores a key.
    pub(crate) description: &'static str,
    pub(crate) budgets: Budgets,
    /// Bits per key for an example in an error message.
    pub(crate) example_bits: f64,
    /// The reason in the error for a requested FPR that is too low. For a filter without a budget,
    /// every FPR gets this error.
    pub(crate) lowest_rate: &'static str,
    /// Whether there is a slower build that makes a smaller filter.
    pub(crate) has_compact_build: bool,
    /// Whether [`crate::compact`] stores the filter.
    pub(crate) has_compact_form: bool,
    /// Where the bits of a key lie, if a key sets bits. Two such filters of one header can be united.
    pub(crate) key_bits: Option<KeyBits>,
    /// Whether the filter is built from keys and answers for ranges. Any other filter is built from
    /// hashes and answers for hashes.
    pub(crate) is_of_ranges: bool,
}

/// The numbers of bits among which a key chooses its bits. `None` is the number of bits of the whole
/// filter.
#[derive(Debug, Clone, Copy)]
pub struct KeyBits {
    /// The bits of a block. All bits of a key lie in one block.
    pub block: Option<u64>,
    /// The bits among which a probe chooses: those of the block, or of one lane of it.
    pub probe: Option<u64>,
}

impl Info {
    /// The facts of most filters. Each filter gives its own texts.
    pub(super) const COMMON: Self = Self {
        name: "",
        description: "",
        budgets: Budgets::ALL,
        example_bits: 10.0,
        lowest_rate: "the filter takes no budget; leave out the bits per key or the FPR",
        has_compact_build: false,
        has_compact_form: false,
        key_bits: None,
        is_of_ranges: false,
    };
}

/// The contract of a filter. Each filter is a type with this trait and an entry in the list of
/// filters ([`super::filters`]). Elsewhere, only ranges and the filters that are opened for one query
/// ([`super::kernels`]) name single filters.
pub(crate) trait Filter: Query<Filter = Self> + Sized {
    /// The parsed parameters, after they were found to fit the payload. Their length is at most 24
    /// bytes, because every partition of an open filter has them.
    type Params: fmt::Debug + Clone + PartialEq + 'static;

    const INFO: Info;

    /// The parameters, if there is only one value of them, and if a query answers "maybe" for a
    /// payload of another filter that is too short. Queries then need not compare the filter's
    /// number, which would add two instructions to about twenty.
    const ONLY: Option<&'static Self::Params> = None;

    /// Whether the queries use vector primitives. If not, they are compiled only as portable code.
    const HAS_VECTOR_CODE: bool = true;

    /// Returns the FPR of a filter of [`MANY_KEYS`] keys with `millibits` thousandths of a bit per
    /// key. For ribbons and binary fuse filters, `millibits` is the space of the fingerprints
    /// alone. For a range filter, the result is the upper bound for scans.
    fn rate_of_many(millibits: u32) -> f64;

    /// Plans the filter that `budget` gives to `num_keys` keys. There is at least one key. The
    /// error is the reason why there is no such filter.
    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str>;

    /// Builds the filter over `hashes`. The hashes are distinct and sorted, and there is at least
    /// one. The same set gives the same bytes. The function may reorder the hashes. It returns
    /// `None` if there is no filter for these hashes; the caller then builds the fallback.
    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory>;

    /// Returns the filter without keys into which [`super::build`] sets the bits of `num_keys` keys.
    /// Returns `None` for a filter that is not built by setting bits.
    fn blank(_budget: Budget, _num_keys: u64, _rounding: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        Ok(None)
    }

    /// Returns the FPR of the fallback, which the caller builds if there is no solution. Returns
    /// `None` if the fallback gets the requested FPR or, for a budget in bits, the same bits per
    /// key.
    fn fallback_rate(_budget: Budget) -> Option<f64> {
        None
    }

    /// Reads a header and checks that a payload of `len_bytes` with `num_keys` keys can have it.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`](crate::Error::Corrupt) that names the invalid field. The offset
    /// is 0, or an offset in the record.
    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<Self::Params>;

    /// Returns the expected FPR: the share of absent keys for which the filter answers "maybe". For
    /// a range filter, it is an upper bound for ranges of the length that the filter is sized for.
    fn expected_fpr(params: &Self::Params, num_keys: u64, payload_len_bytes: u64) -> f64;

    /// Returns the maximum number of bits that a query tests. It is 0 for range filters and for
    /// filters without bits.
    fn probes(params: &Self::Params) -> u32;

    /// Estimates the number of distinct keys of a filter in which `set_bits` of `bits` bits are 1.
    /// Returns `None` if the bits give no estimate.
    fn estimated_keys(params: &Self::Params, set_bits: u64, bits: u64) -> Option<f64> {
        Self::INFO.key_bits.map(|_| math::estimated_keys(set_bits, bits, Self::probes(params)))
    }

    /// Prints the parameters in one line of text.
    fn describe(params: &Self::Params, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let probes = Self::probes(params);
        let bits = if probes == 1 { "bit" } else { "bits" };
        write!(f, "{probes} {bits} tested per query; the other parameters are reserved")
    }

    /// Returns the number of columns. A filter can drop all of them but one. Each dropped column
    /// that all blocks have doubles the FPR. Returns `None` for a filter that cannot drop columns.
    fn columns(_params: &Self::Params) -> Option<u32> {
        None
    }

    /// Returns the number of bytes that queries may read of a payload of `len` bytes. It is less
    /// than `len` only if [`Filter::with_columns`] made the parameters.
    fn asked_len(_params: &Self::Params, len: usize) -> usize {
        len
    }

    /// Returns the parameters of the first `columns` columns alone. Returns `None` if the filter
    /// cannot drop columns, if it has at most `columns` columns, or if `columns` is 0.
    ///
    /// If `columns` is a multiple of eight, the new parameters are also valid for the payload of
    /// these parameters.
    fn with_columns(_params: &Self::Params, _columns: u32) -> Option<Self::Params> {
        None
    }

    /// Returns the header and the payload of the first columns alone. `header` and `payload` belong
    /// to `params`, and `to` is the result of [`Filter::with_columns`].
    fn copy_columns(
        _params: &Self::Params,
        _shape: &Header<'_>,
        _payload: &[u8],
        _to: &Self::Params,
    ) -> Result<(Header<'static>, Vec<u8>)> {
        Err(Error::corrupt(Field::Params))
    }

    /// Chooses the code of the queries for these parameters. A filter may have a [`Query`] of its own
    /// for each form of its payload.
    fn compile<C: Compiled>(_params: &Self::Params, isa: Isa) -> C
    where
        Self: Listed,
    {
        C::of::<Self>(if Self::HAS_VECTOR_CODE { isa } else { Isa::PORTABLE })
    }

    /// Returns whether the bytes that prove that `hash` is absent are valid. The query of the whole
    /// payload has answered "absent". `is_valid` tells whether a range of bytes, given by offset
    /// and length, has the bytes that the writer wrote. `padded` and `len` are those of [`Query`].
    fn is_proven(
        params: &Self::Params,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool;

    /// Answers for a payload of which some bytes may not be valid. `ask` runs the compiled query.
    #[inline]
    fn may_contain_if_valid(
        ask: impl FnOnce() -> bool,
        params: &Self::Params,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        ask() || !Self::is_proven(params, padded, len, hash, is_valid)
    }
}

/// The code of a query. [`super::kernels`] compiles `may_contain` and `may_contain_batch` for each
/// instruction set.
///
/// `padded` begins with the payload of `len` bytes. Some queries are faster if 64 bytes follow the
/// payload. A query that needs bytes beyond `padded` answers "maybe".
///
/// The functions with a [`Simd`] are `#[inline(always)]`, except on rare paths, so that they become
/// part of a function that is compiled for the instruction set.
pub(crate) trait Query {
    /// The filter whose parameters the query takes.
    type Filter: Filter;

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    fn may_contain(simd: impl Simd, params: &ParamsOf<Self>, padded: &[u8], len: usize, hash: KeyHash) -> bool;

    /// Answers for many keys: `answers[i]` belongs to `hashes[i]`, up to the shorter of the two
    /// slices. The default implementation prefetches the first cache lines of all keys before the
    /// first query.
    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        params: &ParamsOf<Self>,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        for &hash in hashes {
            Self::prefetch(params, padded, len, hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = Self::may_contain(simd, params, padded, len, hash);
        }
    }

    /// Prefetches the first cache lines that a query of `hash` will need.
    fn prefetch(params: &ParamsOf<Self>, padded: &[u8], len: usize, hash: KeyHash);
}

type ParamsOf<Q> = <<Q as Query>::Filter as Filter>::Params;

/// A filter in the list of filters. The list implements this trait.
pub(crate) trait Listed: Filter {
    const KIND: FilterKind;

    /// Makes the parameters an element of the enum of all filters.
    fn wrap(params: Self::Params) -> Params;

    /// Returns the parameters, or `None` if they belong to another filter.
    fn of(params: &Params) -> Option<&Self::Params>;
}

/// A query of a filter in the list of filters.
pub(crate) trait Asked: Query {
    /// Returns the parameters, or `None` if they belong to another filter.
    fn params(params: &Params) -> Option<&ParamsOf<Self>>;
}

impl<Q: Query<Filter: Listed>> Asked for Q {
    #[inline(always)]
    fn params(params: &Params) -> Option<&ParamsOf<Self>> {
        Q::Filter::of(params)
    }
}

/// A pointer to the compiled code of a query: see [`super::kernels`].
pub(crate) trait Compiled {
    fn of<Q: Asked>(isa: Isa) -> Self;
}

/// Returns the payload, or an empty slice if `padded` has fewer than `len` bytes.
#[inline(always)]
pub(super) fn payload_of(padded: &[u8], len: usize) -> &[u8] {
    padded.get(..len).unwrap_or_default()
}

/// Answers for many keys. If the payload has more than [`RESIDENT_LEN_BYTES`], the function splits
/// the keys into groups of `KEYS`. It prefetches a whole group before it queries the first key of
/// the group.
#[inline(always)]
pub(super) fn in_batches<Q: Query, const KEYS: usize>(
    simd: impl Simd,
    params: &ParamsOf<Q>,
    payload: &[u8],
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    let is_resident = payload.len() <= RESIDENT_LEN_BYTES;
    let group = if is_resident { hashes.len().max(1) } else { KEYS };
    for (hashes, answers) in hashes.chunks(group).zip(answers.chunks_mut(group)) {
        if !is_resident {
            hashes.iter().for_each(|&hash| Q::prefetch(params, payload, payload.len(), hash));
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = Q::may_contain(simd, params, payload, payload.len(), hash);
        }
    }
}
