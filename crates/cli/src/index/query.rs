//! `filterblock index query`: asks which files may hold a key.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{CheckArguments, open, report_differences};
use crate::block_file::refuse_both;
use crate::foreign::{ColumnType, Encoding, ValueType, value_type};
use crate::keys::{KeyFormat, MAX_FILTER_KEY_LEN_BYTES, Questions, Refused, answer_line};
use crate::prelude::*;
use filterblock_parquet::PhysicalType;
use filterblock_parquet::index::{IndexReader, KeyType, Settings, hash};

/// The maximum number of keys in a batch from a file or the command line. The keys of a batch that
/// need the same row share one read.
const BATCH_LEN: usize = 16 << 10;
/// The maximum number of keys in a batch from a pipe or a terminal, whose writer may wait for
/// answers.
const STREAM_BATCH_LEN: usize = 256;
/// The number of bytes of keys at which a batch ends, so that large keys do not accumulate in
/// memory.
const BATCH_LEN_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  filterblock index query ids.index 42 1043
  filterblock index query ids.index --keys wanted.txt --json
  filterblock index query ids.index - < wanted.txt | grep ^maybe
  filterblock index query ids.index --check no --count --keys wanted.txt
  filterblock index query --quiet ids.index 42 && echo maybe

Output:
  For each key, in input order, one line per candidate file: `maybe`, a tab, the key as written, a tab, the path. A key \
without candidates gives `absent`, a tab and the key. `absent` is certain, `maybe` is not.
  --json prints lines such as {\"answer\":\"maybe\",\"key\":\"42\",\"files\":[\"a.parquet\"]}.
  `-` as the only KEY is standard input.

Keys:
  The values of a Parquet column are written in the type of the column (numbers in decimal, UUIDs in hexadecimal, bytes \
unchanged) or in the type of --type. With --hex they are the plain encoding, without the length of a byte array.
  Decimals are scaled: `2` is 2.00. Dates and times are written as 2024-02-29, 12:30:00.5 or 2024-02-29T12:30:00Z, with the \
zone if the column is in UTC (Z or +02:00), and without if not. FLOAT16 has no plain text: give bytes with --hex. A key that \
cannot be a value of the column is an error.

Changed files and damage:
  The files are checked before each batch of answers, as --check says. A batch has at most 16,384 keys of a file, or 256 keys \
of a pipe. If a pipe pauses within a batch, the answers come when the batch is full or the pipe ends.
  Changed, missing and unreadable files are candidates for every key. For the keys of a damaged row, all files are candidates. The changed \
files and these keys are counted on stderr. If the index does not open, the status is 2: search all files.

Exit status, as grep: 0 some key may be in a file; 1 all keys are absent from all files; 2 an error.";

/// Look up keys in an index: which files may hold them?
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The index
    #[arg(value_name = "INDEX")]
    pub index: PathBuf,
    #[command(flatten)]
    pub questions: Questions,
    /// Print only three numbers: the keys with candidates (`maybe`), the keys without (`absent`),
    /// and the candidates of all keys together
    #[arg(long, conflicts_with = "quiet")]
    pub count: bool,
    /// Print no answers; the exit status is the answer
    #[arg(short, long)]
    pub quiet: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub files: CheckArguments,
    /// The type of Parquet values: int32, int64, uint32, uint64, float, double, utf8, bytes or uuid
    #[arg(long = "type", value_parser = value_type(), value_name = "TYPE", hide_possible_values = true, conflicts_with = "hex")]
    pub value_type: Option<ValueType>,
    #[command(flatten)]
    pub format: KeyFormat,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let from_file = arguments.questions.file();
    refuse_both(&arguments.index, from_file)?;
    let index = open(&arguments.index)?;
    let encoding = encoding(arguments, index.settings())?;
    let mut query = Query {
        arguments,
        index,
        encoding,
        batch: Batch::default(),
        batch_len: if from_file.is_some_and(|path| !is_regular(path)) { STREAM_BATCH_LEN } else { BATCH_LEN },
        changed: HashSet::new(),
        out: output::stdout(),
        maybe: 0,
        absent: 0,
        candidates: 0,
    };
    query.check_files();
    arguments
        .questions
        .ask_each(arguments.format, MAX_FILTER_KEY_LEN_BYTES, true, |key, written| query.ask(key, written))?;
    query.finish()
}

/// Returns the encoding that turns written keys into the bytes that are hashed.
fn encoding(arguments: &Arguments, settings: &Settings) -> Outcome<Encoding> {
    let KeyType::Parquet { physical_type, type_len_bytes } = settings.key_type else {
        return match arguments.value_type {
            None => Ok(Encoding::Plain(None)),
            Some(_) => {
                refuse(&arguments.index, "--type is for Parquet values, and this index has keys of bytes; omit --type")
            }
        };
    };
    let is_fixed = physical_type == PhysicalType::FixedLenByteArray;
    let len_bytes = usize::try_from(type_len_bytes).ok().filter(|_| is_fixed);
    let logical = settings.logical_type.as_str();
    let column = ColumnType { physical: physical_type, len_bytes, logical, integer_bits: None };
    column
        .encoding(arguments.format.hex, arguments.value_type)
        .map_err(|why| Failure::about(&arguments.index, format!("column {:?} {why}", settings.column)))
}

/// Returns whether the keys come from a regular file.
fn is_regular(path: &Path) -> bool {
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
    path.metadata().is_ok_and(|found| found.is_file())
}

/// Keys that wait for their answers.
#[derive(Default)]
struct Batch {
    /// The hashes of all encodings of all keys.
    hashes: Vec<u64>,
    /// For each key, the end of its hashes in `hashes`. A key may have several encodings, such as
    /// +0.0 and -0.0, and has a hash for each.
    hash_ends: Vec<usize>,
    written: Vec<u8>,
    ends: Vec<usize>,
}

struct Query<'a, W> {
    arguments: &'a Arguments,
    index: IndexReader<File>,
    encoding: Encoding,
    batch: Batch,
    batch_len: usize,
    /// The positions in the index of the changed, missing and unreadable files. These files are
    /// candidates for every key.
    changed: HashSet<usize>,
    out: W,
    maybe: u64,
    absent: u64,
    /// The candidates of all keys together.
    candidates: u64,
}

impl<W: Write> Query<'_, W> {
    /// Adds a key with all its encodings to the batch. Answers the batch if it is full. Returns `false`:
    /// the next key is asked, too.
    fn ask(&mut self, key: &[u8], written: &[u8]) -> Result<bool, Refused> {
        let hashes = RefCell::new(std::mem::take(&mut self.batch.hashes));
        // The answer `false` makes `Encoding::ask` try the next encoding of the value.
        let asked = self.encoding.ask(key, |encoded| {
            hashes.borrow_mut().push(hash(encoded));
            false
        });
        self.batch.hashes = hashes.into_inner();
        asked.map_err(Refused::Key)?;
        self.batch.hash_ends.push(self.batch.hashes.len());
        self.batch.written.extend_from_slice(written);
        self.batch.ends.push(self.batch.written.len());
        if self.batch.ends.len() >= self.batch_len || self.batch.written.len() >= BATCH_LEN_BYTES {
            self.answer()?;
        }
        Ok(false)
    }

    /// Looks, as --check says, for files that have changed since they were indexed, are missing or
    /// cannot be read. Such a file becomes a candidate for every key. A message counts it once and
    /// may name it.
    fn check_files(&mut self) {
        let mut differences = self.arguments.files.differences(&self.index);
        differences.retain(|(file, _)| self.changed.insert(*file));
        report_differences(&self.arguments.index, &self.index, &differences);
        differences.iter().for_each(|(file, _)| self.index.distrust(*file));
    }

    /// Looks up the keys of the batch in the index, and counts the answers. Prints the answers
    /// unless --quiet or --count is given. The files are checked for each batch: they may change
    /// while the command waits for keys.
    fn answer(&mut self) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.ends.is_empty() {
            return Ok(());
        }
        self.check_files();
        let mut candidates: Vec<Vec<usize>> = vec![Vec::new(); batch.ends.len()];
        self.index.candidates_of_many(&batch.hashes, |position, files, _| {
            let key = batch.hash_ends.partition_point(|&end| end <= position);
            if let Some(found) = candidates.get_mut(key) {
                found.extend_from_slice(files);
            }
        });
        let mut start = 0;
        for (mut files, &end) in candidates.into_iter().zip(&batch.ends) {
            let written = batch.written.get(start..end).unwrap_or_default();
            start = end;
            files.sort_unstable();
            files.dedup();
            *(if files.is_empty() { &mut self.absent } else { &mut self.maybe }) += 1;
            self.candidates += files.len() as u64;
            if !self.arguments.quiet && !self.arguments.count {
                self.print(written, &files).map_err(Failure::stdout)?;
            }
        }
        self.out.flush().map_err(Failure::stdout)
    }

    fn print(&mut self, written: &[u8], files: &[usize]) -> std::io::Result<()> {
        let paths = files.iter().filter_map(|&file| self.index.files().get(file)).map(|file| &file.identity.path);
        if self.arguments.json {
            let mut line = answer_line(!files.is_empty(), "key", written);
            line.insert("files".into(), paths.map(|path| path.display().to_string()).collect());
            serde_json::to_writer(&mut self.out, &line)?;
            return self.out.write_all(b"\n");
        }
        let end = [self.arguments.format.delimiter.byte()];
        if files.is_empty() {
            self.out.write_all(&[output::absent().as_bytes(), b"\t", written, &end].concat())?;
        }
        for path in paths {
            self.out.write_all(&[b"maybe\t", written, b"\t", path.as_os_str().as_encoded_bytes(), &end].concat())?;
        }
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        self.answer()?;
        let counts = self.index.counts();
        let all = "so all files are candidates for the keys of these lookups";
        if counts.damaged > 0 {
            let lookups = count(counts.damaged, "lookup");
            note(&self.arguments.index, format!("{lookups} met a damaged row, {all}; build the index again"));
        }
        if counts.unreadable > 0 {
            let lookups = count(counts.unreadable, "lookup");
            let advice = "check the device, and query again";
            note(&self.arguments.index, format!("{lookups} met an unreadable row, {all}; {advice}"));
        }
        let Self { maybe, absent, candidates, .. } = self;
        if self.arguments.count {
            let printed = match self.arguments.json {
                true => output::json(&json!({"maybe": maybe, "absent": absent, "candidates": candidates}))?,
                false => format!("maybe\t{maybe}\nabsent\t{absent}\ncandidates\t{candidates}\n"),
            };
            self.out.write_all(printed.as_bytes()).map_err(Failure::stdout)?;
        }
        self.out.flush().map_err(Failure::stdout)?;
        output::complete(if maybe > 0 { Exit::Success } else { Exit::Negative }, maybe > 0)
    }
}
