//! Builds the range filters that are measured: filterblock's kind `grafite`, and the filters of
//! other crates.
//!
//! Rosetta, SNARF, Proteus and Memento are not measured, because we know no crate for them.

use std::ops::Bound::Included;
use std::panic::catch_unwind;

use filterblock::{AlignedBytes, FilterBlock, FilterOptions, FilterSpec, HashSeed, Verify};

use super::{FPR, Pass, Work, pass};

/// The number of keys between two samples of DIVA, as in its documentation.
const DIVA_SAMPLE: usize = 1_024;

/// A range filter that is built from sorted numbers.
pub(super) trait RangeFilter: Sized {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String>;
    /// Returns whether a key may lie in `range`. Both ends belong to the range.
    fn may_contain(&mut self, range: (u64, u64)) -> bool;
    /// Returns the size of the filter in bytes, or `None` if the crate does not tell it.
    fn bytes(&self) -> Option<u64>;
}

/// A measured range filter, with the limits of its measurement.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// The maximum number of keys with which the filter is measured.
    max_keys: usize,
    /// The divisor of the number of ranges: a slow filter is asked only a part of them.
    asked_part: usize,
    /// Whether the measurement fails if the filter denies a range that holds a key. If false, the
    /// row only reports the share of denied ranges.
    pub(super) denies_nothing: bool,
    pass: OnePass,
}

pub(super) const CONTENDERS: [Contender; 4] = [
    Contender::of("grafite", "filterblock", pass::<Ours>),
    Contender::of("RangeFilter", "grafite", pass::<Grafite>),
    Contender {
        max_keys: 1_000_000,
        asked_part: 8,
        denies_nothing: false,
        ..Contender::of("Diva", "range-filters", pass::<Diva>)
    },
    // The crate copies the whole filter for each query.
    Contender {
        max_keys: 10_000,
        asked_part: 64,
        denies_nothing: false,
        ..Contender::of("Surf", "rsurf", pass::<Surf>)
    },
];

type OnePass = fn(&Work, usize) -> Result<Pass, String>;

impl Contender {
    const fn of(name: &'static str, package: &'static str, pass: OnePass) -> Self {
        Self { name, package, max_keys: usize::MAX, asked_part: 1, denies_nothing: true, pass }
    }

    /// Returns whether the filter is measured with this number of keys.
    pub(super) fn takes(&self, keys: usize) -> bool {
        keys <= self.max_keys
    }

    /// Measures the build and the queries of a new filter. A panic becomes an error.
    pub(super) fn pass(&self, work: &Work) -> Result<Pass, String> {
        let pass = self.pass;
        let outcome = catch_unwind(|| pass(work, self.asked_part)).unwrap_or_else(|_| Err("it panics".into()));
        outcome.map_err(|error| format!("{} of {}: {error}", self.name, self.package))
    }
}

/// The range filter of filterblock, opened as a reader opens it. Numbers become eight bytes in
/// big-endian order.
struct Ours(FilterBlock<AlignedBytes>);

impl RangeFilter for Ours {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String> {
        let failed = |error: filterblock::Error| error.to_string();
        let spec: FilterSpec = format!("grafite:L={range_len}:fpr={FPR}").parse().map_err(failed)?;
        let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(42)).map_err(failed)?;
        keys.iter().for_each(|key| builder.add(builder.hasher().key(&key.to_be_bytes())));
        let block = AlignedBytes::copy_of(&builder.finish().map_err(failed)?.bytes).map_err(failed)?;
        FilterBlock::open_any(block, Verify::AtOpen).map(Self).map_err(failed)
    }

    #[inline(always)]
    fn may_contain(&mut self, (lower, upper): (u64, u64)) -> bool {
        self.0.may_contain_range(Included(&lower.to_be_bytes()), Included(&upper.to_be_bytes()))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.as_bytes().len() as u64)
    }
}

struct Grafite(grafite::RangeFilter);

impl RangeFilter for Grafite {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String> {
        let hasher = grafite::PairwiseIndependentHasher::new(keys.len(), FPR, range_len);
        let hasher = hasher.map_err(|error| format!("{error:?}"))?;
        Ok(Self(grafite::RangeFilter::new(keys.iter().copied(), hasher)))
    }

    #[inline(always)]
    fn may_contain(&mut self, (lower, upper): (u64, u64)) -> bool {
        self.0.query(lower..=upper)
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.ef.heap_size() as u64 + size_of::<grafite::RangeFilter>() as u64)
    }
}

/// The filter DIVA. Its build takes numbers and an FPR, but no length of ranges.
struct Diva(range_filters::Diva);

impl RangeFilter for Diva {
    fn build(keys: &[u64], _range_len: u64) -> Result<Self, String> {
        Ok(Self(range_filters::Diva::new_with_keys(keys, DIVA_SAMPLE, FPR)))
    }

    fn may_contain(&mut self, (lower, upper): (u64, u64)) -> bool {
        self.0.range_query(lower, upper)
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// SuRF: a trie of the shortest prefixes that distinguish the keys. It takes no FPR.
struct Surf(rsurf::surf::Surf);

impl RangeFilter for Surf {
    fn build(keys: &[u64], _range_len: u64) -> Result<Self, String> {
        let keys = keys.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        let filter = rsurf::surf::Surf::new(keys, rsurf::options::Options::new());
        filter.map(Self).map_err(|error| format!("{error:?}"))
    }

    fn may_contain(&mut self, (lower, upper): (u64, u64)) -> bool {
        // The crate returns an error if the lower bound is above the last key. No key is in this
        // range.
        self.0.range(lower.to_be_bytes().to_vec(), upper.to_be_bytes().to_vec()).unwrap_or(false)
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}
