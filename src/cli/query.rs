//! `filterblock query`: asks a filter block file about keys, in batches.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failure::{Exit, Failure, Outcome};
use super::keys::{KeyFormat, KeyReader, MAX_FILTER_KEY_LEN_BYTES};
use super::secret::SecretArguments;
use super::{block_file, output, text};
use crate::block::FilterBlock;
use crate::hash::KeyHash;
use crate::sstable::HeapBytes;

/// Keys asked at once: enough to overlap their cache misses, few enough for the answers of a slow source to keep up.
const BATCH_LEN: usize = 256;
/// A batch is also asked when its keys fill this much, so that huge keys are not collected.
const BATCH_LEN_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  filterblock query names.filter serde tokio
  filterblock query names.filter - < candidates.txt | grep ^maybe
  filterblock query names.filter --keys candidates.txt --count
  filterblock query --quiet names.filter serde && echo worth a look

Prints `maybe` or `absent`, a tab and the key as it was written, in the order asked; a filter never says \"present\". \
With --delimiter nul, each printed line ends with a zero byte too. With --json, a line is \
{\"answer\":\"maybe\",\"key\":\"serde\"}; a key that is not UTF-8 is given as \"key_hex\" instead. `-` is standard input when it \
is the only KEY.

A filter that holds prefixes of keys only would deny keys that are there; it is asked with --prefixes.

Exit status, as grep: 0 some key may be there; 1 all are absent; 2 an error.";

/// Ask a filter block file which keys are surely absent
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The filter block file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The keys, or `-` for standard input
    #[arg(value_name = "KEY", required_unless_present = "keys")]
    arguments: Vec<OsString>,
    /// A file with one key a line
    #[arg(long, value_name = "KEYFILE", conflicts_with = "arguments")]
    keys: Option<PathBuf>,
    /// Print only how many keys may be there and how many are absent
    #[arg(long, conflicts_with = "quiet")]
    count: bool,
    /// Print nothing; the exit status is the answer, given at the first `maybe`
    #[arg(short, long)]
    quiet: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// The keys given are prefixes, taken as they were for the filter
    #[arg(long)]
    prefixes: bool,
    #[command(flatten)]
    secret: SecretArguments,
    #[command(flatten)]
    format: KeyFormat,
}

/// Runs `filterblock query`.
pub fn run(arguments: &Arguments) -> Outcome {
    let filter = block_file::open_locked(&arguments.file)?;
    let filter = block_file::unlock(&arguments.file, filter, &arguments.secret)?;
    block_file::check_question(&arguments.file, &filter, arguments.prefixes)?;
    let mut query = Query { arguments, filter, batch: Batch::default(), out: output::stdout(), maybe: 0, absent: 0 };
    let from_file = match arguments.arguments.as_slice() {
        [only] if only == "-" => Some(Path::new("-")),
        _ => arguments.keys.as_deref(),
    };
    match from_file {
        Some(path) => query.ask_file(path)?,
        None => query.ask_arguments()?,
    }
    query.finish()
}

/// Keys waiting for their answers.
#[derive(Debug, Default)]
struct Batch {
    hashes: Vec<KeyHash>,
    written: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, hash: KeyHash, written: &[u8]) {
        self.hashes.push(hash);
        self.written.extend_from_slice(written);
        self.ends.push(self.written.len());
    }

    fn is_full(&self) -> bool {
        self.hashes.len() >= BATCH_LEN || self.written.len() >= BATCH_LEN_BYTES
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.written.clear();
        self.ends.clear();
    }
}

struct Query<'a, W> {
    arguments: &'a Arguments,
    filter: FilterBlock<HeapBytes>,
    batch: Batch,
    out: W,
    maybe: u64,
    absent: u64,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
}

/// `--count --json`.
#[derive(Debug, Serialize)]
struct Counts {
    maybe: u64,
    absent: u64,
}

impl<W: Write> Query<'_, W> {
    fn ask_arguments(&mut self) -> Outcome<()> {
        for written in &self.arguments.arguments {
            let key = self.arguments.format.argument(written)?;
            self.ask(&key, written.as_encoded_bytes())?;
        }
        Ok(())
    }

    fn ask_file(&mut self, path: &Path) -> Outcome<()> {
        let mut reader = KeyReader::open(path, self.arguments.format, MAX_FILTER_KEY_LEN_BYTES)?;
        while let Some(next) = reader.next_key()? {
            self.ask(next.key, next.written)?;
            if self.answered() {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing that is still to be read can change the exit status, and nothing is to be printed.
    fn answered(&self) -> bool {
        self.arguments.quiet && self.maybe > 0
    }

    fn ask(&mut self, key: &[u8], written: &[u8]) -> Outcome<()> {
        self.batch.push(self.filter.hasher().of(key), written);
        if self.batch.is_full() { self.answer() } else { Ok(()) }
    }

    /// Asks the filter about the batch and prints the answers.
    fn answer(&mut self) -> Outcome<()> {
        let mut answers = [false; BATCH_LEN];
        let Some(answers) = answers.get_mut(..self.batch.hashes.len()) else { return Ok(()) };
        self.filter.may_contain_batch(&self.batch.hashes, answers);
        let silent = self.arguments.quiet || self.arguments.count;
        let end_of_line = [self.arguments.format.delimiter.byte()];
        let mut start = 0;
        for (&maybe, &end) in answers.iter().zip(&self.batch.ends) {
            let written = self.batch.written.get(start..end).unwrap_or_default();
            start = end;
            *(if maybe { &mut self.maybe } else { &mut self.absent }) += 1;
            if silent {
                continue;
            }
            let printed = match self.arguments.json {
                true => print_json_line(&mut self.out, maybe, written),
                false => {
                    let answer: &[u8] = if maybe { b"maybe\t" } else { b"absent\t" };
                    self.out
                        .write_all(answer)
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
                true => output::json(&Counts { maybe, absent })?,
                false => format!("maybe\t{maybe}\nabsent\t{absent}\n"),
            };
            self.out.write_all(counts.as_bytes()).map_err(Failure::stdout)?;
        }
        self.out.flush().map_err(Failure::stdout)?;
        Ok(if maybe > 0 { Exit::Success } else { Exit::Negative })
    }
}

fn print_json_line(out: &mut impl Write, maybe: bool, written: &[u8]) -> std::io::Result<()> {
    let text = std::str::from_utf8(written).ok();
    let answer = if maybe { "maybe" } else { "absent" };
    let key_hex = if text.is_none() { Some(text::hex(written)) } else { None };
    serde_json::to_writer(&mut *out, &Line { answer, key: text, key_hex })?;
    out.write_all(b"\n")
}
