//! `filterblock bench range-miss`: scans ranges without a key, scans absent rows, and gets keys of
//! absent rows, with filters and without. Makes one store for each range filter, and one store of rows.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use super::measure::{self, Distribution, Mean, median};
use super::range_report::{RangeReport, RangeRow, RangeSettings};
use super::record::OutputArguments;
use super::report::StoreReport;
use super::source::{Random, Source, Strings, mix};
use super::store::{Layout, Setup, Store, announce, ask_every_key, filter_use, new_dir};
use crate::filter_choice::{FilterChoice, RangeChoice};
use crate::html;
use crate::interrupt;
use crate::machine::{Machine, Versions};
use crate::prelude::*;
use crate::refused_value::{prefix_choice, whole};
use filterblock::Verify;
use filterblock_store::lsm::{Db, PrefixChoice, ProbeStats, Stats};
use filterblock_store::storage::IoMode;

const EXAMPLES: &str = "\
Examples:
  filterblock bench range-miss
  filterblock bench range-miss --range-filter grafite:L=16:fpr=0.001 --length 1 --length 16
  filterblock bench range-miss --json ranges.json --svg ranges.svg

For each range filter, the benchmark loads a store of random integers (big-endian keys of 8 bytes) in five \
overlapping runs. It scans ranges that hold no key, with filters and then without:
  uniform       ranges anywhere between the smallest and the largest key
  beside a key  ranges that begin directly after a loaded key
Then it loads a store of rows with ten columns each (keys row/column/value) whose filters hold the prefixes of --prefix, and \
measures gets and scans in rows that are absent.

First, a sentence for each query compares the time and the block reads with and without filters. The table:
  filter       filters of the SST files
  query        where the ranges lie, or what is done in an absent row
  length       integers in each range
  filters      on: reads ask the filters; off: reads ignore them
  mean         ns of CPU time per query in a plain loop; on systems other than Unix, wall time
  p50, p99     percentiles of single queries in a second pass: ns of wall time
  reads        data blocks read per query
  probes       filter queries per query: for keys, ranges or prefixes, depending on the row
  FPR %        measured false-positive rate (FPR) of these filter queries
  exp. FPR %   FPR that the parameters predict, for ranges of the length for which the filter was made; without L, it does not \
apply to ranges beside a key
  bits per key bits of all filters, divided by the number of keys

The mean is the median over the rounds (--rounds). Each round measures with filters and without. The benchmark also looks up every \
loaded key: false negatives must be 0. The defaults take about a minute.

Exit status: 0 done; 1 a loaded key was missing or had a wrong value; 2 an error; 128 + N when signal N ends the command (130 for Ctrl-C).";

const COUNT_MAX: u64 = 100_000_000;
const QUERIES_MAX: u64 = 10_000_000;

/// Measure scans and gets that find nothing, with filters and without
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The number of keys to load
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole(1_000..=COUNT_MAX, 1_000_000))]
    count: u64,
    /// The size of each value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = whole(0..=1usize << 20, 100))]
    value_size: usize,
    /// Create the stores in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The filter of keys, as in `filterblock bench point-miss`
    #[arg(long, value_name = "SPEC", default_value = "blocked-bloom:10")]
    filter: FilterChoice,
    /// A range filter to measure, as in `filterblock db load`; may be repeated
    #[arg(long, value_name = "SPEC", default_values = ["grafite:fpr=0.01", "grafite:L=16:fpr=0.01", "grafite:L=1024:fpr=0.01"])]
    range_filter: Vec<RangeChoice>,
    /// The prefixes in the filters of the store of rows, as in `filterblock db load`
    #[arg(long, value_name = "EXTRACTOR", default_value = "row-column:/", value_parser = prefix_choice)]
    prefix: PrefixChoice,
    /// The length of the ranges in integers; may be repeated
    #[arg(long, value_name = "N", default_values = ["16", "1024"], value_parser = whole(1..=1u64 << 40, 1024))]
    length: Vec<u64>,
    /// The number of queries of each kind with filters; without filters, a twentieth as many are
    /// made
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = whole(1..=QUERIES_MAX, 100_000))]
    queries: u64,
    /// Measure each mean N times; the report shows the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1_000u32, 3))]
    rounds: u32,
    /// The seed of keys, of random orders and of the filters
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// The divisor for the number of queries without filters. Such queries read blocks and are slow.
const IGNORED_DIVISOR: usize = 20;

struct Queries {
    name: &'static str,
    range_len: Option<u64>,
    all: Vec<Query>,
}

enum Query {
    Get(Vec<u8>),
    Scan([u8; 8], [u8; 8]),
    ScanPrefix(Vec<u8>),
}

impl Query {
    /// Runs the query. In debug builds, asserts that the query finds nothing.
    fn run(&self, db: &Db) -> Outcome<()> {
        let found = match self {
            Self::Get(key) => black_box(db.get(key)?).is_some(),
            Self::Scan(from, to) => black_box(db.scan(from.as_slice()..=to.as_slice()).next().transpose()?).is_some(),
            Self::ScanPrefix(prefix) => black_box(db.scan_prefix(prefix).next().transpose()?).is_some(),
        };
        debug_assert!(!found, "the query was drawn so that it finds nothing");
        Ok(())
    }

    /// Returns the counts of filter queries for this kind of query.
    fn probes(&self, stats: &Stats) -> ProbeStats {
        match self {
            Self::Get(_) => stats.total.points,
            Self::Scan(..) => stats.total.ranges,
            Self::ScanPrefix(_) => stats.total.prefixes,
        }
    }
}

pub fn run(arguments: &Arguments) -> Outcome {
    let outputs = arguments.outputs.create(None)?;
    let stores = arguments.range_filter.len() as u64 + 1;
    let len_bytes = arguments.count as f64 * (arguments.value_size as f64 + 30.0);
    let dir = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    announce(stores, len_bytes, &dir, "");
    let settings = RangeSettings {
        filter: arguments.filter.to_string(),
        range_filters: arguments.range_filter.iter().map(ToString::to_string).collect(),
        prefix: arguments.prefix.to_string(),
        range_lens: arguments.length.clone(),
        keys: arguments.count,
        value_len_bytes: arguments.value_size,
        seed: arguments.seed,
        queries: arguments.queries,
        rounds: arguments.rounds,
        clock_cost_ns: measure::clock_cost_ns()?,
    };
    let (rows, stores, false_negatives) = (Vec::new(), Vec::new(), 0);
    let (machine, versions) = (Machine::here(), Versions::here());
    let mut report = RangeReport { rows, stores, false_negatives, machine, versions, settings };
    interrupt::gracefully(|| arguments.measure(&dir, &mut report))?;
    let page = || html::page("filterblock bench range-miss", &report, html::plots::range_miss);
    outputs.publish(&report, || report.svg(), page, || report.to_text())?;
    Ok(if report.false_negatives == 0 { Exit::Success } else { Exit::Negative })
}

impl Arguments {
    fn measure(&self, dir: &Path, report: &mut RangeReport) -> Outcome<()> {
        let integers = Integers::new(self.count, self.seed);
        let mut queries = Vec::new();
        for (&range_len, seed) in self.length.iter().zip(1..) {
            for place in Place::ALL {
                let ranges = integers.empty_ranges(place, range_len, self.queries, self.seed.wrapping_add(seed))?;
                let all = ranges.into_iter().map(|(from, to)| Query::Scan(from, to)).collect();
                queries.push(Queries { name: place.name(), range_len: Some(range_len), all });
            }
        }
        let source = Source::listed(&integers.keys(), self.seed);
        for range_filter in &self.range_filter {
            self.measure_store(dir, &source, *range_filter, PrefixChoice::None, &queries, report)?;
        }
        let source = Source::listed(&rows(self.count, self.seed), self.seed);
        let absent = absent_rows(self.queries, self.count, self.seed);
        let gets = absent.iter().map(|row| Query::Get([row.as_slice(), b"5/value"].concat())).collect();
        let scans = absent.into_iter().map(Query::ScanPrefix).collect();
        let queries = [
            Queries { name: "get in an absent row", range_len: None, all: gets },
            Queries { name: "scan of an absent row", range_len: None, all: scans },
        ];
        self.measure_store(dir, &source, RangeChoice::None, self.prefix.clone(), &queries, report)
    }

    fn measure_store(
        &self,
        dir: &Path,
        source: &Source,
        range_filter: RangeChoice,
        prefix: PrefixChoice,
        queries: &[Queries],
        report: &mut RangeReport,
    ) -> Outcome<()> {
        let setup = Setup {
            source,
            value_len_bytes: self.value_size,
            seed: self.seed,
            io: IoMode::default(),
            verify: Verify::default(),
            cold: false,
            filter_memory: None,
            run_map_trigger: None,
        };
        let dir = new_dir(dir)?;
        let place = dir.path().join("store");
        let store = Store { setup, dir: &place, filter: self.filter, range_filter, prefix };
        let loaded = store.load(Layout::Runs(5))?;
        report.false_negatives += ask_every_key(&store)?;
        let bar = progress::bar(Some(u64::from(self.rounds)), format!("measuring {}", loaded.filter));
        let mut means: Vec<Vec<Mean>> = queries.iter().flat_map(|_| [Vec::new(), Vec::new()]).collect();
        for _ in 0..self.rounds {
            // Each round measures with filters and without, so that a slow minute of the machine
            // affects both.
            for consulted in [true, false] {
                let db = store.open(filter_use(consulted))?;
                for (queries, means) in queries.iter().zip(means.chunks_mut(2)) {
                    let asked = queries.first(consulted);
                    measure::mean_of(asked.iter().take(asked.len() / 10), |query| query.run(&db))?;
                    if let Some(means) = means.get_mut(usize::from(!consulted)) {
                        means.push(measure::mean_of(asked.iter(), |query| query.run(&db))?);
                    }
                }
                db.close()?;
            }
            bar.inc(1);
        }
        for consulted in [true, false] {
            let db = store.open(filter_use(consulted))?;
            for (queries, means) in queries.iter().zip(means.chunks(2)) {
                let asked = queries.first(consulted);
                measure::mean_of(asked.iter().take(asked.len() / 10), |query| query.run(&db))?;
                let distribution = measure::distribution_of(&db, asked.iter(), |query| query.run(&db))?;
                let means = means.get(usize::from(!consulted)).map_or(&[][..], Vec::as_slice);
                report.rows.push(queries.row(&loaded, consulted, means, &distribution));
            }
            db.stats().reports.iter().for_each(output::message);
            db.close()?;
        }
        bar.finish_and_clear();
        report.stores.push(loaded);
        Ok(())
    }
}

impl Queries {
    /// Returns all queries if the filters are `consulted`. Otherwise returns the first twentieth.
    fn first(&self, consulted: bool) -> &[Query] {
        let len = if consulted { self.all.len() } else { self.all.len().div_ceil(IGNORED_DIVISOR) };
        self.all.get(..len).unwrap_or_default()
    }

    fn row(&self, loaded: &StoreReport, consulted: bool, means: &[Mean], distribution: &Distribution) -> RangeRow {
        let Distribution { latencies, stats, .. } = distribution;
        let queries = self.first(consulted).len() as u64;
        let per_query = |count: f64| count / queries.max(1) as f64;
        let probes = self.all.first().map_or_else(ProbeStats::default, |query| query.probes(stats));
        let of_clock = |mean: &Mean| if cfg!(unix) { mean.cpu_ns } else { mean.wall_ns };
        RangeRow {
            filter: loaded.filter.clone(),
            query: self.name.to_owned(),
            range_len: self.range_len,
            filters_consulted: consulted,
            runs: loaded.runs,
            queries,
            mean_ns: median(means.iter().map(of_clock).collect()),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            block_reads_per_query: per_query((stats.total.block_reads + stats.scan_block_reads) as f64),
            probes_per_query: per_query(probes.probes as f64),
            expected_false_positives_per_query: per_query(probes.expected_false_positives),
            false_positive_rate: probes.false_positive_rate(),
            expected_false_positive_rate: probes.expected_fpr(),
            bits_per_key: loaded.bits_per_key,
        }
    }
}

const COLUMNS: u64 = 10;
/// The maximum number of attempts to find a range without a key.
const TRIES_MAX: u32 = 10_000;

/// The positions of the empty ranges among the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anywhere between the smallest and the largest key.
    Uniform,
    /// Beginning at the integer after a loaded key.
    Beside,
}

impl Place {
    const ALL: [Self; 2] = [Self::Uniform, Self::Beside];

    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Beside => "beside a key",
        }
    }
}

/// Distinct random integers, in ascending order.
struct Integers(Vec<u64>);

impl Integers {
    /// Draws `count` integers. The same seed gives the same integers.
    fn new(count: u64, seed: u64) -> Self {
        // `mix` is a bijection, so all numbers are distinct.
        let mut all: Vec<u64> = (0..count).map(|i| mix(i ^ mix(seed))).collect();
        all.sort_unstable();
        Self(all)
    }

    fn keys(&self) -> Strings {
        let mut keys = Strings::default();
        self.0.iter().for_each(|&integer| keys.push(&key(integer)));
        keys
    }

    /// Draws `count` ranges of `range_len` integers that contain no key. Returns the first and the
    /// last integer of each range as big-endian bytes. Returns an error if [`TRIES_MAX`] attempts
    /// find no range.
    fn empty_ranges(&self, place: Place, range_len: u64, count: u64, seed: u64) -> Outcome<Vec<([u8; 8], [u8; 8])>> {
        let mut random = Random::new(seed);
        let (Some(&first), Some(&last)) = (self.0.first(), self.0.last()) else { return Ok(Vec::new()) };
        let mut draw = || {
            let from = match place {
                Place::Uniform => first + 1 + random.below(last - first),
                Place::Beside => {
                    let index = usize::try_from(random.below(self.0.len() as u64 - 1)).unwrap_or_default();
                    self.0.get(index).map_or(first, |&integer| integer) + 1
                }
            };
            let to = from.checked_add(range_len - 1)?;
            let next = self.0.get(self.0.partition_point(|&integer| integer < from))?;
            (to < *next).then(|| (key(from), key(to)))
        };
        (0..count)
            .map(|_| {
                (0..TRIES_MAX).find_map(|_| draw()).ok_or_else(|| {
                    Failure::Message(format!(
                        "--length {range_len}: cannot find ranges of this length without a key; give a smaller number"
                    ))
                })
            })
            .collect()
    }
}

/// Returns the key of an integer: its eight bytes, big-endian.
#[expect(clippy::big_endian_bytes, reason = "the order of such keys is that of the integers")]
fn key(integer: u64) -> [u8; 8] {
    integer.to_be_bytes()
}

/// Returns the keys of `count / COLUMNS` rows, [`COLUMNS`] keys for each row.
fn rows(count: u64, seed: u64) -> Strings {
    let mut keys = Strings::default();
    for number in 0..count / COLUMNS {
        let row = row(number, seed);
        (0..COLUMNS).for_each(|column| keys.push(&[row.as_slice(), format!("{column}/value").as_bytes()].concat()));
    }
    keys
}

/// Returns the prefixes of `count` rows that are absent from the keys of `rows(loaded, seed)`. They
/// are spread over the same key space as the loaded rows.
fn absent_rows(count: u64, loaded: u64, seed: u64) -> Vec<Vec<u8>> {
    let first = loaded / COLUMNS;
    (first..first + count).map(|number| row(number, seed)).collect()
}

fn row(number: u64, seed: u64) -> Vec<u8> {
    format!("{:016x}/", mix(number ^ mix(seed))).into_bytes()
}
