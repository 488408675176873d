//! `filterblock verify`: is a filter block file sound, and does it know every key it should?

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failure::{Exit, Outcome};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::output::{self, message};
use super::{progress, text};
use crate::block::{FilterBlock, Mapped};
use crate::error::Error;

/// False negatives that are named one by one; the rest are counted.
const NAMED_MAX: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock verify names.filter
  filterblock verify names.filter --against names.txt
  filterblock verify --json names.filter

Checks the magic, the shape, the checksum of the header and of every page. With --against, every key of KEYFILE is
asked too, and those the filter calls absent are false negatives: keys that a read would lose.

Exit status: 0 sound; 1 damaged, or false negatives found; 2 could not run (unreadable file, newer format).";

/// Check a filter block file for damage and for lost keys
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The keys that were added, one a line, or `-` for standard input
    #[arg(long, value_name = "KEYFILE")]
    against: Option<PathBuf>,
    /// Report as JSON on stdout
    #[arg(long)]
    json: bool,
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
    match open(&arguments.file) {
        Ok(filter) => {
            report.sound = true;
            if let Some(keys) = &arguments.against {
                let (asked, lost) = ask_every_key(&filter, keys, arguments.format)?;
                report.keys_asked = Some(asked);
                report.false_negatives = Some(lost);
            }
        }
        Err(error) if error.is_damage() && !matches!(error.root(), Error::Unsupported { .. }) => {
            report.damage = Some(error.to_string());
        }
        Err(error) => return Err(error.into()),
    }
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::print(&describe(&report))?,
    }
    let passed = report.sound && report.false_negatives.unwrap_or(0) == 0;
    Ok(if passed { Exit::Success } else { Exit::Negative })
}

/// Maps the file and checks every page of it.
fn open(file: &Path) -> Result<FilterBlock<Mapped>, Error> {
    FilterBlock::open(Mapped::open(file)?).map_err(|error| error.in_file(file))
}

/// How many keys were asked, and how many of them the filter denies.
fn ask_every_key(filter: &FilterBlock<Mapped>, keys: &Path, format: KeyFormat) -> Outcome<(u64, u64)> {
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
        let (asked, lost) = (text::thousands(asked), text::thousands(lost));
        text += &format!("{}: {asked} keys asked, {lost} false negatives\n", report.file);
    }
    text
}
