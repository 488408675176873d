//! `filterblock db scan`: prints keys and values in order.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Bound;

use super::super::failure::{Failure, Outcome};
use super::super::key_range::check_order;
use super::super::output;
use super::super::refused_value::whole;
use super::{Notation, StoreArguments, close};

const EXAMPLES: &str = "\
Examples:
  filterblock db scan store/
  filterblock db scan store/ --from b --to c
  filterblock db scan store/ --starts-with user7/
  filterblock db scan store/ --reverse --limit 1

Each line is a key, a tab and its value. If keys or values may hold tabs or newlines, use --hex.

If the filters of the store hold prefixes (--prefix), a scan within one prefix skips SST files whose filter denies the prefix. \
A scan also skips SST files whose range filter denies the range of the scan; \"filterblock db load\" and \"filterblock db compact\" add range filters with --range-filter.

Exit status: 0 done; 2 an error, such as --from above --to.";

/// Print keys and values in order
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
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

/// Runs `filterblock db scan`.
pub fn run(arguments: &Arguments) -> Outcome {
    let notation = &arguments.notation;
    let bound = |key: &Option<OsString>| key.as_ref().map(|key| notation.decode(key)).transpose();
    let (from, to, prefix) = (bound(&arguments.from)?, bound(&arguments.to)?, bound(&arguments.starts_with)?);
    let db = arguments.store.open()?;
    if let (Some(from), Some(to)) = (&from, &to)
        && let Err(why) = check_order(from, to)
    {
        close(db)?;
        return Err(Failure::Message(format!("--from and --to: {why}")));
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
        notation
            .write(&mut out, &key)
            .and_then(|()| out.write_all(b"\t"))
            .and_then(|()| notation.write(&mut out, &value))
            .and_then(|()| out.write_all(b"\n"))
            .map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)?;
    drop(scan);
    close(db)
}
