//! Runs `bench point-miss`: makes the stores and measures them in turn.

use std::path::{Path, PathBuf};

use super::super::failure::{Failure, Outcome};
use super::super::interrupt::Temporary;
use super::super::machine::{Machine, Versions};
use super::super::new_file::without_path;
use super::super::{output, progress};
use super::measure::{self, Distribution, Lookups, Mean, Workload, median};
use super::report::{Report, Row, Settings, StoreReport};
use super::store::{Layout, Setup, Store};
use crate::filter_choice::FilterChoice;
use crate::range_choice::RangeChoice;
use filterblock_store::lsm::{Db, FilterUse, PrefixChoice};
use filterblock_store::storage::IoMode;

/// The stores and workloads to measure.
#[derive(Debug)]
pub struct Plan<'a> {
    pub setup: Setup<'a>,
    pub filters: Vec<FilterChoice>,
    /// The layouts. [`Layout::Compacted`] follows [`Layout::AsFallen`].
    pub layouts: Vec<Layout>,
    /// The maximum number of gets in a measurement. Slow measurements make fewer gets.
    pub lookups: u64,
    pub rounds: u32,
    /// The parent directory of the stores.
    pub dir: PathBuf,
}

/// A running benchmark with its results.
#[derive(Debug)]
pub struct Bench<'a> {
    plan: Plan<'a>,
    lookups: Vec<Lookups>,
    pub report: Report,
}

struct Measured {
    workload: Workload,
    consulted: bool,
    lookups: u64,
    means: Vec<Mean>,
    batch_means: Vec<Mean>,
}

impl<'a> Bench<'a> {
    /// Prepares a benchmark and draws its lookup keys.
    pub fn new(plan: Plan<'a>, settings: Settings) -> Outcome<Self> {
        let (rows, stores) = (Vec::new(), Vec::new());
        let report = Report { rows, stores, machine: Machine::here(), versions: Versions::here(), settings };
        let mut bench = Self { plan, lookups: Vec::new(), report };
        for (workload, seed) in Workload::ALL.into_iter().zip(1..) {
            let len = bench.len_of(workload, true, 1);
            let seed = bench.plan.setup.seed.wrapping_add(seed);
            bench.lookups.push(Lookups::new(bench.plan.setup.source, workload, len, seed)?);
        }
        Ok(bench)
    }

    pub fn run(&mut self) -> Outcome<()> {
        self.plan.filters.clone().into_iter().try_for_each(|filter| self.measure_filter(filter))
    }

    /// Returns the number of lookups in a measurement of a store with `runs` sorted runs. Slow
    /// measurements make fewer lookups than --lookups, but at least the smaller of --lookups and
    /// 100.
    fn len_of(&self, workload: Workload, consulted: bool, runs: u64) -> u64 {
        let reads_blocks = !consulted || workload != Workload::Absent;
        let divisor = match () {
            () if self.plan.setup.cold => 500,
            () if reads_blocks && self.plan.setup.io == IoMode::Direct => 100,
            () if consulted && reads_blocks => 4,
            () if reads_blocks => 10,
            () => 1,
        };
        let runs = if consulted { 1 } else { runs.max(1) };
        (self.plan.lookups / (divisor * runs)).max(self.plan.lookups.min(100))
    }

    fn measure_filter(&mut self, filter: FilterChoice) -> Outcome<()> {
        let mut fallen = None;
        for layout in self.plan.layouts.clone() {
            // If the as-fallen layout is also measured, the compacted layout is made from the
            // as-fallen store, so that both layouts have the same history.
            let dir = match fallen.take() {
                Some(dir) if layout == Layout::Compacted => dir,
                _ => new_dir(&self.plan.dir)?,
            };
            let place = dir.path().join("store");
            let (range_filter, prefix) = (RangeChoice::None, PrefixChoice::None);
            let store = Store { setup: self.plan.setup, dir: &place, filter, range_filter, prefix };
            let loaded = if place.exists() { store.compact()? } else { store.load(layout)? };
            self.measure_store(&store, &loaded)?;
            fallen = (layout == Layout::AsFallen).then_some(dir);
        }
        Ok(())
    }

    fn measure_store(&mut self, store: &Store<'_>, loaded: &StoreReport) -> Outcome<()> {
        let lost = ask_every_key(store)?;
        let title = format!("measuring {} {}", store.filter, loaded.layout);
        let bar = progress::bar(Some(u64::from(self.plan.rounds) + 1), title);
        let mut all = Vec::new();
        for workload in Workload::ALL {
            for consulted in [true, false] {
                let lookups = self.len_of(workload, consulted, loaded.runs);
                all.push(Measured { workload, consulted, lookups, means: Vec::new(), batch_means: Vec::new() });
            }
        }
        for _ in 0..self.plan.rounds {
            self.take_means(store, &mut all)?;
            bar.inc(1);
        }
        for measured in &all {
            let distribution = self.take_distribution(store, measured)?;
            self.report.rows.push(self.row(loaded, measured, &distribution, lost));
        }
        bar.finish_and_clear();
        self.report.stores.push(loaded.clone());
        Ok(())
    }

    /// Runs one round of the first pass, with filters and without, so that a slow minute of the
    /// machine affects both.
    fn take_means(&self, store: &Store<'_>, all: &mut [Measured]) -> Outcome<()> {
        for consulted in [true, false] {
            let mut db = store.open(filter_use(consulted))?;
            for measured in all.iter_mut().filter(|measured| measured.consulted == consulted) {
                let Some(lookups) = self.lookups_of(measured.workload) else { continue };
                db = self.prepare(store, db, lookups, measured)?;
                measured.means.push(measure::mean(&db, lookups, measured.lookups)?);
                if measured.workload == Workload::Absent {
                    db = self.prepare(store, db, lookups, measured)?;
                    measured.batch_means.push(measure::batch_mean(&db, lookups, measured.lookups)?);
                }
            }
            db.close()?;
        }
        Ok(())
    }

    /// Warms up the store for a measurement. With `--cold`, reopens the store without cached
    /// pages instead.
    fn prepare(&self, store: &Store<'_>, db: Db, lookups: &Lookups, measured: &Measured) -> Outcome<Db> {
        if self.plan.setup.cold {
            db.close()?;
            return store.open(filter_use(measured.consulted));
        }
        measure::mean(&db, lookups, measured.lookups / 10)?;
        Ok(db)
    }

    /// Runs the second pass for one row.
    fn take_distribution(&self, store: &Store<'_>, measured: &Measured) -> Outcome<Distribution> {
        let Some(lookups) = self.lookups_of(measured.workload) else {
            return Err(Failure::Message("a workload has no lookups; report this defect".into()));
        };
        let db = store.open(filter_use(measured.consulted))?;
        let db = self.prepare(store, db, lookups, measured)?;
        let distribution = measure::distribution(&db, lookups, measured.lookups)?;
        distribution.stats.reports.iter().for_each(output::message);
        db.close()?;
        Ok(distribution)
    }

    fn lookups_of(&self, workload: Workload) -> Option<&Lookups> {
        self.lookups.iter().find(|lookups| lookups.workload == workload)
    }

    fn row(&self, loaded: &StoreReport, measured: &Measured, distribution: &Distribution, lost: u64) -> Row {
        let Distribution { latencies, stats, device_bytes } = distribution;
        let total = &stats.total;
        let cpu_mean_ns = median(measured.means.iter().map(|mean| mean.cpu_ns).collect());
        let wall_mean_ns = median(measured.means.iter().map(|mean| mean.wall_ns).collect());
        let waits = self.plan.setup.waits();
        let batch_means = measured.batch_means.iter().map(|mean| if waits { mean.wall_ns } else { mean.cpu_ns });
        let per_get = |count: f64| count / measured.lookups.max(1) as f64;
        Row {
            filter: loaded.filter.clone(),
            layout: loaded.layout.clone(),
            workload: measured.workload.name().into(),
            filters_consulted: measured.consulted,
            runs: loaded.runs,
            lookups: measured.lookups,
            mean_ns: if waits { wall_mean_ns } else { cpu_mean_ns },
            cpu_mean_ns,
            wall_mean_ns,
            batch_mean_ns: (!measured.batch_means.is_empty()).then(|| median(batch_means.collect())),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            p999_ns: latencies.value_at_quantile(0.999),
            gets_per_second: 1e9 / wall_mean_ns,
            block_reads_per_get: per_get(total.block_reads as f64),
            expected_false_positives_per_get: measured
                .consulted
                .then(|| per_get(total.points.expected_false_positives)),
            bytes_per_get: per_get(total.block_read_bytes as f64),
            device_bytes_per_get: device_bytes.map(|bytes| per_get(bytes as f64)),
            bits_per_key: loaded.bits_per_key,
            false_positive_rate: total.points.false_positive_rate(),
            expected_false_positive_rate: total.points.expected_fpr(),
            false_negatives: match measured.consulted {
                true => lost,
                false => measured.means.iter().map(|mean| mean.lost).max().unwrap_or(0),
            },
        }
    }
}

/// Creates a temporary directory in `parent`.
pub fn new_dir(parent: &Path) -> Outcome<Temporary<tempfile::TempDir>> {
    let mut builder = tempfile::Builder::new();
    Temporary::make(|| builder.prefix("filterblock-bench-").tempdir_in(parent))
        .map_err(|error| Failure::file(parent, without_path(error)))
}

/// Looks up each loaded key once with filters. Returns the number of keys whose value is missing or
/// wrong.
pub fn ask_every_key(store: &Store<'_>) -> Outcome<u64> {
    let title = format!("looking up every key of {}", store.filter);
    let bar = progress::bar(Some(store.setup.source.len()), title);
    let db = store.open(FilterUse::Consult)?;
    let mut asked = 0;
    let lost = measure::false_negatives(&db, store.setup.source, store.setup.value_len_bytes, || {
        asked += 1;
        progress::tick(&bar, asked);
    })?;
    bar.finish_and_clear();
    db.close()?;
    Ok(lost)
}

pub fn filter_use(consulted: bool) -> FilterUse {
    if consulted { FilterUse::Consult } else { FilterUse::Ignore }
}
