//! `filterblock index query`: asks which files may hold a key.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::foreign::value::{ColumnType, Encoding};
use super::super::foreign::{ValueType, value_type};
use super::super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::super::output::{self, message};
use super::super::{held, text};
use super::opened::{self, CheckArguments};
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
  Decimals are scaled: `2` is 2.00. Dates, times, timestamps and FLOAT16 have no plain text: give the stored number with \
--type, or bytes with --hex. A key that cannot be a value of the column is an error.

Changed files and damage:
  The files are checked before each batch of answers, as --check says. A batch has at most 16,384 keys of a file, or 256 keys \
of a pipe. If a pipe pauses within a batch, the answers come when the batch is full or the pipe ends.
  Changed, missing and unreadable files are candidates for every key. For the keys of a damaged row, all files are candidates. The changed \
files and these keys are counted on stderr. If the index does not open, the status is 2: search all files.

Exit status, as grep: 0 some key may be in a file; 1 all keys are absent from all files; 2 an error.";

/// Look up keys in an index: which files may hold them?
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The index
    #[arg(value_name = "INDEX")]
    pub index: PathBuf,
    /// The keys, or `-` for standard input
    #[arg(value_name = "KEY", required_unless_present = "keys", allow_negative_numbers = true)]
    pub arguments: Vec<OsString>,
    /// A file with one key per line
    #[arg(long, value_name = "KEYFILE", conflicts_with = "arguments")]
    pub keys: Option<PathBuf>,
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

/// Runs `filterblock index query`.
pub fn run(arguments: &Arguments) -> Outcome {
    let from_file = match arguments.arguments.as_slice() {
        [only] if only == "-" => Some(Path::new("-")),
        _ => arguments.keys.as_deref(),
    };
    held::refuse_both(&arguments.index, from_file)?;
    let index = opened::open(&arguments.index)?;
    let encoding = encoding(arguments, index.settings())?;
    let out = output::stdout();
    let (batch, counts, changed) = (Batch::default(), Counts::default(), HashSet::new());
    let mut query = Query { arguments, index, encoding, batch, batch_len: BATCH_LEN, changed, out, counts };
    query.check_files();
    match from_file {
        Some(path) => query.ask_file(path)?,
        None => query.ask_arguments()?,
    }
    query.finish()
}

/// Returns the encoding that turns written keys into the bytes that are hashed.
fn encoding(arguments: &Arguments, settings: &Settings) -> Outcome<Encoding> {
    let path = arguments.index.display();
    let KeyType::Parquet { physical_type, type_len_bytes } = settings.key_type else {
        return match arguments.value_type {
            None => Ok(Encoding::Plain(None)),
            Some(_) => Err(Failure::Message(format!(
                "{path}: --type is for Parquet values, and this index has keys of bytes; omit --type"
            ))),
        };
    };
    let is_fixed = physical_type == PhysicalType::FixedLenByteArray;
    let len_bytes = usize::try_from(type_len_bytes).ok().filter(|_| is_fixed);
    let logical = settings.logical_type.as_str();
    let column = ColumnType { physical: physical_type, len_bytes, logical, integer_bits: None };
    column
        .encoding(arguments.format.hex, arguments.value_type)
        .map_err(|why| Failure::Message(format!("{path}: column {:?} {why}", settings.column)))
}

/// Returns whether the keys come from a regular file.
fn is_regular(path: &Path) -> bool {
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
    path.metadata().is_ok_and(|found| found.is_file())
}

/// Keys that wait for their answers.
#[derive(Debug, Default)]
struct Batch {
    /// The hashes of all encodings of all keys.
    hashes: Vec<u64>,
    /// For each key, the end of its hashes in `hashes`. A key may have several encodings, such as
    /// +0.0 and -0.0, and has a hash for each.
    hash_ends: Vec<usize>,
    written: Vec<u8>,
    ends: Vec<usize>,
}

/// The numbers that `--count` prints.
#[derive(Debug, Default, Serialize)]
struct Counts {
    maybe: u64,
    absent: u64,
    candidates: u64,
}

/// A line of the output of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    files: Vec<String>,
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
    counts: Counts,
}

impl<W: Write> Query<'_, W> {
    fn ask_arguments(&mut self) -> Outcome<()> {
        for written in &self.arguments.arguments {
            let key = self.arguments.format.argument(written)?;
            let place = || format!("argument {:?}", written.to_string_lossy());
            self.ask(&key, written.as_encoded_bytes(), place)?;
        }
        Ok(())
    }

    fn ask_file(&mut self, path: &Path) -> Outcome<()> {
        let mut reader = KeyReader::open_questions(path, self.arguments.format, MAX_FILTER_KEY_LEN_BYTES)?;
        if !is_regular(path) {
            self.batch_len = STREAM_BATCH_LEN;
        }
        let mut line = (Vec::new(), Vec::new());
        while let Some(next) = reader.next_key()? {
            line.0.clear();
            line.1.clear();
            line.0.extend_from_slice(next.key);
            line.1.extend_from_slice(next.written);
            self.ask(&line.0, &line.1, || reader.place())?;
        }
        Ok(())
    }

    /// Adds a key with all its encodings to the batch. Answers the batch if it is full.
    fn ask(&mut self, key: &[u8], written: &[u8], place: impl Fn() -> String) -> Outcome<()> {
        let hashes = std::cell::RefCell::new(std::mem::take(&mut self.batch.hashes));
        // The answer `false` makes `Encoding::ask` try the next encoding of the value.
        let asked = self.encoding.ask(key, |encoded| {
            hashes.borrow_mut().push(hash(encoded));
            false
        });
        self.batch.hashes = hashes.into_inner();
        asked.map_err(|why| Failure::Message(format!("{}: {why}", place())))?;
        self.batch.hash_ends.push(self.batch.hashes.len());
        self.batch.written.extend_from_slice(written);
        self.batch.ends.push(self.batch.written.len());
        let is_full = self.batch.ends.len() >= self.batch_len || self.batch.written.len() >= BATCH_LEN_BYTES;
        if is_full { self.answer() } else { Ok(()) }
    }

    /// Looks, as --check says, for files that have changed since they were indexed, are missing or
    /// cannot be read. Such a file becomes a candidate for every key. A message counts it once and
    /// may name it.
    fn check_files(&mut self) {
        let mut differences = self.arguments.files.differences(&self.index);
        differences.retain(|(file, _)| self.changed.insert(*file));
        opened::report_differences(&self.arguments.index, &self.index, &differences);
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
            *(if files.is_empty() { &mut self.counts.absent } else { &mut self.counts.maybe }) += 1;
            self.counts.candidates += files.len() as u64;
            if !self.arguments.quiet && !self.arguments.count {
                self.print(written, &files).map_err(Failure::stdout)?;
            }
        }
        self.out.flush().map_err(Failure::stdout)
    }

    fn print(&mut self, written: &[u8], files: &[usize]) -> std::io::Result<()> {
        let paths = files.iter().filter_map(|&file| self.index.files().get(file)).map(|file| &file.identity.path);
        if self.arguments.json {
            let text = std::str::from_utf8(written).ok();
            let line = Line {
                answer: if files.is_empty() { "absent" } else { "maybe" },
                key: text,
                key_hex: if text.is_none() { Some(text::hex(written)) } else { None },
                files: paths.map(|path| path.display().to_string()).collect(),
            };
            serde_json::to_writer(&mut self.out, &line)?;
            return self.out.write_all(b"\n");
        }
        let end = [self.arguments.format.delimiter.byte()];
        if files.is_empty() {
            self.out.write_all(&[b"absent\t", written, &end].concat())?;
        }
        for path in paths {
            self.out.write_all(&[b"maybe\t", written, b"\t", path.as_os_str().as_encoded_bytes(), &end].concat())?;
        }
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        self.answer()?;
        let counts = self.index.counts();
        let index = self.arguments.index.display();
        if counts.damaged > 0 {
            message(format_args!(
                "{index}: {} met a damaged row, so all files are candidates for the keys of these lookups; build the \
                 index again",
                text::count(counts.damaged, "lookup")
            ));
        }
        if counts.unreadable > 0 {
            message(format_args!(
                "{index}: {} met an unreadable row, so all files are candidates for the keys of these lookups; check \
                 the device, and query again",
                text::count(counts.unreadable, "lookup")
            ));
        }
        if self.arguments.count {
            let Counts { maybe, absent, candidates } = self.counts;
            let printed = match self.arguments.json {
                true => output::json(&self.counts)?,
                false => format!("maybe\t{maybe}\nabsent\t{absent}\ncandidates\t{candidates}\n"),
            };
            self.out.write_all(printed.as_bytes()).map_err(Failure::stdout)?;
        }
        self.out.flush().map_err(Failure::stdout)?;
        let is_maybe = self.counts.maybe > 0;
        output::complete(if is_maybe { Exit::Success } else { Exit::Negative }, is_maybe)
    }
}
