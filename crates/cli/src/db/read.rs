//! `filterblock db get` and `filterblock db scan`: print the value of a key, look up all keys of a file,
//! and print keys and values in order.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::ops::Bound;

use serde_json::{Map, Value, json};

use super::{Notation, StoreArguments, close, print_reports};
use crate::keys::{KeyFormat, Questions, check_order};
use crate::prelude::*;
use crate::refused_value::whole;
use filterblock_store::lsm::{Db, FilterUse, MAX_KEY_LEN_BYTES, Options};

/// The maximum number of keys in one `multi_get`.
const BATCH_LEN: usize = 32;

const GET_EXAMPLES: &str = "\
Examples:
  filterblock db get store/ apple
  filterblock db get store/ apple pear plum
  filterblock db get store/ --hex 6170706c65
  filterblock db get store/ --keys names.txt
  filterblock db get store/ --keys names.txt --count
  filterblock db get store/ --keys names.txt --count --ignore-filters

Of one KEY, the command prints the value alone. Otherwise, each line of the output is a present key, a tab and its value.
`-` as the only KEY is standard input.
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

const SCAN_EXAMPLES: &str = "\
Examples:
  filterblock db scan store/
  filterblock db scan store/ --from b --to c
  filterblock db scan store/ --starts-with user7/
  filterblock db scan store/ --reverse --limit 1

Each line is a key, a tab and its value. If keys or values may hold tabs or newlines, use --hex.

If the filters of the store hold prefixes (--prefix), a scan within one prefix skips SST files whose filter denies the prefix. \
A scan also skips SST files whose range filter denies the range of the scan; \"filterblock db load\" and \"filterblock db compact\" add range filters with --range-filter.

Exit status: 0 done; 2 an error, such as --from above --to.";

/// Print the values of keys; exits with 1 if a key is absent
#[derive(clap::Args)]
#[command(after_long_help = GET_EXAMPLES)]
pub struct GetArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    questions: Questions,
    /// Take the lines of any KEYFILE, even of a Parquet file, an SST file, a compressed file or
    /// text in UTF-16
    #[arg(long, requires = "keys")]
    any_bytes: bool,
    /// Print counts of keys, filter answers and data blocks instead of values
    #[arg(long)]
    count: bool,
    /// Print one JSON object per key, or the counts as JSON
    #[arg(long)]
    json: bool,
    /// Read without querying the filters, to compare the counts
    #[arg(long)]
    ignore_filters: bool,
}

/// Print keys and values in order
#[derive(clap::Args)]
#[command(after_long_help = SCAN_EXAMPLES)]
pub struct ScanArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    notation: Notation,
    /// Print only keys from this key on (inclusive)
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Print only keys below this key (exclusive)
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Print only keys that begin with PREFIX
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"])]
    starts_with: Option<OsString>,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Stop after N keys
    #[arg(long, value_name = "N", value_parser = whole(0..=usize::MAX, 10))]
    limit: Option<usize>,
}

pub fn get(arguments: &GetArguments) -> Outcome {
    let filter_use = if arguments.ignore_filters { FilterUse::Ignore } else { FilterUse::Consult };
    let options = Options { create_if_missing: false, filter_use, ..Options::default() };
    match arguments.questions.only() {
        Some(key) if !arguments.count => get_one(arguments, key, options),
        _ => get_all(arguments, options),
    }
}

fn get_one(arguments: &GetArguments, key: &OsStr, options: Options) -> Outcome {
    let notation = &arguments.notation;
    let key = notation.decode(key)?;
    let db = arguments.store.open_with(options)?;
    let value = db.get(&key)?;
    close(db)?;
    let mut out = output::stdout();
    let written = match &value {
        _ if arguments.json => print_pair(&mut out, notation.hex, &key, value.as_deref()),
        Some(value) => notation.write(&mut out, value).and_then(|()| out.write_all(b"\n")),
        None => Ok(()),
    };
    written.and_then(|()| out.flush()).map_err(Failure::stdout)?;
    Ok(if value.is_some() { Exit::Success } else { Exit::Negative })
}

/// Looks up the keys in batches. Prints the pairs of present keys, or the counts.
fn get_all(arguments: &GetArguments, options: Options) -> Outcome {
    let format = KeyFormat { hex: arguments.notation.hex, any_bytes: arguments.any_bytes, ..KeyFormat::default() };
    let db = arguments.store.open_with(options)?;
    let (mut out, mut batch) = (output::stdout(), Vec::new());
    let (mut keys, mut found) = (0, 0);
    arguments.questions.ask_each(format, MAX_KEY_LEN_BYTES, false, |key, _| {
        keys += 1;
        batch.push(key.to_vec());
        if batch.len() == BATCH_LEN {
            found += answer(arguments, &db, &mut batch, &mut out)?;
        }
        Ok(false)
    })?;
    found += answer(arguments, &db, &mut batch, &mut out)?;
    out.flush().map_err(Failure::stdout)?;
    let (total, absent) = (db.stats().total, keys - found);
    print_reports(&db);
    db.close()?;
    let counts = [
        ("keys", keys),
        ("found", found),
        ("absent", absent),
        ("filter_queries", total.points.probes),
        ("filters_said_no", total.points.true_negatives),
        ("false_positives", total.points.false_positives),
        ("damaged_filters", total.points.degraded),
        ("data_blocks_read", total.block_reads),
    ];
    if arguments.count {
        let report: Map<String, Value> = counts.iter().map(|(name, number)| ((*name).into(), json!(number))).collect();
        let line = |(name, number): (&str, u64)| format!("{:<18}{:>7}\n", name.replace('_', " "), thousands(number));
        output::report(arguments.json, &report, || counts.into_iter().map(line).collect())?;
    }
    output::complete(if absent == 0 { Exit::Success } else { Exit::Negative }, absent > 0)
}

/// Looks up the keys of the batch, and empties it. Prints the pairs unless --count is given. Returns
/// the number of present keys.
fn answer(arguments: &GetArguments, db: &Db, batch: &mut Vec<Vec<u8>>, out: &mut impl Write) -> Outcome<u64> {
    let notation = &arguments.notation;
    let mut found = 0;
    let values = db.multi_get(&*batch)?;
    for (key, value) in batch.drain(..).zip(values) {
        found += u64::from(value.is_some());
        let printed = match value {
            _ if arguments.count => Ok(()),
            value if arguments.json => print_pair(out, notation.hex, &key, value.as_deref()),
            Some(value) => notation.write_pair(out, &key, &value),
            None => Ok(()),
        };
        printed.map_err(Failure::stdout)?;
    }
    Ok(found)
}

fn print_pair(out: &mut impl Write, hex: bool, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
    let mut pair = Map::new();
    for (name, bytes) in [("key", Some(key)), ("value", value)] {
        match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
            None => pair.insert(name.into(), Value::Null),
            Some((_, Ok(text))) if !hex => pair.insert(name.into(), text.into()),
            Some((bytes, _)) => pair.insert(format!("{name}_hex"), text::hex(bytes).into()),
        };
    }
    serde_json::to_writer(&mut *out, &pair)?;
    out.write_all(b"\n")
}

pub fn scan(arguments: &ScanArguments) -> Outcome {
    let notation = &arguments.notation;
    let bound = |key: &Option<OsString>| key.as_ref().map(|key| notation.decode(key)).transpose();
    let (from, to, prefix) = (bound(&arguments.from)?, bound(&arguments.to)?, bound(&arguments.starts_with)?);
    let db = arguments.store.open()?;
    if let (Some(from), Some(to)) = (&from, &to)
        && let Err(why) = check_order(from, to)
    {
        close(db)?;
        return fail(format!("--from and --to: {why}"));
    }
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let end = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut scan = match prefix {
        Some(prefix) => db.scan_prefix(&prefix),
        None => db.scan((start, end)),
    };
    let mut out = output::stdout();
    for _ in 0..arguments.limit.unwrap_or(usize::MAX) {
        let next = if arguments.reverse { scan.next_back() } else { scan.next() };
        let Some(entry) = next else { break };
        if output::reader_gone() {
            break;
        }
        let (key, value) = entry?;
        notation.write_pair(&mut out, &key, &value).map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)?;
    drop(scan);
    close(db)
}
