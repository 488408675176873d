//! `filterblock verify`: checks a filter block file, or a file of another engine, for damage and
//! for false negatives.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::block_file::{self, FilterFile};
use crate::foreign::verify::{self as foreign_verify, Walked};
use crate::foreign::{Asked, FileArguments, Foreign, Question, ValueType, value_type};
use crate::index;
use crate::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use crate::prelude::*;
use crate::secret::SecretArguments;

/// The maximum number of false negatives that are listed. All others are only counted.
const NAMED_MAX: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  filterblock verify names.filter
  filterblock verify names.filter --against names.txt
  filterblock verify --json names.filter
  filterblock verify 000012.sst
  filterblock verify rows.parquet --column user.id --row-group 3 --against ids.txt

Filter block:
  The command checks the magic, the shape, and the checksums of the trailer and of every page.
  If the version is above 1, the command also tries version 1. If the checksum is then valid, only the version is \
damaged (status 1). Otherwise the block has a newer format or more damage (status 2). Version 0 is always damage (status 1).

Other files of filterblock:
  An SST file is checked as \"filterblock db verify\" checks it, an index as \"filterblock index verify\" does. For a FileFilter, \
the command checks the checksums of all pages.

--against looks up every key of KEYFILE. A key that the filter denies is a false negative: a read would not find the key.
  If the filter denies more than half of the keys, the command says that KEYFILE is probably not the list of its keys (status 1, too).
  For a filter that holds only prefixes, give --prefixes and a KEYFILE of prefixes.
  Only --against needs the secret of a filter block (--secret-file).

File of another engine:
  For a LevelDB or RocksDB table, the command checks the checksums of all blocks and looks up each key in the table's filter.
  With a wrong --key-form, sound keys may look damaged or denied.
  If the table has filters of filterblock, the command may need --secret-file, and for a \
LevelDB table also --seed and --hash.
  Filters of Parquet files and bare filters have no checksums. The command checks only headers; --against checks more. \
If a Parquet footer contradicts a filter, it is unknown which of them is wrong (status 2).

Exit status: 0 sound; 1 damaged, or false negatives found; 2 an error, such as an unreadable file or a newer format.";

/// Check a filter file for damage and for false negatives
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file, another file of filterblock (an SST file, an index, a FileFilter), or a
    /// file of another engine; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The keys of the filter, one per line, or `-` for standard input
    #[arg(long, value_name = "KEYFILE")]
    against: Option<PathBuf>,
    /// The keys of --against are prefixes, as the prefix extractor of the filter takes them from
    /// whole keys
    #[arg(long, requires = "against")]
    prefixes: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    foreign: FileArguments,
    /// The type of the Parquet values in --against: int32, int64, uint32, uint64, float, double,
    /// utf8, bytes or uuid
    #[arg(long = "type", value_parser = value_type(), value_name = "TYPE", hide_possible_values = true, requires = "against")]
    #[arg(conflicts_with = "hex", help_heading = "Files of other engines")]
    value_type: Option<ValueType>,
    #[command(flatten)]
    format: KeyFormat,
}

#[derive(Default, Serialize)]
struct Report {
    file: String,
    sound: bool,
    damage: Option<String>,
    /// The type of a file of another engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    walked: Option<Walked>,
    keys_asked: Option<u64>,
    false_negatives: Option<u64>,
    /// Whether the filter denies so many keys that the list is probably not the list of its keys.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_probably_another_list: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    block_file::refuse_both(&arguments.file, arguments.against.as_deref())?;
    let is_index = block_file::is_index(&arguments.file, &arguments.foreign)?;
    if is_index { verify_index(arguments) } else { verify_file(arguments) }
}

fn verify_file(arguments: &Arguments) -> Outcome {
    let mut report = Report { file: arguments.file.display().to_string(), ..Report::default() };
    let path = &arguments.file;
    let bar = progress::spinner("reading the filter");
    let checked = block_file::check(path, &arguments.foreign);
    bar.finish_and_clear();
    match checked? {
        Ok(FilterFile::Native(filter)) => {
            // Opening accepts a block whose range filter is damaged, if its filter of keys is
            // usable.
            report.damage = filter.ranges_error().map(|error| block_file::unusable_ranges(path, error));
            report.sound = report.damage.is_none();
            block_file::refuse_type(path, arguments.value_type)?;
            if let (true, Some(keys)) = (report.sound, &arguments.against) {
                let filter = block_file::unlock(path, filter, &arguments.secret)?;
                block_file::check_question(path, &filter, arguments.prefixes)?;
                let extractor = filter.metadata().extractor.filter(|_| arguments.prefixes);
                let ask = |key: &[u8]| match extractor {
                    Some(name) => filter.may_contain_prefix(name, filter.hasher().key(key)),
                    None => filter.may_contain(filter.hasher().key(key)),
                };
                report.ask_every_key(keys, arguments.format, |key| Ok(ask(key)))?;
            }
        }
        Ok(FilterFile::Foreign(mut file)) => {
            report.kind = Some(file.kind());
            file.unlock(path, &arguments.foreign, &arguments.secret)?;
            if let Foreign::Parquet(file) = &file {
                // All filters are checked, but a column or row group that does not exist is still
                // an error.
                arguments.foreign.chunks(path, file)?;
            }
            if let Some(unusable) = file.unusable_filters() {
                note(path, unusable);
            }
            let bar = progress::spinner("reading every block");
            let walked = foreign_verify::walk(path, &file, arguments.foreign.key_form);
            bar.finish_and_clear();
            match walked? {
                Ok(walked) => {
                    report.sound = true;
                    report.walked = Some(walked);
                }
                Err(damage) => report.damage = Some(damage),
            }
            if let (true, Some(keys)) = (report.sound, &arguments.against) {
                let (hex, value_type) = (arguments.format.hex, arguments.value_type);
                let question = Question { prefixes: arguments.prefixes, hex, value_type };
                let asked = Asked::new(path, &file, &arguments.foreign, question)?;
                report.ask_every_key(keys, arguments.format, |key| asked.may_contain(key))?;
            }
        }
        Err(reason) => report.damage = Some(reason),
    }
    let denied = report.walked.as_ref().map_or(0, Walked::denied_keys);
    let passed = report.sound && report.false_negatives.unwrap_or(0) == 0 && denied == 0;
    // Whether the form is wrong cannot be judged here: to find the form, the reader asks the filter
    // under test.
    if !passed && arguments.foreign.key_form.is_some() {
        note(
            path,
            "in the wrong --key-form, sound keys look damaged or denied; run again without --key-form to compare",
        );
    }
    output::report(arguments.json, &report, || describe(&report))?;
    output::complete(if passed { Exit::Success } else { Exit::Negative }, !passed)
}

fn verify_index(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    arguments.secret.refuse(path)?;
    if arguments.against.is_some() {
        return refuse(path, "an index holds the keys of many files; to look up keys, use \"filterblock index query\"");
    }
    let files = index::CheckArguments::default();
    index::verify::run(&index::verify::Arguments { index: path.clone(), files, json: arguments.json })
}

impl Report {
    /// Looks up every key of a file, and counts the keys and the false negatives. Prints the first
    /// [`NAMED_MAX`] false negatives.
    ///
    /// If the filter denies more than half of the keys, it was probably built from other keys. The
    /// messages then say so, because a filter that lost keys by damage or by a bug denies fewer.
    fn ask_every_key(
        &mut self,
        keys: &Path,
        format: KeyFormat,
        may_contain: impl Fn(&[u8]) -> Result<bool, String>,
    ) -> Outcome<()> {
        let mut reader = KeyReader::open_questions(keys, format, MAX_FILTER_KEY_LEN_BYTES)?;
        let bar = progress::bar(None, "looking up every key");
        let (mut asked, mut lost, mut named) = (0, 0, Vec::new());
        while let Some(next) = reader.next_key()? {
            asked += 1;
            progress::tick(&bar, asked);
            match may_contain(next.key) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(why) => return fail(format!("{}: {why}", reader.place())),
            }
            lost += 1;
            if lost <= NAMED_MAX {
                let key = String::from_utf8_lossy(next.written).into_owned();
                named.push((reader.place(), key));
            }
        }
        bar.finish_and_clear();
        if asked == 0 {
            note(keys, "no key was read, so no key was looked up; check the list");
        }
        self.is_probably_another_list = lost > 1 && lost > asked / 2;
        let (noun, what) = match self.is_probably_another_list {
            true => ("more denied key", ""),
            false => ("more false negative", "false negative: "),
        };
        for (place, key) in named {
            message(format_args!("{place}: {what}the filter denies {key:?}"));
        }
        if lost > NAMED_MAX {
            message(format_args!("and {}", text::count(lost - NAMED_MAX, noun)));
        }
        if self.is_probably_another_list {
            note(
                keys,
                format!(
                    "the filter denies {} of {}, as it denies keys that were never added; this is probably not the list \
                 of its keys; check the list, and its notation (--hex, --delimiter, --type)",
                    text::thousands(lost),
                    text::count(asked, "key")
                ),
            );
        }
        self.keys_asked = Some(asked);
        self.false_negatives = Some(lost);
        Ok(())
    }
}

fn describe(report: &Report) -> String {
    let mut text = match &report.damage {
        // The damage message names the file.
        Some(damage) => format!("{damage}\n"),
        // A bare filter has nothing to check; the line about it follows.
        None if matches!(report.walked, Some(Walked::Raw {})) => String::new(),
        None => format!("{}: sound\n", report.file),
    };
    if let Some(walked) = &report.walked {
        text += &format!("{}: {walked}\n", report.file);
    }
    if let (Some(asked), Some(lost)) = (report.keys_asked, report.false_negatives) {
        let asked = text::count(asked, "key");
        let lost = match report.is_probably_another_list {
            true => format!("{} denied; the list is probably not the list of its keys", text::thousands(lost)),
            false => text::count(lost, "false negative"),
        };
        text += &format!("{}: {asked} looked up, {lost}\n", report.file);
    }
    text
}
