//! `filterblock db stats`, `db verify` and `db repair`: print the sizes of a store's levels, check a
//! store for damage, and rebuild a damaged store from its sound parts.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{FilterArguments, StoreArguments, check_dir, is_missing, no_store};
use crate::prelude::*;
use crate::secret::SecretArguments;
use filterblock_store::Error;
use filterblock_store::lsm::{Db, LevelStats, LogTail, Options, Stats, VerifyReport};
use filterblock_store::repair::{RepairMode, RepairReport};
use filterblock_store::sstable::Loss;

const STATS_EXAMPLES: &str = "\
Examples:
  filterblock db stats store/
  filterblock db stats store/ --json | jq .total.bits_per_key

An open store keeps each of its SST files open, and a few more files. If the limit of open files is lower, the store does not open. \
Raise the limit with \"ulimit -n\".

Exit status: 0 printed; 2 an error.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  filterblock db verify store/
  filterblock db verify store/ --json | jq .damage

A missing SST file, log or manifest is damage too.

The report names the file and offset of a bad record at the end of a log or manifest:
  If bytes seem to be missing, or are zeros, a crash has probably torn a write that was not synced. This does not count as damage.
  If no bytes seem to be missing but the record is not sound, the cause is damage or a crash. The store counts as damaged.
  This command opens the store, which drops that record. A second run does not find it.

With --salvage, the command opens a store whose log is damaged, and drops the damaged records. The report on stderr names them \
(with --json: the field \"reports\"), but the store then counts as sound.

Exit status:
  0  sound, or a log ends in a torn tail
  1  damaged
  2  an error, such as no store, a store that is open in another process, no permission, or a newer format";

const REPAIR_EXAMPLES: &str = "\
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

/// Print for each level the number of SST files and of entries, and the bytes of the SST files and
/// of their filters
#[derive(clap::Args)]
#[command(after_long_help = STATS_EXAMPLES)]
pub struct StatsArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Read and check every block and filter of a store, and look up each key in the filter of its SST
/// file
#[derive(clap::Args)]
#[command(after_long_help = VERIFY_EXAMPLES)]
pub struct VerifyArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Rebuild a damaged store from its sound parts, and report losses
#[derive(clap::Args)]
#[command(after_long_help = REPAIR_EXAMPLES)]
pub struct RepairArguments {
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

pub fn stats(arguments: &StatsArguments) -> Outcome {
    let db = arguments.store.open()?;
    let stats = db.stats();
    db.close()?;
    // An open store has a file for each SST file. The limit is null if there is none, or it is unknown.
    let limit = open_files_limit();
    let levels: Vec<Value> = stats.levels.iter().map(|level| level_report(Some(level.level), level)).collect();
    let report = json!({
        "levels": levels,
        "total": level_report(None, &stats.total),
        "prefix_extractor": stats.prefix_extractor,
        "open_files_limit": limit,
        "reports": stats.reports,
    });
    output::report(arguments.json, &report, || {
        let limit = limit.map_or_else(String::new, |limit| {
            format!("open files: one for each SST file; limit of this process (ulimit -n): {}\n", thousands(limit))
        });
        format!("{}\n{limit}{}", table(&stats), scan_lines(&stats))
    })?;
    if !arguments.json {
        stats.reports.iter().for_each(message);
    }
    Ok(Exit::Success)
}

fn open_files_limit() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

fn bits_per_key(stats: &LevelStats) -> f64 {
    stats.filter_bytes as f64 * 8.0 / stats.keys.max(1) as f64
}

/// Returns the JSON of a level, or of all levels together. Counters of gets are left out, because they
/// start at 0 when the store is opened.
fn level_report(level: Option<usize>, stats: &LevelStats) -> Value {
    let mut report = json!({
        "level": level,
        "tables": stats.tables,
        "entries": stats.keys,
        "bytes": stats.bytes,
        "filter_bytes": stats.filter_bytes,
        "bits_per_key": bits_per_key(stats),
        "tables_without_prefixes": stats.tables_without_prefixes,
        "tables_with_ranges": stats.tables_with_ranges,
    });
    if let (None, Value::Object(report)) = (level, &mut report) {
        report.shift_remove("level");
    }
    report
}

/// Returns the lines about prefixes and ranges. Returns an empty text if the store has no prefix
/// extractor and no range filter.
fn scan_lines(stats: &Stats) -> String {
    let ranges = match stats.total.tables_with_ranges {
        0 => String::new(),
        with => format!("range filters: {} of {}\n", thousands(with), count(stats.total.tables, "SST file")),
    };
    let Some(name) = &stats.prefix_extractor else { return ranges };
    let lacking = match stats.total.tables_without_prefixes {
        0 => String::new(),
        lacking => format!("; without its prefixes: {}", count(lacking, "SST file")),
    };
    format!("{ranges}prefix extractor: {name}{lacking}\n")
}

fn table(stats: &Stats) -> impl std::fmt::Display {
    let row = |name: String, level: &LevelStats| {
        let numbers = [level.tables, level.keys, level.bytes, level.filter_bytes].map(thousands);
        [&[name][..], &numbers, &[significant(bits_per_key(level))]].concat()
    };
    let levels = stats.levels.iter().filter(|level| level.tables > 0).map(|level| row(level.level.to_string(), level));
    let rows = levels.chain([row("all".into(), &stats.total)]);
    output::table(["level", "SST files", "entries", "bytes", "filter bytes", "bits per key"], rows, .., &[])
}

pub fn verify(arguments: &VerifyArguments) -> Outcome {
    // Opening the store drops the torn tails of the logs and the manifest. A second run could not
    // report them, so stdout is checked first.
    output::check_stdout()?;
    let dir = arguments.store.dir.display();
    let mut reports = Vec::new();
    let (found, damage) = match check(arguments, &mut reports) {
        Err(Failure::Store(error)) if is_damage(&error, &arguments.store.dir) => (None, vec![error.to_string()]),
        // The message about a damaged log or a missing file includes advice.
        Err(Failure::Damage(reason)) => (None, vec![reason]),
        Err(failure) => return Err(failure),
        Ok(found) => {
            let damage = found.damage.iter().map(ToString::to_string).collect();
            (Some(found), damage)
        }
    };
    let is_checked = found.is_some();
    let found = found.unwrap_or_default();
    let warnings: Vec<String> = found.tails.iter().map(LogTail::to_string).collect();
    // The reports of the store contain each warning again.
    reports.retain(|told| !warnings.contains(told));
    // The tail of a log is suspect if no bytes seem to be missing, but the tail is not a sound record.
    // The cause is then damage or a crash.
    let is_sound = damage.is_empty() && found.filter_false_negatives == 0 && found.tails.iter().all(|tail| tail.is_cut);
    let warning = |(tail, message): (&LogTail, &String)| {
        json!({
            "file": tail.path.display().to_string(),
            "offset": tail.offset,
            "len_bytes": tail.len_bytes,
            "suspect": !tail.is_cut,
            "message": message,
        })
    };
    let report = json!({
        "store": dir.to_string(),
        "sound": is_sound,
        "damage": damage,
        "tables": found.tables,
        "entries": found.entries,
        "data_blocks": found.data_blocks,
        "false_negatives": found.filter_false_negatives,
        "warnings": found.tails.iter().zip(&warnings).map(warning).collect::<Vec<_>>(),
        "reports": reports,
    });
    let describe = || {
        let text: String = damage.iter().chain(&warnings).map(|reason| format!("{reason}\n")).collect();
        if !is_checked {
            return text + &format!("{dir}: damaged; its SST files were not checked\n");
        }
        let state = if is_sound { "sound" } else { "damaged" };
        let entries =
            if found.entries == 1 { "1 entry".into() } else { format!("{} entries", thousands(found.entries)) };
        let (tables, blocks) = (count(found.tables, "SST file"), count(found.data_blocks, "data block"));
        let lost = count(found.filter_false_negatives, "false negative");
        text + &format!("{dir}: {state}; {tables}, {entries}, {blocks}, {lost}\n")
    };
    let printed = output::report(arguments.json, &report, describe);
    if printed.is_err() || !arguments.json {
        reports.iter().for_each(message);
    }
    output::print_or_say(printed, describe)?;
    Ok(if is_sound { Exit::Success } else { Exit::Negative })
}

/// Opens and checks a store. Sets the reports of the open store, even if its close fails.
fn check(arguments: &VerifyArguments, reports: &mut Vec<String>) -> Outcome<VerifyReport> {
    let db = arguments.store.open()?;
    let bar = progress::bytes("reading SST files", arguments.json);
    let found = db.verify_with(&mut progress::follow(&bar));
    bar.finish_and_clear();
    let found = found?;
    *reports = db.stats().reports;
    db.close()?;
    Ok(found)
}

/// Returns whether the error means that the store is damaged, or that a file that the store names
/// is missing. A missing store and a newer format are failures of the command instead.
fn is_damage(error: &Error, dir: &Path) -> bool {
    let is_inside = matches!(error, Error::InFile { path, .. } if path != dir);
    error.is_damage() || (is_missing(error) && is_inside)
}

pub fn repair(arguments: &RepairArguments) -> Outcome {
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
    let repaired = repaired.map_err(|error| match error.root() {
        Error::NotAStore => {
            Failure::about(&arguments.dir, "the directory holds no store and no file of one; check the path")
        }
        _ => arguments.secret.explain(error),
    })?;

    let told = output::report(arguments.json, &repair_report(arguments, &repaired), || describe(arguments, &repaired));
    output::print_or_say(told, || describe(arguments, &repaired))?;
    Ok(if repaired.is_complete() { Exit::Success } else { Exit::Negative })
}

fn repair_report(arguments: &RepairArguments, repaired: &RepairReport) -> Value {
    let shown = |path: &PathBuf| path.display().to_string();
    let moved = |(file, kept_as): &(PathBuf, PathBuf)| json!({"file": shown(file), "kept_as": shown(kept_as)});
    // Files of another program or another store.
    let left_alone = |(file, what): &(PathBuf, &'static str)| json!({"file": shown(file), "what": what});
    json!({
        "store": shown(&arguments.dir),
        "dry_run": arguments.dry_run,
        "was_sound": repaired.was_sound(),
        "complete": repaired.is_complete(),
        "tables_kept": repaired.tables_kept,
        "tables_rewritten": repaired.tables_rewritten,
        "tables_lost": repaired.tables_lost,
        "entries": repaired.entries,
        "new_manifest": repaired.new_manifest,
        "losses": repaired.losses.iter().map(loss_report).collect::<Vec<_>>(),
        "doubts": repaired.doubts,
        "set_aside": repaired.set_aside.iter().map(moved).collect::<Vec<_>>(),
        "removed": repaired.removed.iter().map(shown).collect::<Vec<_>>(),
        "left_alone": repaired.left_alone.iter().map(left_alone).collect::<Vec<_>>(),
    })
}

/// Returns the JSON of damage that the repair found. `keys` is the range of keys that may be affected,
/// as text, or null if the damage affects no key.
fn loss_report(loss: &Loss) -> Value {
    let file = if let Error::InFile { path, .. } = &loss.error { Some(path.display().to_string()) } else { None };
    let (field, offset) = match loss.error.root() {
        Error::Corrupt { field, offset } | Error::ChecksumMismatch { field, offset, .. } => {
            (Some(field.to_string()), Some(*offset))
        }
        Error::Unsupported { field, .. } => (Some(field.to_string()), None),
        _ => (None, None),
    };
    let keys = loss.holds_keys().then(|| loss.keys.to_string());
    json!({"damage": loss.damage(), "file": file, "field": field, "offset": offset, "keys": keys})
}

fn describe(arguments: &RepairArguments, repaired: &RepairReport) -> String {
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
