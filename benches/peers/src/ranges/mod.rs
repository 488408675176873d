//! Measures range filters: times of queries and builds, memory, and false-positive rates.
//!
//! Keys are random numbers below 2^60. Queries ask for ranges without a key: uniform ranges, and
//! ranges that end one below a key. Queries also ask for ranges that hold a key. If a filter denies
//! such a range, the measurement fails, except for DIVA and SuRF.

mod filters;

use std::hint::black_box;

use filterblock_testkit::measure::clock::{process_time, thread_time};
use filterblock_testkit::measure::keys::{Random, mix};
use serde::{Deserialize, Serialize};

use self::filters::{CONTENDERS, Contender, RangeFilter};
use crate::args::Ranges;
use crate::rate::Rate;

/// The upper bound on the FPR for which filters are built, if they take one.
const FPR: f64 = 0.01;
/// The lengths of ranges. Each filter is asked for ranges of one length. If its build takes a
/// length, the filter is built for this length.
const LENGTHS: [u64; 2] = [16, 1024];
/// The number of bits of a key. Ranges at keys near 2^64 would overflow.
const KEY_BITS: u32 = 60;

/// The results of one range filter with one number of keys and one length of ranges.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub range_filter: String,
    pub package: String,
    pub version: String,
    pub keys: usize,
    /// Length of the ranges that are asked. A filter that takes a length is built for it.
    pub range_len: u64,
    /// Number of passes that were timed.
    pub passes: usize,
    /// Number of uniform ranges in a pass. A slow filter is asked for fewer than others.
    pub queries: usize,
    /// CPU time of a build in ns per key, of the fastest pass. The keys come sorted.
    pub build_ns: f64,
    /// CPU time of a query for a uniform range without a key, in ns, of the fastest pass.
    pub uniform_ns: f64,
    /// CPU time of a query for a range that ends one below a key, in ns, of the fastest pass.
    pub correlated_ns: f64,
    /// CPU time of a query for a range that holds a key, in ns, of the fastest pass.
    pub present_ns: f64,
    /// Size of the filter in bytes, with all its parts, or `None` if the crate does not tell it.
    pub bytes: Option<u64>,
    /// The share of answers "maybe" for uniform ranges without a key.
    pub uniform_rate: f64,
    /// The lower end of the 99 % interval of `uniform_rate`.
    pub uniform_rate_low: f64,
    /// The share of answers "maybe" for ranges that end one below a key.
    pub correlated_rate: f64,
    /// The lower end of the 99 % interval of `correlated_rate`.
    pub correlated_rate_low: f64,
    /// The number of wrongly denied ranges, divided by the number of asked ranges that hold a key.
    pub denied_rate: f64,
}

impl Row {
    /// Returns the size of the filter in bits per key, or `None` if the size is unknown.
    pub fn bits_per_key(&self) -> Option<f64> {
        Some(self.bytes? as f64 * 8.0 / self.keys as f64)
    }
}

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
        // At most one range ends below each key. Repeated ranges would make the FPR look more
        // certain than it is.
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
    uniform: Answers,
    correlated: Answers,
    present: Answers,
    bytes: Option<u64>,
}

impl Pass {
    /// Returns the lower times of two passes, and the sums of their answers.
    fn and(self, next: Self) -> Self {
        Self {
            build_ns: self.build_ns.min(next.build_ns),
            uniform: self.uniform.and(next.uniform),
            correlated: self.correlated.and(next.correlated),
            present: self.present.and(next.present),
            bytes: next.bytes,
        }
    }
}

/// The answers to ranges of one sort.
#[derive(Clone, Copy)]
struct Answers {
    /// The mean CPU time of a query in ns.
    ns: f64,
    asked: u64,
    maybe: u64,
}

impl Answers {
    fn and(self, next: Self) -> Self {
        Self { ns: self.ns.min(next.ns), asked: self.asked + next.asked, maybe: self.maybe + next.maybe }
    }

    /// Returns the mean share of "maybe" in a pass, with its interval. Each pass asks for the same
    /// ranges, so further passes do not make the sample larger.
    fn rate(&self, passes: usize) -> Rate {
        Rate::of(self.maybe / passes as u64, self.asked / passes as u64)
    }

    fn denied_rate(&self) -> f64 {
        (self.asked - self.maybe) as f64 / self.asked as f64
    }
}

/// Measures the build and the queries of a new filter. Asks for the first `1 / asked_part` of the
/// ranges of each sort, but for at least one, if there is one.
fn pass<F: RangeFilter>(work: &Work, asked_part: usize) -> Result<Pass, String> {
    let start = process_time();
    let mut filter = F::build(black_box(&work.keys), work.range_len)?;
    let build_ns = (process_time() - start).as_secs_f64() * 1e9 / work.keys.len() as f64;
    let mut answers =
        |ranges: &[(u64, u64)]| ask(&mut filter, &ranges[..(ranges.len() / asked_part).max(1).min(ranges.len())]);
    let (uniform, correlated, present) = (answers(&work.uniform), answers(&work.correlated), answers(&work.present));
    Ok(Pass { build_ns, uniform, correlated, present, bytes: filter.bytes() })
}

#[inline(never)]
fn ask<F: RangeFilter>(filter: &mut F, ranges: &[(u64, u64)]) -> Answers {
    let start = thread_time();
    let maybe = black_box(ranges).iter().map(|&range| u64::from(filter.may_contain(range))).sum();
    let ns = (thread_time() - start).as_secs_f64() * 1e9 / ranges.len() as f64;
    Answers { ns, asked: ranges.len() as u64, maybe }
}

/// Measures all filters in turn in each pass, prints the results, and writes them to the CSV.
/// Leaves out slow filters if there are many keys.
pub fn measure(args: &Ranges) -> Result<(), String> {
    let mut recorder = args.record.open::<Row>(false, true)?;
    println!(
        "{:38} {:>8} {:>8} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "", "build", "uniform", "correlated", "present", "bits/key", "rate %", "corr. %", "denied %"
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
    let contenders: Vec<_> = CONTENDERS.iter().filter(|contender| contender.takes(work.keys.len())).collect();
    let mut found: Vec<Option<Pass>> = vec![None; contenders.len()];
    for number in 0..passes {
        for turn in 0..contenders.len() {
            let i = (turn + number) % contenders.len();
            let next = contenders[i].pass(work)?;
            found[i] = Some(found[i].map_or(next, |before| before.and(next)));
        }
    }
    let rows = contenders.iter().zip(found).filter_map(|(contender, found)| Some((contender, found?)));
    rows.map(|(contender, found)| row(contender, work, passes, &found)).collect()
}

fn row(contender: &Contender, work: &Work, passes: usize, found: &Pass) -> Result<Row, String> {
    let (name, package) = (contender.name, contender.package);
    let denied = found.present.asked - found.present.maybe;
    if contender.denies_nothing && denied > 0 {
        return Err(format!("{name} of {package} denies {denied} ranges that hold a key"));
    }
    let (uniform, correlated) = (found.uniform.rate(passes), found.correlated.rate(passes));
    let ns = |ns: f64| (ns * 100.0).round() / 100.0;
    Ok(Row {
        range_filter: name.into(),
        package: package.into(),
        version: crate::version_of(package).into(),
        keys: work.keys.len(),
        range_len: work.range_len,
        passes,
        queries: usize::try_from(found.uniform.asked).unwrap_or(usize::MAX) / passes,
        build_ns: ns(found.build_ns),
        uniform_ns: ns(found.uniform.ns),
        correlated_ns: ns(found.correlated.ns),
        present_ns: ns(found.present.ns),
        bytes: found.bytes,
        uniform_rate: uniform.share,
        uniform_rate_low: uniform.low,
        correlated_rate: correlated.share,
        correlated_rate_low: correlated.low,
        denied_rate: found.present.denied_rate(),
    })
}

fn print(row: &Row) {
    let name = format!("{} {}, {} keys, L = {}", row.package, row.version, row.keys, row.range_len);
    println!(
        "{name:38} {:8.1} {:8.1} {:10.1} {:8.1} {:>9} {:9.3} {:9.3} {:9.3}",
        row.build_ns,
        row.uniform_ns,
        row.correlated_ns,
        row.present_ns,
        row.bits_per_key().map_or("unknown".into(), |bits| format!("{bits:.2}")),
        row.uniform_rate * 100.0,
        row.correlated_rate * 100.0,
        row.denied_rate * 100.0
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
            let rows = measure_all(&Work::new(20_000, range_len, 20_000), 2).unwrap();
            assert!(rows.len() == 3 && rows.iter().all(|row| row.denied_rate == 0.0), "{rows:?}");
            // The third row, DIVA, is not compared, because its FPR has no bound for ranges beside
            // a key. The hash of the crate grafite (second row) is not pairwise independent, so its
            // FPR is sometimes above the bound.
            for (row, most) in rows.iter().zip([FPR, 1.5 * FPR]) {
                assert!(row.uniform_rate_low <= most && row.correlated_rate_low <= most, "{row:?}");
            }
        }
    }
}
