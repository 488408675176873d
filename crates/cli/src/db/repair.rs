//! `filterblock db repair`: rebuilds a damaged store from its sound parts.

use std::path::PathBuf;

use serde::Serialize;

use super::super::failure::{Exit, Outcome};
use super::super::secret::SecretArguments;
use super::super::text::{count, thousands};
use super::super::{output, progress};
use super::{FilterArguments, check_dir, no_store};
use filterblock_store::Error;
use filterblock_store::lsm::{Db, Options};
use filterblock_store::repair::{RepairMode, RepairReport};
use filterblock_store::sstable::Loss;

const EXAMPLES: &str = "\
Examples:
  filterblock db repair store/ --dry-run
  filterblock db repair store/
  filterblock db repair store/ --json | jq -r '.losses[].damage'

What the repair does:
  A sound SST file stays unchanged. A damaged SST file is rewritten from its sound blocks.
  A missing or damaged manifest is rebuilt from the SST files. Sound log records after damage are kept.
  Every damaged file is moved unchanged to the folder lost/ of the store.
  An SST file that an earlier command set aside as unnamed-*.sst is removed if all its entries are in the store. --dry-run does \
not look for such files.
  A second repair, or the repair of a sound store, changes no entry.

What the report shows:
  For each loss, the report shows the range of the affected keys. A key in this range may be missing, or have an older \
value. A deleted key may come back.
  Without a sound manifest, the report also lists doubts: which of two SST files is newer, or whether an SST file is a leftover of a \
compaction.

A file of another program is listed and stays unchanged. So is a log or manifest of another store, unless a log of this \
store may be missing in its place. If no file belongs to a store, or CURRENT belongs to another \
engine, the repair changes nothing and exits with 2.

Exit status:
  0  every key is as before
  1  keys may be lost, or there are doubts
  2  an error, such as no store, a store that is open in another process, an unreadable file, or a newer format

If only standard output fails, the repair is done, the exit status is 2, and the report is on stderr.";

/// Rebuild a damaged store from its sound parts, and report losses
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Report what a repair would do, and change no file
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    secret: SecretArguments,
}

#[derive(Debug, Serialize)]
struct Report {
    store: String,
    dry_run: bool,
    was_sound: bool,
    complete: bool,
    tables_kept: u64,
    tables_rewritten: u64,
    tables_lost: u64,
    entries: u64,
    new_manifest: bool,
    losses: Vec<LossReport>,
    doubts: Vec<String>,
    set_aside: Vec<Moved>,
    removed: Vec<String>,
    left_alone: Vec<LeftAlone>,
}

/// Damage that the repair found. `keys` is the range of keys that may be affected, as text, or null
/// if the damage affects no key.
#[derive(Debug, Serialize)]
struct LossReport {
    damage: String,
    file: Option<String>,
    field: Option<String>,
    offset: Option<u64>,
    keys: Option<String>,
}

#[derive(Debug, Serialize)]
struct Moved {
    file: String,
    kept_as: String,
}

/// A file of another program or another store.
#[derive(Debug, Serialize)]
struct LeftAlone {
    file: String,
    what: &'static str,
}

/// Runs `filterblock db repair`.
pub fn run(arguments: &Arguments) -> Outcome {
    // Only the first repair sees the losses. So a repair does not begin without a stdout for its
    // report.
    output::check_stdout()?;
    check_dir(&arguments.dir)?;
    if !arguments.dir.exists() {
        return Err(no_store(&arguments.dir));
    }
    let secret = arguments.secret.read()?;
    let options = arguments.filter.options(Options { secret, ..Options::default() });
    let mode = if arguments.dry_run { RepairMode::DryRun } else { RepairMode::Write };
    let bar = progress::bytes("checking SST files", arguments.json);
    let repaired = Db::repair_with(&arguments.dir, options, mode, &mut progress::follow(&bar));
    bar.finish_and_clear();
    let repaired = repaired.map_err(|error| arguments.secret.explain(error))?;
    let told = match arguments.json {
        true => output::print_json(&Report::new(arguments, &repaired)),
        false => output::print(&describe(arguments, &repaired)),
    };
    output::print_or_say(told, || describe(arguments, &repaired))?;
    Ok(if repaired.is_complete() { Exit::Success } else { Exit::Negative })
}

impl Report {
    fn new(arguments: &Arguments, repaired: &RepairReport) -> Self {
        let moved = |(file, kept_as): &(PathBuf, PathBuf)| Moved {
            file: file.display().to_string(),
            kept_as: kept_as.display().to_string(),
        };
        let left_alone = |&(ref file, what): &(PathBuf, _)| LeftAlone { file: file.display().to_string(), what };
        Self {
            store: arguments.dir.display().to_string(),
            dry_run: arguments.dry_run,
            was_sound: repaired.was_sound(),
            complete: repaired.is_complete(),
            tables_kept: repaired.tables_kept,
            tables_rewritten: repaired.tables_rewritten,
            tables_lost: repaired.tables_lost,
            entries: repaired.entries,
            new_manifest: repaired.new_manifest,
            losses: repaired.losses.iter().map(LossReport::new).collect(),
            doubts: repaired.doubts.clone(),
            set_aside: repaired.set_aside.iter().map(moved).collect(),
            removed: repaired.removed.iter().map(|path| path.display().to_string()).collect(),
            left_alone: repaired.left_alone.iter().map(left_alone).collect(),
        }
    }
}

impl LossReport {
    fn new(loss: &Loss) -> Self {
        let file = if let Error::InFile { path, .. } = &loss.error { Some(path.display().to_string()) } else { None };
        let (field, offset) = match loss.error.root() {
            Error::Corrupt { field, offset } | Error::ChecksumMismatch { field, offset, .. } => {
                (Some(field.to_string()), Some(*offset))
            }
            Error::Unsupported { field, .. } => (Some(field.to_string()), None),
            _ => (None, None),
        };
        let keys = loss.holds_keys().then(|| loss.keys.to_string());
        Self { damage: loss.damage(), file, field, offset, keys }
    }
}

fn describe(arguments: &Arguments, repaired: &RepairReport) -> String {
    let (store, would) = (arguments.dir.display(), if arguments.dry_run { "would be " } else { "" });
    if repaired.was_sound() {
        let (tables, entries) = (count(repaired.tables_kept, "SST file"), thousands(repaired.entries));
        return format!("{repaired}{store}: sound; {tables}, entries in SST files: {entries}\n");
    }
    format!(
        "{repaired}{store}: {would}repaired{}; SST files: {} kept, {} rewritten, {} lost; entries in SST files: {}{}\n",
        if repaired.is_complete() { ", nothing lost" } else { "" },
        thousands(repaired.tables_kept),
        thousands(repaired.tables_rewritten),
        thousands(repaired.tables_lost),
        thousands(repaired.entries),
        if repaired.new_manifest { "; new manifest" } else { "" },
    )
}
