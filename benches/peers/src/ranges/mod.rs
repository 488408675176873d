//! Measures range filters: times of queries and builds, memory, and false-positive rates.
//!
//! Keys are random numbers below 2^60. Queries ask ranges without a key: uniform ones, and ranges
//! that end one below a key, where filters of prefixes fail. Every filter is also asked ranges that
//! begin one below a key or at it, and must not deny them.

use std::hint::black_box;
use std::ops::Bound::Included;

use filterblock::{AlignedBytes, FilterBlock, FilterBuilder, FilterSpec, HashSeed, SelfCheck, Verify};
use serde::{Deserialize, Serialize};

use crate::args::Ranges;
use crate::clock::{self, process_time, thread_time};
use crate::csv_file::Recorder;
use crate::keys::{Random, mix};
use crate::machine;
use crate::rate::Rate;

/// The bound of the FPR that all filters get.
const FPR: f64 = 0.01;
/// Lengths of the ranges that filters are built for and asked.
const LENGTHS: [u64; 2] = [16, 1024];
/// Lowest and highest mapped numbers would make ranges overflow.
const KEY_BITS: u32 = 60;

/// The results of one filter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The name of the filter.
    pub range_filter: String,
    /// The crate of the filter.
    pub package: String,
    /// The version of the crate.
    pub version: String,
    /// Number of keys.
    pub keys: usize,
    /// Length of the ranges that are asked and that the filter is built for.
    pub range_len: u64,
    /// Number of passes that were timed.
    pub passes: usize,
    /// CPU time of a build in ns per key, of the fastest pass. The keys come sorted.
    pub build_ns: f64,
    /// CPU time of a query for a uniform range without a key, in ns, of the fastest pass.
    pub uniform_ns: f64,
    /// CPU time of a query for a range that ends one below a key, in ns, of the fastest pass.
    pub correlated_ns: f64,
    /// CPU time of a query for a range that holds a key, in ns, of the fastest pass.
    pub present_ns: f64,
    /// Size of the filter in bytes, with all its parts.
    pub bytes: u64,
    /// The share of uniform ranges without a key that are answered "maybe".
    pub uniform_rate: f64,
    /// The lower end of its 99 % interval.
    pub uniform_rate_low: f64,
    /// The same for ranges that end one below a key.
    pub correlated_rate: f64,
    /// The lower end of its 99 % interval.
    pub correlated_rate_low: f64,
}

/// A filter of sorted numbers.
trait RangeFilter: Sized {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String>;
    /// Whether a key may lie in `range`, both ends included.
    fn may_contain(&self, range: (u64, u64)) -> bool;
    fn bytes(&self) -> u64;
}

/// Our range filter, opened as a reader does. Numbers become eight bytes, most significant first.
struct Ours(FilterBlock<AlignedBytes>);

impl RangeFilter for Ours {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String> {
        let failed = |error: filterblock::Error| error.to_string();
        let spec: FilterSpec = format!("grafite:L={range_len}:fpr={FPR}").parse().map_err(failed)?;
        let mut builder = FilterBuilder::new(spec, HashSeed(42)).with_self_check(SelfCheck::Off);
        keys.iter().for_each(|key| builder.add(&key.to_be_bytes()));
        let block = AlignedBytes::copy_of(&builder.finish().map_err(failed)?).map_err(failed)?;
        FilterBlock::open_any(block, Verify::AtOpen).map(Self).map_err(failed)
    }

    #[inline(always)]
    fn may_contain(&self, (lower, upper): (u64, u64)) -> bool {
        self.0.may_contain_range(Included(&lower.to_be_bytes()), Included(&upper.to_be_bytes()))
    }

    fn bytes(&self) -> u64 {
        self.0.as_bytes().len() as u64
    }
}

/// The crate `grafite`. It takes numbers only, and has no bytes to store.
struct Crate(grafite::RangeFilter);

impl RangeFilter for Crate {
    fn build(keys: &[u64], range_len: u64) -> Result<Self, String> {
        let hasher = grafite::PairwiseIndependentHasher::new(keys.len(), FPR, range_len);
        let hasher = hasher.map_err(|error| format!("{error:?}"))?;
        Ok(Self(grafite::RangeFilter::new(keys.iter().copied(), hasher)))
    }

    #[inline(always)]
    fn may_contain(&self, (lower, upper): (u64, u64)) -> bool {
        self.0.query(lower..=upper)
    }

    fn bytes(&self) -> u64 {
        self.0.ef.heap_size() as u64 + size_of::<grafite::RangeFilter>() as u64
    }
}

/// The keys and the ranges that all filters get.
struct Work {
    range_len: u64,
    keys: Vec<u64>,
    uniform: Vec<(u64, u64)>,
    correlated: Vec<(u64, u64)>,
    present: Vec<(u64, u64)>,
}

impl Work {
    fn new(keys: usize, range_len: u64, queries: usize) -> Self {
        let mut sorted: Vec<u64> = (0..keys as u64).map(|number| mix(number) >> (64 - KEY_BITS)).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut random = Random::new(7);
        let mut drawn = |begin: &dyn Fn(&mut Random) -> u64, wants_key: bool| {
            let ranges = std::iter::repeat_with(|| begin(&mut random)).map(|lower| (lower, lower + range_len - 1));
            ranges.filter(|&range| holds_key(&sorted, range) == wants_key).take(queries).collect::<Vec<_>>()
        };
        let any_key = |random: &mut Random| {
            let number = random.below(sorted.len() as u64);
            sorted[usize::try_from(number).unwrap_or(0)]
        };
        let uniform = drawn(&|random| random.below((1 << KEY_BITS) - range_len), false);
        let present = drawn(&|random| any_key(random).saturating_sub(random.below(range_len)), true);
        // Each key once, because ranges that repeat would make the FPR look more certain than it
        // is.
        let mut beside: Vec<u64> = (0..sorted.len() as u64).collect();
        beside.sort_unstable_by_key(|&number| mix(!number));
        let beside =
            beside.iter().filter_map(|&number| sorted.get(usize::try_from(number).ok()?)?.checked_sub(range_len));
        let beside = beside.map(|lower| (lower, lower + range_len - 1));
        let correlated = beside.filter(|&range| !holds_key(&sorted, range)).take(queries).collect();
        Self { range_len, uniform, correlated, present, keys: sorted }
    }
}

fn holds_key(sorted: &[u64], (lower, upper): (u64, u64)) -> bool {
    sorted.get(sorted.partition_point(|&key| key < lower)).is_some_and(|&key| key <= upper)
}

/// The results of one pass.
#[derive(Clone, Copy)]
struct Pass {
    build_ns: f64,
    uniform_ns: f64,
    correlated_ns: f64,
    present_ns: f64,
    bytes: u64,
    uniform_hits: u64,
    correlated_hits: u64,
    denied: u64,
}

impl Pass {
    /// The lower times of two passes, the sum of false positives and of denied ranges.
    fn and(self, next: Self) -> Self {
        Self {
            build_ns: self.build_ns.min(next.build_ns),
            uniform_ns: self.uniform_ns.min(next.uniform_ns),
            correlated_ns: self.correlated_ns.min(next.correlated_ns),
            present_ns: self.present_ns.min(next.present_ns),
            bytes: next.bytes,
            uniform_hits: self.uniform_hits + next.uniform_hits,
            correlated_hits: self.correlated_hits + next.correlated_hits,
            denied: self.denied + next.denied,
        }
    }
}

/// Builds and asks a new filter.
fn pass<F: RangeFilter>(work: &Work) -> Result<Pass, String> {
    let start = process_time();
    let filter = F::build(black_box(&work.keys), work.range_len)?;
    let build_ns = (process_time() - start).as_secs_f64() * 1e9 / work.keys.len() as f64;
    let (uniform_ns, uniform_hits) = ask(&filter, &work.uniform);
    let (correlated_ns, correlated_hits) = ask(&filter, &work.correlated);
    let (present_ns, found) = ask(&filter, &work.present);
    let denied = work.present.len() as u64 - found;
    let bytes = filter.bytes();
    Ok(Pass { build_ns, uniform_ns, correlated_ns, present_ns, bytes, uniform_hits, correlated_hits, denied })
}

/// Asks all ranges. Returns the time of a query in ns, and the number of answers "maybe".
#[inline(never)]
fn ask<F: RangeFilter>(filter: &F, ranges: &[(u64, u64)]) -> (f64, u64) {
    let start = thread_time();
    let hits = black_box(ranges).iter().map(|&range| u64::from(filter.may_contain(range))).sum();
    ((thread_time() - start).as_secs_f64() * 1e9 / ranges.len() as f64, hits)
}

/// The name of a filter, its crate, and its pass.
type Contender = (&'static str, &'static str, fn(&Work) -> Result<Pass, String>);

const CONTENDERS: [Contender; 2] =
    [("grafite", "filterblock", pass::<Ours>), ("RangeFilter", "grafite", pass::<Crate>)];

/// Measures all filters by turns in each pass.
///
/// # Errors
/// Returns an error if the thread cannot be pinned to a core, if the CSV cannot be written, or if a
/// filter denies a range that holds a key.
pub fn measure(args: &Ranges) -> Result<(), String> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this build is not optimised, so times mean nothing; use cargo run --release");
    }
    let machine = machine::describe(clock::pin(args.cpu)?);
    let machine = format!("{machine}; load average {} at the start", machine::load());
    eprintln!("{machine}");
    let mut recorder = Recorder::create(args.out.as_deref(), &machine)?;
    println!(
        "{:34} {:>8} {:>8} {:>10} {:>8} {:>9} {:>9} {:>9}",
        "", "build", "uniform", "correlated", "present", "bits/key", "rate %", "corr. %"
    );
    for &keys in &args.sizes {
        for range_len in LENGTHS {
            let work = Work::new(keys, range_len, args.queries);
            for row in measure_all(&work, args.passes)? {
                print(&row);
                recorder.write(&row)?;
            }
        }
    }
    recorder.flush()
}

fn measure_all(work: &Work, passes: usize) -> Result<Vec<Row>, String> {
    let mut found: [Option<Pass>; CONTENDERS.len()] = [None; CONTENDERS.len()];
    for number in 0..passes {
        for turn in 0..CONTENDERS.len() {
            let i = (turn + number) % CONTENDERS.len();
            let (name, _, pass) = CONTENDERS[i];
            let next = pass(work).map_err(|error| format!("{name}: {error}"))?;
            found[i] = Some(found[i].map_or(next, |before| before.and(next)));
        }
    }
    let rows = CONTENDERS.iter().zip(found).filter_map(|(contender, found)| Some((contender, found?)));
    rows.map(|(&(name, package, _), found)| {
        if found.denied > 0 {
            return Err(format!("{name} of {package} denies {} ranges that hold a key", found.denied));
        }
        Ok(row(name, package, work, passes, &found))
    })
    .collect()
}

fn row(name: &str, package: &str, work: &Work, passes: usize, found: &Pass) -> Row {
    // Each pass asks the same ranges, so the passes together are one sample.
    let rate = |hits: u64, asked: usize| Rate::of(hits / passes as u64, asked as u64);
    let uniform = rate(found.uniform_hits, work.uniform.len());
    let correlated = rate(found.correlated_hits, work.correlated.len());
    let ns = |ns: f64| (ns * 100.0).round() / 100.0;
    Row {
        range_filter: name.into(),
        package: package.into(),
        version: machine::version_of(package).into(),
        keys: work.keys.len(),
        range_len: work.range_len,
        passes,
        build_ns: ns(found.build_ns),
        uniform_ns: ns(found.uniform_ns),
        correlated_ns: ns(found.correlated_ns),
        present_ns: ns(found.present_ns),
        bytes: found.bytes,
        uniform_rate: uniform.share,
        uniform_rate_low: uniform.low,
        correlated_rate: correlated.share,
        correlated_rate_low: correlated.low,
    }
}

fn print(row: &Row) {
    let name = format!("{} {}, {} keys, L = {}", row.package, row.version, row.keys, row.range_len);
    println!(
        "{name:34} {:8.1} {:8.1} {:10.1} {:8.1} {:9.2} {:9.3} {:9.3}",
        row.build_ns,
        row.uniform_ns,
        row.correlated_ns,
        row.present_ns,
        row.bytes as f64 * 8.0 / row.keys as f64,
        row.uniform_rate * 100.0,
        row.correlated_rate * 100.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_empty_or_hold_a_key_as_they_should() {
        let work = Work::new(1_000, 16, 500);
        let holds = |range: &(u64, u64)| work.keys.iter().any(|key| (range.0..=range.1).contains(key));
        assert!(work.uniform.len() == 500 && !work.uniform.iter().any(holds));
        assert!(work.correlated.iter().all(|range| work.keys.contains(&(range.1 + 1)) && !holds(range)));
        assert!(work.present.len() == 500 && work.present.iter().all(holds));
    }

    #[test]
    fn every_filter_keeps_its_bound_and_denies_no_key() {
        for range_len in LENGTHS {
            for row in measure_all(&Work::new(20_000, range_len, 20_000), 2).unwrap() {
                // The crate's hash is not pairwise independent, so its rate is above the bound at
                // times.
                let most = if row.package == "filterblock" { FPR } else { 1.5 * FPR };
                assert!(row.uniform_rate_low <= most && row.correlated_rate_low <= most, "{row:?}");
            }
        }
    }
}
