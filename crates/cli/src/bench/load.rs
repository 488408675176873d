//! `filterblock bench load`: loads a store in random order, reopens and checks it, and reports the
//! measurements of puts, gets and opens.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::load_report::{Latencies, LoadRecord, LoadReport, LoadSettings, Loaded};
use super::measure::{median, new_histogram};
use super::source::{KEYS_MIN, Random, Source, fill_value};
use super::store::{new_dir, runs};
use crate::filter_choice::FilterChoice;
use crate::interrupt;
use crate::machine::{Machine, Versions};
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::whole;
use filterblock_store::lsm::{Db, Options};

/// The shortest interval between two samples of the size of the directory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The number of opens of the closed store that are measured. The reported time is the median.
const REOPENS: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  filterblock bench load
  filterblock bench load --count 20000000 --dir /mnt/disk
  filterblock bench load --count 100000000 --value-size 16 --gets-per-second 0 --json load.json
  filterblock bench load --json loads.json && filterblock bench load --count 5000000 --json loads.json --append
  filterblock bench report loads.json

The benchmark puts distinct keys of 16 bytes in random order, from one thread and with a buffered write-ahead log. \
Then the store is flushed and settles: it compacts until nothing is due. Until then another thread makes gets at the \
rate of --gets-per-second, about half for loaded keys and half for absent keys, and checks each answer. \
At the end the store is opened again five times, and every loaded key (or --checks random ones) is looked up.

The report:
  puts per second       from the first put to the return of the last one
  put, get              percentiles and maximum of the latency in us of wall time. The latency of a put includes the time \
to make its key and value
  stalls                times that a put or the last flush had to wait for a flush or a compaction, and the total time of these waits
  delays                puts that were slowed down to avoid a stall, each by at most 32 ms, and the total time of these waits
  settling              time from the last put until no flush and no compaction is due
  write amplification   bytes of all SST files that flushes and compactions wrote, until the store has settled, per byte of keys \
and values. The write-ahead log is not counted; with the default value size it adds about 1.2
  space amplification   bytes of the SST files of the settled store per byte of keys and values. The second number counts the \
whole directory, with logs and replaced SST files. It is the \
largest of at most ten samples a second until the store has settled
  runs                  sorted runs of the settled store
  reopen                median time of five opens of the closed store
  memory                largest resident memory of the process. The benchmark itself takes about 10 MB of it

The defaults take about five seconds and up to 350 MB of disk. The store lies in a temporary directory, which is removed at the end \
and after Ctrl-C.

See `filterblock build --help` for --force, which applies to --json.

Exit status: 0 done; 1 an answer was wrong; 2 an error; 128 + N when signal N ends the command (130 for Ctrl-C).";

/// The maximum number of keys. With values of the default size, this many pairs take 116 GB.
const COUNT_MAX: u64 = 1_000_000_000;
const VALUE_LEN_BYTES_MAX: usize = 1 << 20;
const GETS_PER_SECOND_MAX: u64 = 1_000_000;

/// Measure a load: rate, amplification, stalls, latencies
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The number of keys to load
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole(KEYS_MIN..=COUNT_MAX, 1_000_000))]
    count: u64,
    /// The size of each value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = whole(0..=VALUE_LEN_BYTES_MAX, 100))]
    value_size: usize,
    /// The number of gets per second while the store is loaded and settles; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole(0..=GETS_PER_SECOND_MAX, 1_000))]
    gets_per_second: u64,
    /// The number of loaded keys to look up at the end [default: all]
    #[arg(long, value_name = "N", value_parser = whole(0..=COUNT_MAX, 1_000_000))]
    checks: Option<u64>,
    /// Create the store in the existing directory DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The filter or policy of the store, such as blocked-bloom:10; see `bench point-miss --help`
    #[arg(long, value_name = "SPEC", default_value = "by-level")]
    filter: FilterChoice,
    /// The seed of the keys, of the random gets and of the filters
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(0..=u64::MAX, 1))]
    seed: u64,
    /// Write the results as JSON to FILE; `-` prints them instead of the report
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the file of --json if it exists
    #[arg(long)]
    force: bool,
    /// Add the results to the loads in the file of --json
    #[arg(long, requires = "json", conflicts_with = "force")]
    append: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    // A benchmark may take minutes, so the outputs are checked first.
    output::check_stdout()?;
    let to_stdout = arguments.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let json = arguments.json.as_deref().filter(|_| !to_stdout);
    let file = json.map(|path| NewFile::create(path, arguments.force || arguments.append)).transpose()?;
    let mut record = LoadRecord::default();
    if arguments.append {
        let Some(path) = json else {
            return fail("--append: standard output has no earlier loads; give --json a file");
        };
        record = LoadRecord::read_or_empty(path)?;
    }
    let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let source = Source::mixed(arguments.count, arguments.seed);
    let megabytes = (arguments.count as f64 * (16 + arguments.value_size) as f64 / 1e6).max(1.0);
    output::message(format!(
        "a store of about {} MB of keys and values in {}; during the load it usually takes up to three times as much space",
        text::thousands(text::whole(megabytes)),
        parent.display()
    ));

    let load = interrupt::gracefully(|| {
        let dir = new_dir(&parent)?;
        let dir = dir.path().join("store");
        let db = Db::open(&dir, arguments.options())?;
        Load { arguments, source: &source, dir, db }.run()
    })?;
    let settings = LoadSettings {
        keys: arguments.count,
        key_len_bytes: 16,
        value_len_bytes: arguments.value_size,
        gets_per_second: arguments.gets_per_second,
        filter: arguments.filter.to_string(),
        seed: arguments.seed,
    };
    let report = LoadReport { load, settings, machine: Machine::here(), versions: Versions::here() };
    let (text, wrong_answers) = (report.to_text(), report.load.wrong_answers);
    record.loads.push(report);
    if let Some(file) = file {
        file.publish(output::json(&record)?.as_bytes())?;
    }

    output::report(to_stdout, &record, || text)?;
    Ok(if wrong_answers == 0 { Exit::Success } else { Exit::Negative })
}

impl Arguments {
    fn options(&self) -> Options {
        Options { filter: Some(self.filter.policy()), hash_seed: Some(self.seed), ..Options::default() }
    }

    fn num_checks(&self) -> u64 {
        self.checks.unwrap_or(self.count).min(self.count)
    }

    /// Opens and closes the store [`REOPENS`] times. Returns the median time of an open in ms.
    fn reopen_ms(&self, dir: &Path) -> Outcome<f64> {
        let mut times = Vec::new();
        for _ in 0..REOPENS {
            let start = Instant::now();
            let db = Db::open(dir, self.options())?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            db.close()?;
        }
        Ok(median(times))
    }

    /// Looks up loaded keys: all of them, or random ones, which may repeat. Returns the number of
    /// lookups whose value is missing or wrong.
    fn wrong_answers(&self, source: &Source, dir: &Path) -> Outcome<u64> {
        let (db, checks) = (Db::open(dir, self.options())?, self.num_checks());
        let bar = progress::bar(Some(checks), "looking up keys");
        let mut value = vec![0; self.value_size];
        let (mut wrong, mut random) = (0, Random::new(self.seed.wrapping_add(2)));
        for nth in 0..checks {
            interrupt::check()?;
            let index = if checks == source.len() { nth } else { random.below(source.len()) };
            let Some(key) = source.generated(index) else { continue };
            fill_value(&key, &mut value);
            wrong += u64::from(db.get(&key)?.as_deref() != Some(value.as_slice()));
            progress::tick(&bar, nth);
        }
        bar.finish_and_clear();
        db.close()?;
        Ok(wrong)
    }
}

struct Load<'a> {
    arguments: &'a Arguments,
    source: &'a Source,
    dir: PathBuf,
    db: Db,
}

/// The state that the writing thread shares with the reading thread.
#[derive(Default)]
struct Shared {
    loaded: AtomicU64,
    is_done: AtomicBool,
}

/// The measurements of the reading thread.
struct Seen {
    latencies: Histogram<u64>,
    wrong_answers: u64,
    peak_dir_bytes: u64,
}

impl Load<'_> {
    /// Loads, settles, reopens and checks the store. Returns the measurements.
    fn run(self) -> Outcome<Loaded> {
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
        let Self { arguments, source, dir, db } = self;
        db.close()?;
        loaded.reopen_ms = arguments.reopen_ms(&dir)?;
        loaded.wrong_answers += arguments.wrong_answers(source, &dir)?;
        Ok(loaded)
    }

    /// Puts all keys, flushes the store, and waits until it has settled. Returns the measurements
    /// of these steps.
    fn write(&self, shared: &Shared) -> Outcome<Loaded> {
        let (source, value_len_bytes) = (self.source, self.arguments.value_size);
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
            checked_keys: self.arguments.num_checks(),
            wrong_answers: 0,
        })
    }

    /// Makes gets until the writing thread has finished, checks their answers, and samples the size
    /// of the directory. Gets are spread evenly over time; a late get starts immediately. If the
    /// plan has 0 gets per second, only samples the size.
    fn read(&self, shared: &Shared) -> Outcome<Seen> {
        let mut seen = Seen { latencies: new_histogram()?, wrong_answers: 0, peak_dir_bytes: 0 };
        let mut random = Random::new(self.arguments.seed.wrapping_add(1));
        let interval = match self.arguments.gets_per_second {
            0 => SAMPLE_INTERVAL,
            rate => Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX),
        };
        let mut value = vec![0; self.arguments.value_size];
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
            if self.arguments.gets_per_second == 0 || num_loaded == 0 {
                continue;
            }
            // About half of the gets look up an absent key: a generated key whose index is at least
            // `source.len()`.
            let is_loaded = random.next() & 1 == 0;
            let index = if is_loaded { random.below(num_loaded) } else { self.source.len() + random.below(1 << 40) };
            let Some(key) = self.source.generated(index) else { continue };
            let start = Instant::now();
            let found = self.db.get(&key)?;
            seen.latencies.saturating_record(nanos(start.elapsed()));
            fill_value(&key, &mut value);
            seen.wrong_answers += u64::from(found.as_deref() != is_loaded.then_some(value.as_slice()));
        }
        Ok(seen)
    }
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
