//! `filterblock query`: looks up keys in a filter block file or in a file of another engine.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use crate::block_file::{self, FilterFile};
use crate::foreign::{Asked, FileArguments, Question, ValueType, value_type};
use crate::index;
use crate::keys::{KeyFormat, KeyRange, MAX_FILTER_KEY_LEN_BYTES, Questions, Refused, answer_line};
use crate::prelude::*;
use crate::secret::SecretArguments;
use filterblock::{Added, AlignedBytes, FilterBlock, KeyHash};

/// The maximum number of keys in a batch: enough to overlap their cache misses.
const BATCH_LEN: usize = 256;
/// The number of bytes of keys at which a batch ends, so that large keys do not accumulate in
/// memory.
const BATCH_LEN_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  filterblock query names.filter serde tokio
  filterblock query names.filter - < candidates.txt | grep ^maybe
  filterblock query names.filter --keys candidates.txt --count
  filterblock query --quiet names.filter serde && echo maybe
  filterblock query ids.filter --ranges user0100..user0200
  filterblock query 000005.ldb - < candidates.txt
  filterblock query rows.parquet --column user.id --row-group 3 1042 1043
  filterblock query rows.parquet --column user.id --hex 1204000000000000
  filterblock query part.filter --format rocksdb-filter serde

Output:
  One line per key, in input order: `maybe` or `absent`, a tab, and the key as written. `absent` is certain, `maybe` is not.
  With --delimiter nul, each output line ends with a zero byte too, except with --json or --count.
  --json prints lines such as {\"answer\":\"maybe\",\"key\":\"serde\"}. If the key is not UTF-8, the line has \"key_hex\".
  `-` as the only KEY is standard input.

Filters of prefixes:
  If a filter holds only prefixes of keys, query prefixes with --prefixes.

Ranges:
  With --ranges, each KEY is a range: `LOWER..UPPER`, or `LOWER..=UPPER` to include UPPER. A range without LOWER \
or UPPER is unbounded on that side.
  Bounds are bytes, in byte order; with --hex, each bound is in hexadecimal. The filter must be a range filter.
  A lower bound above the upper bound is an error.

Other files of filterblock:
  An SST file answers like a get: a key outside of its key range is absent, too. An index answers as \
\"filterblock index query\". A pipe is read to its end before the first answer.

Files of other engines (docs/FOREIGN.md, docs/PARQUET.md):
  A LevelDB or RocksDB table gives the answers of its engine. Without a filter, a RocksDB table answers `maybe` to \
every key, and a LevelDB table to every key up to the end of its last data block. With --prefixes, a RocksDB table \
answers like an iterator that stays within the prefix of each key.
  Parquet values are written in the type of their column (numbers in decimal, UUIDs in hexadecimal, bytes unchanged) or \
in the type of --type. Decimals are scaled: `2` is 2.00. Dates and times are written as 2024-02-29, \
12:30:00.5 or 2024-02-29T12:30:00Z, with the zone if the column is in UTC (Z or +02:00), and without if not. A value that the \
column cannot hold is an error.
  With --hex they are the plain encoding, without the length of a byte array.
  Without --row-group, the answer is `maybe` if any row group answers `maybe`.
  A table with filters of filterblock may need --secret-file; a LevelDB table also --seed and --hash.

Exit status, as grep: 0 some key may be present; 1 all keys are absent; 2 an error.";

/// Look up keys in a filter: a key is absent or maybe present
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file, another file of filterblock (an SST file, an index, a FileFilter), or a
    /// file of another engine; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    questions: Questions,
    /// Print only two numbers: the answers `maybe` and the answers `absent`
    #[arg(long, conflicts_with = "quiet")]
    count: bool,
    /// Print nothing and stop at the first `maybe`; the exit status is the answer
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The keys are prefixes, as the prefix extractor of the filter takes them from whole keys
    #[arg(long)]
    prefixes: bool,
    /// The keys are ranges: LOWER..UPPER, or LOWER..=UPPER to include UPPER
    #[arg(long, conflicts_with = "prefixes")]
    ranges: bool,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    foreign: FileArguments,
    /// The type of Parquet values: int32, int64, uint32, uint64, float, double, utf8, bytes or uuid
    #[arg(long = "type", value_parser = value_type(), value_name = "TYPE", hide_possible_values = true)]
    #[arg(conflicts_with = "hex", help_heading = "Files of other engines")]
    value_type: Option<ValueType>,
    #[command(flatten)]
    format: KeyFormat,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    block_file::refuse_both(path, arguments.questions.file())?;
    if block_file::is_index(path, &arguments.foreign)? {
        return ask_index(arguments);
    }
    match block_file::open(path, &arguments.foreign)? {
        FilterFile::Native(filter) => {
            block_file::refuse_type(path, arguments.value_type)?;
            let filter = block_file::unlock(path, filter, &arguments.secret)?;
            if arguments.ranges {
                block_file::check_ranges(path, &filter)?;
            } else {
                block_file::check_question(path, &filter, arguments.prefixes)?;
            }
            ask_all(arguments, Target::Native(filter))
        }
        FilterFile::Foreign(file) if arguments.ranges => refuse(
            path,
            format!("--ranges is for filter blocks, and this is a {}; query keys without --ranges", file.kind()),
        ),
        FilterFile::Foreign(mut file) => {
            file.unlock(path, &arguments.foreign, &arguments.secret)?;
            let question =
                Question { prefixes: arguments.prefixes, hex: arguments.format.hex, value_type: arguments.value_type };
            let asked = Asked::new(path, &file, &arguments.foreign, question)?;
            for remark in asked.remark().map(str::to_owned).into_iter().chain(file.unusable_filters()) {
                note(path, remark);
            }
            ask_all(arguments, Target::Foreign(asked))
        }
    }
}

fn ask_index(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    arguments.secret.refuse(path)?;
    if arguments.prefixes || arguments.ranges {
        return refuse(path, "an index answers for keys only; omit --prefixes and --ranges");
    }
    index::query::run(&index::query::Arguments {
        index: path.clone(),
        questions: arguments.questions.clone(),
        count: arguments.count,
        quiet: arguments.quiet,
        json: arguments.json,
        files: index::CheckArguments::default(),
        value_type: arguments.value_type,
        format: arguments.format,
    })
}

fn ask_all(arguments: &Arguments, target: Target<'_>) -> Outcome {
    let mut query = Query { arguments, target, batch: Batch::default(), out: output::stdout(), maybe: 0, absent: 0 };
    // The bounds of a range are decoded one by one later, so a range is read as plain text. An empty
    // line is no range, so messages must not suggest --keep-empty.
    let is_plain = !arguments.ranges;
    let format = KeyFormat { hex: arguments.format.hex && is_plain, ..arguments.format };
    arguments.questions.ask_each(format, MAX_FILTER_KEY_LEN_BYTES, is_plain, |key, written| query.ask(key, written))?;
    query.finish()
}

enum Target<'a> {
    Native(FilterBlock<AlignedBytes>),
    Foreign(Asked<'a>),
}

/// Keys that wait for their answers.
#[derive(Default)]
struct Batch {
    /// The hashes of the keys. Empty for range filters and for filters of other engines.
    hashes: Vec<KeyHash>,
    /// The answers, `true` for "maybe". Range filters and filters of other engines answer each key
    /// before it is pushed. Other filter blocks answer when the batch is complete.
    answers: Vec<bool>,
    written: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, written: &[u8]) {
        self.written.extend_from_slice(written);
        self.ends.push(self.written.len());
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_LEN || self.written.len() >= BATCH_LEN_BYTES
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.answers.clear();
        self.written.clear();
        self.ends.clear();
    }
}

struct Query<'a, W> {
    arguments: &'a Arguments,
    target: Target<'a>,
    batch: Batch,
    out: W,
    maybe: u64,
    absent: u64,
}

impl<W: Write> Query<'_, W> {
    /// Adds a key to the batch, and answers the batch if it is full. Returns `true` if the remaining keys
    /// can change the exit status only by an error, and cannot change the visible output. A closed pipe
    /// does not end the search for the first `maybe`: otherwise the exit status could wrongly say that
    /// all keys are absent.
    fn ask(&mut self, key: &[u8], written: &[u8]) -> Result<bool, Refused> {
        match &self.target {
            Target::Native(filter) if self.arguments.ranges => {
                let range = KeyRange::parse(key, self.arguments.format.hex).map_err(Refused::Key)?;
                self.batch.answers.push(filter.may_contain_range(range.lower(), range.upper()));
            }
            // A range filter needs the bytes of a key.
            Target::Native(filter) if filter.metadata().added == Added::Ranges => {
                self.batch.answers.push(filter.may_contain(filter.hasher().key(key)));
            }
            Target::Native(filter) if self.arguments.prefixes => {
                let extractor = filter.metadata().extractor.unwrap_or_default();
                self.batch.answers.push(filter.may_contain_prefix(extractor, filter.hasher().key(key)));
            }
            Target::Native(filter) => self.batch.hashes.push(filter.hasher().of(key)),
            Target::Foreign(asked) => self.batch.answers.push(asked.may_contain(key).map_err(Refused::Key)?),
        }
        self.batch.push(written);

        // --quiet ends at the first "maybe", so it does not collect keys.
        if self.arguments.quiet || self.batch.is_full() {
            self.answer()?;
        }
        Ok((self.arguments.quiet || output::reader_gone()) && self.maybe > 0)
    }

    /// Queries the filter block for the hashes of the batch, counts the answers, and empties the
    /// batch. Prints the answers unless --quiet or --count is given.
    fn answer(&mut self) -> Outcome<()> {
        if let Target::Native(filter) = &self.target
            && !self.batch.hashes.is_empty()
        {
            self.batch.answers.resize(self.batch.hashes.len(), false);
            filter.may_contain_batch(&self.batch.hashes, &mut self.batch.answers);
        }
        let silent = self.arguments.quiet || self.arguments.count;
        let end_of_line = [self.arguments.format.delimiter.byte()];
        let mut start = 0;
        for (&maybe, &end) in self.batch.answers.iter().zip(&self.batch.ends) {
            let written = self.batch.written.get(start..end).unwrap_or_default();
            start = end;
            *(if maybe { &mut self.maybe } else { &mut self.absent }) += 1;
            if silent {
                continue;
            }
            let printed = match self.arguments.json {
                true => {
                    let name = if self.arguments.ranges { "range" } else { "key" };
                    serde_json::to_writer(&mut self.out, &answer_line(maybe, name, written))
                        .map_err(std::io::Error::from)
                        .and_then(|()| self.out.write_all(b"\n"))
                }
                false => {
                    let answer = if maybe { "maybe" } else { output::absent() };
                    self.out
                        .write_all(answer.as_bytes())
                        .and_then(|()| self.out.write_all(b"\t"))
                        .and_then(|()| self.out.write_all(written))
                        .and_then(|()| self.out.write_all(&end_of_line))
                }
            };
            printed.map_err(Failure::stdout)?;
        }
        self.batch.clear();
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        self.answer()?;
        let Self { maybe, absent, .. } = self;
        if self.arguments.count {
            let counts = match self.arguments.json {
                true => output::json(&json!({"maybe": maybe, "absent": absent}))?,
                false => format!("maybe\t{maybe}\nabsent\t{absent}\n"),
            };
            self.out.write_all(counts.as_bytes()).map_err(Failure::stdout)?;
        }
        self.out.flush().map_err(Failure::stdout)?;
        output::complete(if maybe > 0 { Exit::Success } else { Exit::Negative }, maybe > 0)
    }
}
