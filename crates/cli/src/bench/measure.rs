//! Draws the keys of lookups, and measures a store in two passes. The first pass gives mean times,
//! on the CPU clock of the thread and on the wall clock. The second pass gives the latency
//! distribution on the wall clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::source::{Random, Source, Strings, fill_value};
use crate::interrupt;
use crate::prelude::*;
use filterblock_store::lsm::{Db, Stats};

/// The maximum number of keys in one `multi_get`.
const MULTI_GET_LEN: usize = 32;
/// The longest recorded latency, one minute. Longer latencies count as one minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// The kind of keys that are looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Absent keys between the smallest and the largest loaded key.
    Absent,
    /// Present keys.
    Present,
    /// Half absent and half present keys, in random order.
    Mixed,
}

impl Workload {
    pub const ALL: [Self; 3] = [Self::Absent, Self::Present, Self::Mixed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present => "present",
            Self::Mixed => "mixed",
        }
    }
}

/// The keys of a workload. They are drawn before any clock runs.
pub struct Lookups {
    pub workload: Workload,
    keys: Strings,
    /// For each key, whether it was loaded.
    loaded: Vec<bool>,
}

impl Lookups {
    /// Draws `len` lookups. The same arguments give the same lookups.
    pub fn new(source: &Source, workload: Workload, len: u64, seed: u64) -> Outcome<Self> {
        let random = &mut Random::new(seed);
        let (keys, loaded) = match workload {
            Workload::Absent => all(source.absent(len, random)?, false),
            Workload::Present => all(source.present(len, random), true),
            Workload::Mixed => {
                let present = source.present(len / 2, random);
                let absent = source.absent(len - len / 2, random)?;
                interleave(&present, &absent, random)
            }
        };
        Ok(Self { workload, keys, loaded })
    }

    pub fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    fn first(&self, len: u64) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Returns how many of the first `len` keys were loaded but not found, if the store found
    /// `found` of them. The number is too small if the store also found a key that was not loaded.
    /// Returns an error if `found` exceeds the number of loaded keys among the first `len`.
    fn lost(&self, len: u64, found: u64) -> Outcome<u64> {
        let first = self.loaded.iter().take(usize::try_from(len).unwrap_or(usize::MAX));
        let loaded = first.filter(|&&loaded| loaded).count() as u64;
        let invented = || {
            Failure::Message(format!(
                "the store found {found} of the keys that were looked up, but only {loaded} of them had been loaded; \
                 report this defect"
            ))
        };
        loaded.checked_sub(found).ok_or_else(invented)
    }
}

fn all(keys: Strings, loaded: bool) -> (Strings, Vec<bool>) {
    let loaded = vec![loaded; keys.len()];
    (keys, loaded)
}

/// Merges two lists in random order. In a regular order, the branch predictor could learn which
/// kind of key is next.
fn interleave(present: &Strings, absent: &Strings, random: &mut Random) -> (Strings, Vec<bool>) {
    let (mut merged, mut loaded) = (Strings::default(), Vec::new());
    let (mut present, mut absent) = (present.iter().peekable(), absent.iter().peekable());
    while present.peek().is_some() || absent.peek().is_some() {
        let take_present = absent.peek().is_none() || (present.peek().is_some() && random.next() & 1 == 0);
        let next = if take_present { present.next() } else { absent.next() };
        merged.push(next.unwrap_or_default());
        loaded.push(take_present);
    }
    (merged, loaded)
}

/// The mean time per lookup, on two clocks.
#[derive(Clone, Copy)]
pub struct Mean {
    pub cpu_ns: f64,
    pub wall_ns: f64,
    /// The number of lookups of loaded keys that found nothing. Only [`mean`] counts them.
    pub lost: u64,
}

#[cfg(unix)]
fn thread_cpu_time() -> Duration {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // The CPU time of a thread is never negative, so the conversions succeed.
    Duration::new(u64::try_from(cpu.tv_sec).unwrap_or(0), u32::try_from(cpu.tv_nsec).unwrap_or(0))
}

/// Returns zero. Outside Unix, reports use the wall clock for `mean_ns`.
#[cfg(not(unix))]
fn thread_cpu_time() -> Duration {
    Duration::ZERO
}

/// A reading of both clocks.
#[derive(Clone, Copy)]
struct Clocks {
    cpu: Duration,
    wall: Instant,
}

impl Clocks {
    fn now() -> Self {
        Self { cpu: thread_cpu_time(), wall: Instant::now() }
    }

    fn mean_since_start(self, lookups: u64) -> Mean {
        let now = Self::now();
        let per_lookup = |time: Duration| time.as_secs_f64() * 1e9 / lookups.max(1) as f64;
        let cpu_ns = per_lookup(now.cpu.saturating_sub(self.cpu));
        Mean { cpu_ns, wall_ns: per_lookup(now.wall - self.wall), lost: 0 }
    }
}

/// Runs the first `len` lookups in a plain loop. Returns the mean time of one, and counts
/// [`Mean::lost`].
pub fn mean(db: &Db, lookups: &Lookups, len: u64) -> Outcome<Mean> {
    let len = len.min(lookups.len());
    let mut found = 0;
    let mean = mean_of(lookups.first(len), |key| {
        found += u64::from(black_box(db.get(key)?).is_some());
        Ok(())
    })?;
    Ok(Mean { lost: lookups.lost(len, found)?, ..mean })
}

/// Runs queries in a plain loop and returns the mean time of one.
pub fn mean_of<Q>(queries: impl Iterator<Item = Q>, mut query: impl FnMut(Q) -> Outcome<()>) -> Outcome<Mean> {
    let mut len = 0;
    let clocks = Clocks::now();
    for (step, next) in queries.enumerate() {
        interrupt::check_at(step)?;
        query(next)?;
        len += 1;
    }
    Ok(clocks.mean_since_start(len))
}

/// Runs the first `len` lookups by `multi_get` and returns the mean time per key.
pub fn batch_mean(db: &Db, lookups: &Lookups, len: u64) -> Outcome<Mean> {
    let keys: Vec<&[u8]> = lookups.first(len).collect();
    let clocks = Clocks::now();
    for batch in keys.chunks(MULTI_GET_LEN) {
        interrupt::check()?;
        black_box(db.multi_get(batch)?);
    }
    Ok(clocks.mean_since_start(keys.len() as u64))
}

/// The result of the second pass.
pub struct Distribution {
    pub latencies: Histogram<u64>,
    pub stats: Stats,
    /// Bytes that the operating system read from the device during the pass, including read-ahead.
    /// `None` if the system does not report them.
    pub device_bytes: Option<u64>,
}

/// Resets the counters of the store and times each of the first `len` lookups.
pub fn distribution(db: &Db, lookups: &Lookups, len: u64) -> Outcome<Distribution> {
    distribution_of(db, lookups.first(len), |key| {
        black_box(db.get(key)?);
        Ok(())
    })
}

/// Resets the counters of the store and times each query.
pub fn distribution_of<Q>(
    db: &Db,
    queries: impl Iterator<Item = Q>,
    mut query: impl FnMut(Q) -> Outcome<()>,
) -> Outcome<Distribution> {
    let mut latencies = new_histogram()?;
    db.reset_stats();
    let device_bytes_before = device_bytes_read();
    for next in queries {
        interrupt::check()?;
        let start = Instant::now();
        query(next)?;
        let latency = start.elapsed();
        latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS));
    }
    let device_bytes = device_bytes_read().zip(device_bytes_before).map(|(after, before)| after - before);
    Ok(Distribution { latencies, stats: db.stats(), device_bytes })
}

/// Returns the bytes that the kernel has read from devices for this process, including read-ahead.
/// Returns `None` if the system does not report them.
fn device_bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

pub fn new_histogram() -> Outcome<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).map_err(|error| Failure::Message(error.to_string()))
}

/// Looks up every loaded key, and calls `step` after each. Returns the number of keys whose value
/// is missing or wrong.
pub fn false_negatives(db: &Db, source: &Source, value_len_bytes: usize, mut step: impl FnMut()) -> Outcome<u64> {
    let mut lost = 0;
    let mut expected = vec![0; value_len_bytes];
    source.for_each(|key| {
        fill_value(key, &mut expected);
        lost += u64::from(db.get(key)?.as_deref() != Some(expected.as_slice()));
        step();
        interrupt::check()
    })?;
    Ok(lost)
}

/// Measures the time in ns that reading the clock adds to each measured latency.
pub fn clock_cost_ns() -> Outcome<f64> {
    const GROUP: u32 = 100;
    let mut costs = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        for _ in 0..GROUP {
            black_box(black_box(Instant::now()).elapsed());
        }
        costs.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(GROUP));
    }
    // Each step of the inner loop reads the clock twice. A latency includes half of the time of
    // both readings: the end of the first reading and the start of the second.
    Ok(median(costs) / 2.0)
}

/// Returns the median of an odd number of values, the upper median of an even number, and NaN
/// without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
