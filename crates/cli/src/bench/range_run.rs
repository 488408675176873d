//! Runs `bench range-miss`: one store for each range filter, and one store of rows.

use std::hint::black_box;
use std::path::PathBuf;

use super::super::failure::Outcome;
use super::super::machine::{Machine, Versions};
use super::super::{output, progress};
use super::measure::{self, Distribution, Mean, median};
use super::range_queries::{Integers, Place, absent_rows, rows};
use super::range_report::{RangeReport, RangeRow, RangeSettings};
use super::report::StoreReport;
use super::run::{ask_every_key, filter_use, new_dir};
use super::source::Source;
use super::store::{Layout, Setup, Store};
use crate::filter_choice::FilterChoice;
use crate::range_choice::RangeChoice;
use filterblock::Verify;
use filterblock_store::lsm::{Db, PrefixChoice, ProbeStats, Stats};
use filterblock_store::storage::IoMode;

/// The divisor for the number of queries without filters. Such queries read blocks and are slow.
const IGNORED_DIVISOR: usize = 20;

/// The stores and queries to measure.
#[derive(Debug)]
pub struct RangePlan {
    pub filter: FilterChoice,
    pub range_filters: Vec<RangeChoice>,
    pub prefix: PrefixChoice,
    pub range_lens: Vec<u64>,
    pub count: u64,
    pub value_len_bytes: usize,
    pub queries: u64,
    pub rounds: u32,
    pub seed: u64,
    /// The parent directory of the stores.
    pub dir: PathBuf,
}

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

pub fn run(plan: &RangePlan, settings: RangeSettings) -> Outcome<RangeReport> {
    let (machine, versions) = (Machine::here(), Versions::here());
    let mut report =
        RangeReport { rows: Vec::new(), stores: Vec::new(), false_negatives: 0, machine, versions, settings };
    let integers = Integers::new(plan.count, plan.seed);
    let mut queries = Vec::new();
    for (&range_len, seed) in plan.range_lens.iter().zip(1..) {
        for place in Place::ALL {
            let ranges = integers.empty_ranges(place, range_len, plan.queries, plan.seed.wrapping_add(seed))?;
            let all = ranges.into_iter().map(|(from, to)| Query::Scan(from, to)).collect();
            queries.push(Queries { name: place.name(), range_len: Some(range_len), all });
        }
    }
    let source = Source::listed(&integers.keys(), plan.seed);
    for range_filter in &plan.range_filters {
        measure_store(plan, &source, *range_filter, PrefixChoice::None, &queries, &mut report)?;
    }
    let source = Source::listed(&rows(plan.count, plan.seed), plan.seed);
    let absent = absent_rows(plan.queries, plan.count, plan.seed);
    let gets = absent.iter().map(|row| Query::Get([row.as_slice(), b"5/value"].concat())).collect();
    let scans = absent.into_iter().map(Query::ScanPrefix).collect();
    let queries = [
        Queries { name: "get in an absent row", range_len: None, all: gets },
        Queries { name: "scan of an absent row", range_len: None, all: scans },
    ];
    measure_store(plan, &source, RangeChoice::None, plan.prefix.clone(), &queries, &mut report)?;
    Ok(report)
}

fn measure_store(
    plan: &RangePlan,
    source: &Source,
    range_filter: RangeChoice,
    prefix: PrefixChoice,
    queries: &[Queries],
    report: &mut RangeReport,
) -> Outcome<()> {
    let (io, verify) = (IoMode::default(), Verify::default());
    let (value_len_bytes, seed) = (plan.value_len_bytes, plan.seed);
    let (cold, filter_memory, run_map_trigger) = (false, None, None);
    let setup = Setup { source, value_len_bytes, seed, io, verify, cold, filter_memory, run_map_trigger };
    let dir = new_dir(&plan.dir)?;
    let place = dir.path().join("store");
    let store = Store { setup, dir: &place, filter: plan.filter, range_filter, prefix };
    let loaded = store.load(Layout::Runs(5))?;
    report.false_negatives += ask_every_key(&store)?;
    let bar = progress::bar(Some(u64::from(plan.rounds)), format!("measuring {}", loaded.filter));
    let mut means: Vec<Vec<Mean>> = queries.iter().flat_map(|_| [Vec::new(), Vec::new()]).collect();
    for _ in 0..plan.rounds {
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
