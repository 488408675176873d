//! `filterblock verify`: is a filter block file sound, and does it know every key it should?

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::block_file::{self, BlockFile};
use super::failure::{Exit, Outcome};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::output::{self, message};
use super::secret::SecretArguments;
use super::{progress, text};
use crate::block::FilterBlock;
use crate::sstable::HeapBytes;

/// False negatives that are named one by one; the rest are counted.
const NAMED_MAX: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock verify names.filter
  filterblock verify names.filter --against names.txt
  filterblock verify --json names.filter

Checks the magic, the shape, the checksum of the trailer and of every page. With --against, every key of KEYFILE is \
asked too, and those the filter calls absent are false negatives: keys that a read would lose. For a filter that holds \
prefixes of keys only, KEYFILE must hold such prefixes (--prefixes). Only --against needs the secret (--secret-file) of a \
filter whose keys were hashed under one.

Exit status: 0 sound; 1 damaged, or false negatives found; 2 could not run (unreadable file, newer format).";

/// Check a filter block file for damage and for lost keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The keys that were added, one a line, or `-` for standard input
    #[arg(long, value_name = "KEYFILE")]
    against: Option<PathBuf>,
    /// The keys of --against are prefixes, taken as they were for the filter
    #[arg(long, requires = "against")]
    prefixes: bool,
    /// Report as JSON on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    format: KeyFormat,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    sound: bool,
    damage: Option<String>,
    keys_asked: Option<u64>,
    false_negatives: Option<u64>,
}

/// Runs `filterblock verify`.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut report = Report { file: arguments.file.display().to_string(), ..Report::default() };
    let bar = progress::spinner("reading the filter");
    let checked = block_file::check(&arguments.file);
    bar.finish_and_clear();
    match checked? {
        BlockFile::Sound(filter) => {
            report.sound = true;
            if let Some(keys) = &arguments.against {
                let filter = block_file::unlock(&arguments.file, filter, &arguments.secret)?;
                block_file::check_question(&arguments.file, &filter, arguments.prefixes)?;
                let (asked, lost) = ask_every_key(&filter, keys, arguments.format)?;
                report.keys_asked = Some(asked);
                report.false_negatives = Some(lost);
            }
        }
        BlockFile::Damaged(reason) => report.damage = Some(reason),
    }
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::print(&describe(&report))?,
    }
    let passed = report.sound && report.false_negatives.unwrap_or(0) == 0;
    Ok(if passed { Exit::Success } else { Exit::Negative })
}

/// How many keys were asked, and how many of them the filter denies.
fn ask_every_key(filter: &FilterBlock<HeapBytes>, keys: &Path, format: KeyFormat) -> Outcome<(u64, u64)> {
    let mut reader = KeyReader::open(keys, format, MAX_FILTER_KEY_LEN_BYTES)?;
    let bar = progress::bar(None, "asking every key");
    let (mut asked, mut lost) = (0, 0);
    while let Some(next) = reader.next_key()? {
        asked += 1;
        progress::tick(&bar, asked);
        if filter.may_contain_key(next.key) {
            continue;
        }
        lost += 1;
        if lost <= NAMED_MAX {
            let key = String::from_utf8_lossy(next.written).into_owned();
            bar.suspend(|| message(format_args!("{}: the filter denies {key:?}", reader.place())));
        }
    }
    bar.finish_and_clear();
    if lost > NAMED_MAX {
        message(format_args!("and {} more", text::thousands(lost - NAMED_MAX)));
    }
    Ok((asked, lost))
}

fn describe(report: &Report) -> String {
    let mut text = match &report.damage {
        // The error names the file.
        Some(damage) => format!("{damage}\n"),
        None => format!("{}: sound\n", report.file),
    };
    if let (Some(asked), Some(lost)) = (report.keys_asked, report.false_negatives) {
        let (asked, lost) = (text::count(asked, "key"), text::count(lost, "false negative"));
        text += &format!("{}: {asked} asked, {lost}\n", report.file);
    }
    text
}
