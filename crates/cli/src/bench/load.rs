//! `filterblock bench load`: loads a store in random order, reopens and checks it, and reports the
//! measurements.

use std::path::PathBuf;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::interrupt::Temporary;
use super::super::machine::{Machine, Versions};
use super::super::new_file::{NewFile, without_path};
use super::super::refused_value::whole;
use super::super::{interrupt, output, text};
use super::load_record::LoadRecord;
use super::load_report::{LoadReport, LoadSettings};
use super::load_run::{Load, Plan};
use super::source::{KEYS_MIN, Source};
use crate::filter_choice::FilterChoice;

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
#[derive(Debug, clap::Args)]
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
            return Err(Failure::Message("--append: standard output has no earlier loads; give --json a file".into()));
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
    let plan = Plan {
        source: &source,
        value_len_bytes: arguments.value_size,
        gets_per_second: arguments.gets_per_second,
        checks: arguments.checks.unwrap_or(arguments.count).min(arguments.count),
        filter: arguments.filter,
        seed: arguments.seed,
    };
    let load = interrupt::gracefully(|| {
        let dir = Temporary::make(|| tempfile::Builder::new().prefix("filterblock-bench-").tempdir_in(&parent))
            .map_err(|error| Failure::file(&parent, without_path(error)))?;
        Load::new(plan, &dir.path().join("store"))?.run()
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
    match to_stdout {
        true => output::print_json(&record)?,
        false => output::print(&text)?,
    }
    Ok(if wrong_answers == 0 { Exit::Success } else { Exit::Negative })
}
