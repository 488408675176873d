//! `filterblock verify`: is a filter block file, or one of another engine, sound, and does it know every key it should?

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::block_file::{self, BlockFile};
use super::failure::{Exit, Failure, Outcome};
use super::foreign::ask::Question;
use super::foreign::verify::{self as foreign_verify, Walked};
use super::foreign::{Asked, FileArguments, Foreign, ValueType};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::output::{self, message};
use super::secret::SecretArguments;
use super::{progress, text};

/// False negatives that are named one by one; the rest are counted.
const NAMED_MAX: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock verify names.filter
  filterblock verify names.filter --against names.txt
  filterblock verify --json names.filter
  filterblock verify 000012.sst
  filterblock verify rows.parquet --column user.id --row-group 3 --against ids.txt

Checks the magic, the shape, the checksum of the trailer and of every page. With --against, every key of KEYFILE is \
asked too, and those the filter calls absent are false negatives: keys that a read would lose. For a filter that holds \
prefixes of keys only, KEYFILE must hold such prefixes (--prefixes). Only --against needs the secret (--secret-file) of a \
filter whose keys were hashed under one.

Of a table of LevelDB or RocksDB, the checksums of all blocks are compared, and each of its keys is asked of its own filter. \
Parquet files and filters alone have no checksums: their shape is checked, and --against tells more.

A block whose version is not 1 is damaged if its checksum holds with version 1 in place. Otherwise a newer version of \
filterblock wrote the block, or it is damaged there and elsewhere: nothing tells which, and that is status 2.

Exit status: 0 sound; 1 damaged, or false negatives found; 2 could not run (unreadable file, newer format).";

/// Check a filter block file for damage and for lost keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file, or a file of another engine
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
    foreign: FileArguments,
    /// How values of --against are written, of a Parquet column: int32, int64, uint32, uint64, float, double, utf8, bytes or
    /// uuid
    #[arg(long = "type", value_enum, value_name = "TYPE", hide_possible_values = true, requires = "against")]
    #[arg(conflicts_with = "hex", help_heading = "Files of other engines")]
    value_type: Option<ValueType>,
    #[command(flatten)]
    format: KeyFormat,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    sound: bool,
    damage: Option<String>,
    /// What a file of another engine is.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    walked: Option<Walked>,
    keys_asked: Option<u64>,
    false_negatives: Option<u64>,
}

/// Runs `filterblock verify`.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut report = Report { file: arguments.file.display().to_string(), ..Report::default() };
    let path = &arguments.file;
    let bar = progress::spinner("reading the filter");
    let checked = block_file::check(path, &arguments.foreign);
    bar.finish_and_clear();
    match checked? {
        BlockFile::Sound(filter) => {
            report.sound = true;
            if let Some(keys) = &arguments.against {
                let filter = block_file::unlock(path, filter, &arguments.secret)?;
                block_file::check_question(path, &filter, arguments.prefixes)?;
                report.ask_every_key(keys, arguments.format, |key| Ok(filter.may_contain(key)))?;
            }
        }
        BlockFile::Foreign(file) => {
            report.kind = Some(file.kind());
            arguments.secret.refuse(path)?;
            if let Foreign::Parquet(file) = &file {
                // All filters are checked; a column that is not there is a mistake nevertheless.
                arguments.foreign.chunks(path, file)?;
            }
            let bar = progress::spinner("reading every block");
            let walked = foreign_verify::walk(path, &file);
            bar.finish_and_clear();
            match walked? {
                Ok(walked) => {
                    report.sound = true;
                    report.walked = Some(walked);
                }
                Err(damage) => report.damage = Some(damage),
            }
            if let (true, Some(keys)) = (report.sound, &arguments.against) {
                let question = Question {
                    prefixes: arguments.prefixes,
                    hex: arguments.format.hex,
                    value_type: arguments.value_type,
                };
                let asked = Asked::new(path, &file, &arguments.foreign, question)?;
                report.ask_every_key(keys, arguments.format, |key| asked.may_contain(key))?;
            }
        }
        BlockFile::Damaged(reason) => report.damage = Some(reason),
    }
    match arguments.json {
        true => output::print_json(&report)?,
        false => output::print(&describe(&report))?,
    }
    let denied = report.walked.as_ref().map_or(0, Walked::denied_keys);
    let passed = report.sound && report.false_negatives.unwrap_or(0) == 0 && denied == 0;
    Ok(if passed { Exit::Success } else { Exit::Negative })
}

impl Report {
    /// Asks for every key of a file; notes how many were asked, and how many of them were denied.
    fn ask_every_key(
        &mut self,
        keys: &Path,
        format: KeyFormat,
        may_contain: impl Fn(&[u8]) -> Result<bool, String>,
    ) -> Outcome<()> {
        let mut reader = KeyReader::open(keys, format, MAX_FILTER_KEY_LEN_BYTES)?;
        let bar = progress::bar(None, "asking every key");
        let (mut asked, mut lost) = (0, 0);
        while let Some(next) = reader.next_key()? {
            asked += 1;
            progress::tick(&bar, asked);
            match may_contain(next.key) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(why) => return Err(Failure::Message(format!("{}: {why}", reader.place()))),
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
        self.keys_asked = Some(asked);
        self.false_negatives = Some(lost);
        Ok(())
    }
}

fn describe(report: &Report) -> String {
    let mut text = match &report.damage {
        // The error names the file.
        Some(damage) => format!("{damage}\n"),
        None => format!("{}: sound\n", report.file),
    };
    if let Some(walked) = &report.walked {
        text += &format!("{}: {walked}\n", report.file);
    }
    if let (Some(asked), Some(lost)) = (report.keys_asked, report.false_negatives) {
        let (asked, lost) = (text::count(asked, "key"), text::count(lost, "false negative"));
        text += &format!("{}: {asked} asked, {lost}\n", report.file);
    }
    text
}
