//! `filterblock db load`: stores the pairs of a file.

use std::path::PathBuf;

use super::super::failure::{Exit, Failure, Outcome};
use super::super::keys::{KeyFormat, KeyReader, NO_PAIR};
use super::super::output::message;
use super::super::{progress, text};
use super::{IfMissing, Notation, StoreArguments, WriteArguments, print_reports};
use filterblock_store::lsm::{Db, MAX_KEY_LEN_BYTES, WriteBatch};

/// The maximum number of pairs in one batch. A batch is one log record. With --sync, each batch is
/// synced once.
const BATCH_LEN: usize = 1_000;
/// The length of the encoded pairs at which a batch ends.
const BATCH_LEN_BYTES: usize = 1 << 20;
/// The maximum length of a line without --hex: the longest key, a tab and a value of 16 MiB.
const LINE_LEN_BYTES_MAX: usize = MAX_KEY_LEN_BYTES + 1 + (16 << 20);

const EXAMPLES: &str = "\
Examples:
  filterblock db load store/ pairs.tsv
  sort pairs.tsv | filterblock db load store/ - --sync

Input:
  A line is a key, a tab and a value. A line without a tab is a key with an empty value; such lines are counted on stderr. \
Empty lines are skipped.
  A line that cannot be stored is an error with its line number. All lines before it are stored.

Durability:
  When the command reports pairs as stored, they are on the device.
  Pairs are written in batches of up to 1,000. A killed process loses the batch that it has not yet written.
  With --sync every batch is synced. Otherwise only each flush of a memtable is synced, and the last flush comes at the end.
  Without --sync, a killed process may also lose the batches of about the last 0.1 s. If the machine crashes or the device fails, \
a load without --sync may lose all pairs that were not flushed.
  Loading the same pairs again is safe: it stores the same values again.

Exit status: 0 all pairs are stored; 2 an error.";

/// Store the pairs of a file; creates the store if it does not exist
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Lines of key, tab, value; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    write: WriteArguments,
    #[command(flatten)]
    notation: Notation,
    /// Take the lines of any file, even of a Parquet file, an SST file, a compressed file or text
    /// in UTF-16
    #[arg(long)]
    any_bytes: bool,
}

/// Runs `filterblock db load`.
pub fn run(arguments: &Arguments) -> Outcome {
    // The reader gets no --hex, because key and value are decoded separately, on either side of the
    // tab.
    let hex = arguments.notation.hex;
    let max = if hex { LINE_LEN_BYTES_MAX * 2 } else { LINE_LEN_BYTES_MAX };
    let format = KeyFormat { any_bytes: arguments.any_bytes, ..KeyFormat::default() };
    // Pairs are stored while the input is read, so its format must be known before.
    let lines = KeyReader::open(&arguments.file, format, max)?.without_options().hold_binary()?;
    let db = arguments.store.open_to_write(&arguments.write, IfMissing::Create)?;
    let mut load = Load { lines, hex, batch: WriteBatch::new(), accepted: 0, tabless: 0, first_tabless: None };
    // The pairs before a bad line are stored too. The message below counts them.
    let read = load.read_all(&db);
    let written = load.write(&db);
    let flushed = db.flush();
    print_reports(&db);
    let closed = db.close();
    if let Some(place) = &load.first_tabless {
        let others = match load.tabless {
            1 => String::new(),
            all => format!(" (also {} after it)", text::count(all - 1, "line")),
        };
        message(format_args!("{place} has no tab, so the line is a key with an empty value{others}"));
    }
    let is_kept = load.accepted == 0 || arguments.write.sync || (flushed.is_ok() && closed.is_ok());
    message(format_args!("{}: {}", arguments.store.dir().display(), outcome(load.accepted, is_kept)));
    read?;
    written?;
    flushed?;
    closed?;
    Ok(Exit::Success)
}

fn outcome(accepted: u64, is_kept: bool) -> String {
    let pairs = text::count(accepted, "pair");
    match is_kept {
        true => format!("{pairs} stored"),
        false => {
            format!("{pairs} accepted, but pairs since the last flush may be lost; load all pairs again, which is safe")
        }
    }
}

struct Load {
    lines: KeyReader,
    hex: bool,
    batch: WriteBatch,
    accepted: u64,
    /// The number of lines without a tab, and the place of the first.
    tabless: u64,
    first_tabless: Option<String>,
}

impl Load {
    fn read_all(&mut self, db: &Db) -> Outcome<()> {
        let bar = progress::bar(None, "loading pairs");
        let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
        while let Some(line) = self.lines.next_key()? {
            let tab = line.key.iter().position(|&byte| byte == b'\t');
            let (mut key, mut value) = line.key.split_at(tab.unwrap_or(line.key.len()));
            value = value.get(1..).unwrap_or_default();
            if self.hex {
                if let Some(column) = unhex_pair(key, value, &mut key_bytes, &mut value_bytes) {
                    let place = self.lines.place();
                    return Err(Failure::Message(format!("{place}, column {column}: {NO_PAIR}")));
                }
                (key, value) = (&key_bytes, &value_bytes);
            }
            if let Err(error) = self.batch.put(key, value) {
                return Err(Failure::Message(format!("{}: {error}", self.lines.place())));
            }
            if tab.is_none() {
                self.tabless += 1;
                self.first_tabless.get_or_insert_with(|| self.lines.place());
            }
            if self.batch.len() >= BATCH_LEN || self.batch.len_bytes() >= BATCH_LEN_BYTES {
                self.write(db)?;
                bar.set_position(self.accepted);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn write(&mut self, db: &Db) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        let len = batch.len() as u64;
        db.write(batch)?;
        self.accepted += len;
        Ok(())
    }
}

/// Decodes both sides of the tab. Returns the column of the first bad or missing digit, counted
/// from 1, or `None` if all digits are good.
fn unhex_pair(key: &[u8], value: &[u8], key_bytes: &mut Vec<u8>, value_bytes: &mut Vec<u8>) -> Option<usize> {
    key_bytes.clear();
    value_bytes.clear();
    if let Err(at) = text::unhex(key, key_bytes) {
        return Some(at + 1);
    }
    text::unhex(value, value_bytes).err().map(|at| key.len() + 1 + at + 1)
}
