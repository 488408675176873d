//! `filterblock db get`: prints the value of a key, or looks up all keys of a file.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::keys::{KeyFormat, KeyReader};
use super::super::output;
use super::super::text::{hex as hex_of, thousands};
use super::{Notation, StoreArguments, print_reports};
use filterblock_store::lsm::{Db, FilterUse, MAX_KEY_LEN_BYTES, Options, Stats};

/// The maximum number of keys in one `multi_get`.
const BATCH_LEN: usize = 32;

const EXAMPLES: &str = "\
Examples:
  filterblock db get store/ apple
  filterblock db get store/ --hex 6170706c65
  filterblock db get store/ --keys names.txt
  filterblock db get store/ --keys names.txt --count
  filterblock db get store/ --keys names.txt --count --ignore-filters

With --keys, each line of the output is a present key, a tab and its value.
With --json, there is a line for each key, such as {\"key\":\"apple\",\"value\":\"red\"}. The value of an absent key is null. \
A key or value that is not UTF-8 is in \"key_hex\" or \"value_hex\"; with --hex, all are.

The counts of --count:
  keys               lines of KEYFILE that are not empty
  found              keys with a value
  absent             keys without a value
  filter queries     a get queries the filter of each SST file whose range covers the key, until it finds the key
  filters said no    queries with the answer \"absent\"; each saved a search of an SST file
  false positives    answers \"maybe\" for keys that the SST file lacks
  damaged filters    searches of SST files because a filter is damaged or cannot be used
  data blocks read   reads from files; this command uses no block cache

Exit status: 0 all keys are present; 1 a key is absent; 2 an error.";

/// Print the value of a key and a newline; exits with 1 if a key is absent
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    notation: Notation,
    /// The key
    #[arg(required_unless_present = "keys")]
    key: Option<OsString>,
    /// Look up every line of a file; `-` is standard input
    #[arg(long, value_name = "KEYFILE", conflicts_with = "key")]
    keys: Option<PathBuf>,
    /// Take the lines of any KEYFILE, even of a Parquet file, an SST file, a compressed file or
    /// text in UTF-16
    #[arg(long, requires = "keys")]
    any_bytes: bool,
    /// Print counts of keys, filter answers and data blocks instead of values
    #[arg(long, requires = "keys", conflicts_with = "key")]
    count: bool,
    /// Print one JSON object per key, or the counts as JSON
    #[arg(long)]
    json: bool,
    /// Read without querying the filters, to compare the counts
    #[arg(long)]
    ignore_filters: bool,
}

/// The counts of `--count`.
#[derive(Debug, Default, Serialize)]
struct Counts {
    keys: u64,
    found: u64,
    absent: u64,
    filter_queries: u64,
    filters_said_no: u64,
    false_positives: u64,
    damaged_filters: u64,
    data_blocks_read: u64,
}

/// Runs `filterblock db get`.
pub fn run(arguments: &Arguments) -> Outcome {
    let filter_use = if arguments.ignore_filters { FilterUse::Ignore } else { FilterUse::Consult };
    let options = Options { create_if_missing: false, filter_use, ..Options::default() };
    match (&arguments.key, &arguments.keys) {
        (Some(key), _) => get_one(arguments, key, options),
        (None, Some(keys)) => get_all(arguments, keys, options),
        (None, None) => Err(Failure::Message("missing key; give KEY or --keys".into())),
    }
}

fn get_one(arguments: &Arguments, key: &OsStr, options: Options) -> Outcome {
    let notation = &arguments.notation;
    let key = notation.decode(key)?;
    let db = arguments.store.open_with(options)?;
    let value = db.get(&key)?;
    print_reports(&db);
    db.close()?;
    let mut out = output::stdout();
    let written = match &value {
        _ if arguments.json => print_pair(&mut out, notation.hex, &key, value.as_deref()),
        Some(value) => notation.write(&mut out, value).and_then(|()| out.write_all(b"\n")),
        None => Ok(()),
    };
    written.and_then(|()| out.flush()).map_err(Failure::stdout)?;
    Ok(if value.is_some() { Exit::Success } else { Exit::Negative })
}

/// Looks up the keys of a file in batches. Prints the pairs of present keys, or the counts.
fn get_all(arguments: &Arguments, keys: &Path, options: Options) -> Outcome {
    let format = KeyFormat { hex: arguments.notation.hex, any_bytes: arguments.any_bytes, ..KeyFormat::default() };
    let mut reader = KeyReader::open_questions(keys, format, MAX_KEY_LEN_BYTES)?.without_options();
    let db = arguments.store.open_with(options)?;
    let mut all = Lookups { arguments, db: &db, batch: Vec::new(), out: output::stdout(), counts: Counts::default() };
    while let Some(next) = reader.next_key()? {
        all.batch.push(next.key.to_vec());
        if all.batch.len() == BATCH_LEN {
            all.answer()?;
        }
    }
    all.answer()?;
    let Lookups { mut out, mut counts, .. } = all;
    out.flush().map_err(Failure::stdout)?;
    counts.add(&db.stats());
    print_reports(&db);
    db.close()?;
    match (arguments.count, arguments.json) {
        (true, true) => output::print_json(&counts)?,
        (true, false) => output::print(&counts.describe())?,
        (false, _) => {}
    }
    output::complete(if counts.absent == 0 { Exit::Success } else { Exit::Negative }, counts.absent > 0)
}

/// A lookup of many keys: the current batch, the output and the counts.
struct Lookups<'a, W> {
    arguments: &'a Arguments,
    db: &'a Db,
    batch: Vec<Vec<u8>>,
    out: W,
    counts: Counts,
}

impl<W: Write> Lookups<'_, W> {
    /// Looks up the batch, counts the keys, and prints the pairs unless --count is given.
    fn answer(&mut self) -> Outcome<()> {
        let values = self.db.multi_get(&self.batch)?;
        for (key, value) in self.batch.drain(..).zip(values) {
            self.counts.keys += 1;
            *(if value.is_some() { &mut self.counts.found } else { &mut self.counts.absent }) += 1;
            let (notation, out) = (&self.arguments.notation, &mut self.out);
            let printed = match value {
                _ if self.arguments.count => Ok(()),
                value if self.arguments.json => print_pair(out, notation.hex, &key, value.as_deref()),
                Some(value) => notation
                    .write(out, &key)
                    .and_then(|()| out.write_all(b"\t"))
                    .and_then(|()| notation.write(out, &value))
                    .and_then(|()| out.write_all(b"\n")),
                None => Ok(()),
            };
            printed.map_err(Failure::stdout)?;
        }
        Ok(())
    }
}

/// Prints the line of `--json` for a key.
fn print_pair(out: &mut impl Write, hex: bool, key: &[u8], value: Option<&[u8]>) -> std::io::Result<()> {
    let mut pair = serde_json::Map::new();
    for (name, bytes) in [("key", Some(key)), ("value", value)] {
        match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
            None => pair.insert(name.into(), Value::Null),
            Some((_, Ok(text))) if !hex => pair.insert(name.into(), text.into()),
            Some((bytes, _)) => pair.insert(format!("{name}_hex"), hex_of(bytes).into()),
        };
    }
    serde_json::to_writer(&mut *out, &pair)?;
    out.write_all(b"\n")
}

impl Counts {
    fn add(&mut self, stats: &Stats) {
        let total = &stats.total;
        self.filter_queries = total.points.probes;
        self.filters_said_no = total.points.true_negatives;
        self.false_positives = total.points.false_positives;
        self.damaged_filters = total.points.degraded;
        self.data_blocks_read = total.block_reads;
    }

    fn describe(&self) -> String {
        let lines = [
            ("keys", self.keys),
            ("found", self.found),
            ("absent", self.absent),
            ("filter queries", self.filter_queries),
            ("filters said no", self.filters_said_no),
            ("false positives", self.false_positives),
            ("damaged filters", self.damaged_filters),
            ("data blocks read", self.data_blocks_read),
        ];
        lines.into_iter().map(|(name, number)| format!("{name:<18}{:>7}\n", thousands(number))).collect()
    }
}
