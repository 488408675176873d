//! Runs `bench load`: loads, reopens and checks a store, and measures puts, gets and opens.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::super::failure::{Failure, Outcome};
use super::super::{interrupt, progress};
use super::load_report::{Latencies, Loaded};
use super::measure::{median, new_histogram};
use super::source::{Random, Source, fill_value};
use super::store::runs;
use crate::filter_choice::FilterChoice;
use filterblock_store::lsm::{Db, Options};

/// The shortest interval between two samples of the size of the directory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The number of opens of the closed store that are measured. The reported time is the median.
const REOPENS: u32 = 5;

/// The settings of a load.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub source: &'a Source,
    pub value_len_bytes: usize,
    pub gets_per_second: u64,
    /// The number of loaded keys to look up at the end.
    pub checks: u64,
    pub filter: FilterChoice,
    pub seed: u64,
}

/// A load of one store.
#[derive(Debug)]
pub struct Load<'a> {
    plan: Plan<'a>,
    dir: PathBuf,
    db: Db,
}

/// The state that the writing thread shares with the reading thread.
#[derive(Debug, Default)]
struct Shared {
    loaded: AtomicU64,
    is_done: AtomicBool,
}

/// The measurements of the reading thread.
#[derive(Debug)]
struct Seen {
    latencies: Histogram<u64>,
    wrong_answers: u64,
    peak_dir_bytes: u64,
}

impl<'a> Load<'a> {
    pub fn new(plan: Plan<'a>, dir: &Path) -> Outcome<Self> {
        let db = Db::open(dir, options(&plan))?;
        Ok(Self { plan, dir: dir.to_path_buf(), db })
    }

    /// Loads, settles, reopens and checks the store. Returns the measurements.
    pub fn run(self) -> Outcome<Loaded> {
        let shared = Shared::default();
        let (written, seen) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read(&shared));
            let written = self.write(&shared);
            shared.is_done.store(true, Ordering::Release);
            let seen = reader
                .join()
                .map_err(|_| Failure::Message("the reading thread panicked; report this defect".into()))?;
            Ok::<_, Failure>((written?, seen?))
        })?;
        let mut loaded = written;
        loaded.get = latencies_of(&seen.latencies);
        loaded.peak_dir_bytes = seen.peak_dir_bytes.max(loaded.store_bytes);
        loaded.wrong_answers = seen.wrong_answers;
        loaded.peak_memory_bytes = peak_memory_bytes();
        let Self { plan, dir, db } = self;
        db.close()?;
        loaded.reopen_ms = reopen_ms(&plan, &dir)?;
        loaded.wrong_answers += wrong_answers(&plan, &dir)?;
        Ok(loaded)
    }

    /// Puts all keys, flushes the store, and waits until it has settled. Returns the measurements
    /// of these steps.
    fn write(&self, shared: &Shared) -> Outcome<Loaded> {
        let Plan { source, value_len_bytes, .. } = self.plan;
        let bar = progress::bar(Some(source.len()), "loading");
        let mut value = vec![0; value_len_bytes];
        let mut latencies = new_histogram()?;
        let mut loaded = 0u64;
        let start = Instant::now();
        // The loop reads the clock only once per put, because each reading slows the load. A
        // recorded latency thus includes the whole step of the loop, for example making the key and
        // the value.
        let mut last = start;
        source.for_each(|key| {
            fill_value(key, &mut value);
            self.db.put(key, &value)?;
            let now = Instant::now();
            latencies.saturating_record(nanos(now - last));
            last = now;
            loaded += 1;
            shared.loaded.store(loaded, Ordering::Release);
            progress::tick(&bar, loaded);
            interrupt::check()
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        let at_last_put = self.db.stats();
        bar.set_message("settling");
        let settling = Instant::now();
        self.db.flush()?;
        self.db.wait_idle()?;
        let settle_seconds = settling.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let stats = self.db.stats();
        let user_bytes = source.len_bytes() + source.len() * value_len_bytes as u64;
        let amplification = |bytes: u64| bytes as f64 / user_bytes.max(1) as f64;
        Ok(Loaded {
            load_seconds,
            puts_per_second: source.len() as f64 / load_seconds,
            settle_seconds,
            put: latencies_of(&latencies),
            get: latencies_of(&new_histogram()?),
            stalls: stats.write_stalls,
            stall_seconds: stats.write_stall_nanos as f64 / 1e9,
            delays: stats.write_delays,
            delay_seconds: stats.write_delay_nanos as f64 / 1e9,
            flushes: stats.flushes,
            compactions: stats.compactions,
            user_bytes,
            flushed_bytes: stats.flushed_bytes,
            compacted_bytes: stats.compacted_bytes,
            write_amplification: amplification(stats.flushed_bytes + stats.compacted_bytes),
            write_amplification_at_last_put: amplification(at_last_put.flushed_bytes + at_last_put.compacted_bytes),
            runs_at_last_put: runs(&at_last_put),
            store_bytes: stats.total.bytes,
            filter_bytes: stats.total.filter_bytes,
            peak_dir_bytes: 0,
            runs: runs(&stats),
            tables: stats.total.tables,
            tables_by_level: stats.levels.iter().map(|level| level.tables).collect(),
            reopen_ms: 0.0,
            peak_memory_bytes: None,
            checked_keys: self.plan.checks,
            wrong_answers: 0,
        })
    }

    /// Makes gets until the writing thread has finished, checks their answers, and samples the size
    /// of the directory. Gets are spread evenly over time; a late get starts immediately. If the
    /// plan has 0 gets per second, only samples the size.
    fn read(&self, shared: &Shared) -> Outcome<Seen> {
        let mut seen = Seen { latencies: new_histogram()?, wrong_answers: 0, peak_dir_bytes: 0 };
        let mut random = Random::new(self.plan.seed.wrapping_add(1));
        let interval = match self.plan.gets_per_second {
            0 => SAMPLE_INTERVAL,
            rate => Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX),
        };
        let mut value = vec![0; self.plan.value_len_bytes];
        let (mut next, mut next_sample) = (Instant::now(), Instant::now());
        while !shared.is_done.load(Ordering::Acquire) {
            let now = Instant::now();
            if now >= next_sample {
                seen.peak_dir_bytes = seen.peak_dir_bytes.max(dir_len_bytes(&self.dir));
                next_sample = now + SAMPLE_INTERVAL;
            }
            std::thread::sleep(next.saturating_duration_since(now));
            next += interval;
            let num_loaded = shared.loaded.load(Ordering::Acquire);
            if self.plan.gets_per_second == 0 || num_loaded == 0 {
                continue;
            }
            // About half of the gets look up an absent key: a generated key whose index is at least
            // `source.len()`.
            let is_loaded = random.next() & 1 == 0;
            let index =
                if is_loaded { random.below(num_loaded) } else { self.plan.source.len() + random.below(1 << 40) };
            let Some(key) = self.plan.source.generated(index) else { continue };
            let start = Instant::now();
            let found = self.db.get(&key)?;
            seen.latencies.saturating_record(nanos(start.elapsed()));
            fill_value(&key, &mut value);
            seen.wrong_answers += u64::from(found.as_deref() != is_loaded.then_some(value.as_slice()));
        }
        Ok(seen)
    }
}

fn options(plan: &Plan<'_>) -> Options {
    Options { filter: Some(plan.filter.policy()), hash_seed: Some(plan.seed), ..Options::default() }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn latencies_of(histogram: &Histogram<u64>) -> Latencies {
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latencies {
        count: histogram.len(),
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: histogram.max() as f64 / 1e3,
    }
}

/// Returns the total length in bytes of the files in a directory. A file that has been deleted
/// meanwhile counts as 0, and so does an unreadable directory.
fn dir_len_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Returns the peak resident memory of this process so far. Returns `None` if the system does not
/// report it.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Opens and closes the store [`REOPENS`] times. Returns the median time of an open in ms.
fn reopen_ms(plan: &Plan<'_>, dir: &Path) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..REOPENS {
        let start = Instant::now();
        let db = Db::open(dir, options(plan))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        db.close()?;
    }
    Ok(median(times))
}

/// Looks up `plan.checks` loaded keys: all of them, or random ones, which may repeat. Returns the
/// number of lookups whose value is missing or wrong.
fn wrong_answers(plan: &Plan<'_>, dir: &Path) -> Outcome<u64> {
    let db = Db::open(dir, options(plan))?;
    let bar = progress::bar(Some(plan.checks), "looking up keys");
    let mut value = vec![0; plan.value_len_bytes];
    let (mut wrong, mut random) = (0, Random::new(plan.seed.wrapping_add(2)));
    for nth in 0..plan.checks {
        interrupt::check()?;
        let index = if plan.checks == plan.source.len() { nth } else { random.below(plan.source.len()) };
        let Some(key) = plan.source.generated(index) else { continue };
        fill_value(&key, &mut value);
        wrong += u64::from(db.get(&key)?.as_deref() != Some(value.as_slice()));
        progress::tick(&bar, nth);
    }
    bar.finish_and_clear();
    db.close()?;
    Ok(wrong)
}
