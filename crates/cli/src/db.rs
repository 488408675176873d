//! `filterblock db`: reads and writes a store from the shell.

mod check;
mod read;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::filter_choice::{FilterChoice, RangeChoice};
use crate::keys::{KeyFormat, KeyReader, NO_PAIR};
use crate::prelude::*;
use crate::refused_value::prefix_choice;
use crate::secret::{HashArguments, SecretArguments};
use charts::text::quoted;
use filterblock_store::lsm::{Db, Durability, LogRecovery, MAX_KEY_LEN_BYTES, Options, PrefixChoice, WriteBatch};
use filterblock_store::{Error, Field};

/// The maximum number of pairs in one batch. A batch is one log record. With --sync, each batch is
/// synced once.
const BATCH_LEN: usize = 1_000;
/// The length of the encoded pairs at which a batch ends.
const BATCH_LEN_BYTES: usize = 1 << 20;
/// The maximum length of a line without --hex: the longest key, a tab and a value of 16 MiB.
const LINE_LEN_BYTES_MAX: usize = MAX_KEY_LEN_BYTES + 1 + (16 << 20);

const EXAMPLES: &str = "\
Examples:
  filterblock db put store/ apple red
  filterblock db get store/ apple
  filterblock db load store/ pairs.tsv --sync
  filterblock db scan store/ --from a --to b --limit 10
  filterblock db stats store/ --json
  filterblock db verify store/ || filterblock db repair store/

A key has at most 65,536 bytes. Only put and load create a store, in a missing or empty directory. A store created with --secret-file needs that file for \
every command. A store keeps the hash function with which it was created.

Opening a store replays its write-ahead log (WAL) and may write a new SST file. So even a command that only reads needs \
write permission for the directory. Only one process at a time can open a store.

Every command refuses a directory with files but without a store, such as a database of LevelDB or RocksDB, and changes nothing in it.

Exit status:
  0  done
  1  get: a key is absent; verify: the store is damaged; repair: keys may be lost, or the report lists doubts
  2  an error, or a directory that is not a store";

const PUT_EXAMPLES: &str = "\
Examples:
  filterblock db put store/ apple red
  filterblock db put store/ apple red --sync
  filterblock db put store/ --hex 6170706c65 726564

Exit status: 0 stored; 2 an error.";

const DELETE_EXAMPLES: &str = "\
Examples:
  filterblock db delete store/ apple

Exit status: 0 deleted, or the key was absent; 2 an error.";

const COMPACT_EXAMPLES: &str = "\
Examples:
  filterblock db compact store/
  filterblock db compact store/ --filter bumped-ribbon:fpr=0.01
  filterblock db compact store/ --prefix delimiter:/
  filterblock db compact store/ --range-filter grafite:fpr=0.01

Exit status: 0 compacted; 2 an error.";

const LOAD_EXAMPLES: &str = "\
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

/// Read, write, check and repair a store
#[derive(clap::Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub enum Command {
    /// Store a value under a key; creates the store if it does not exist
    #[command(after_long_help = PUT_EXAMPLES)]
    Put {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        write: WriteArguments,
        #[command(flatten)]
        notation: Notation,
        /// The key
        key: OsString,
        /// The value
        value: OsString,
    },
    Get(read::GetArguments),
    /// Delete a key; deleting an absent key is not an error
    #[command(after_long_help = DELETE_EXAMPLES)]
    Delete {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        write: WriteArguments,
        #[command(flatten)]
        notation: Notation,
        /// The key
        key: OsString,
    },
    Scan(read::ScanArguments),
    Load(LoadArguments),
    /// Flush, and compact everything into one sorted run with the filters of --filter and
    /// --range-filter
    #[command(after_long_help = COMPACT_EXAMPLES)]
    Compact {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        filter: FilterArguments,
    },
    Stats(check::StatsArguments),
    Repair(check::RepairArguments),
    Verify(check::VerifyArguments),
}

/// Store the pairs of a file; creates the store if it does not exist
#[derive(clap::Args)]
#[command(after_long_help = LOAD_EXAMPLES)]
pub struct LoadArguments {
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

/// The options to open a store.
#[derive(clap::Args)]
pub struct StoreArguments {
    /// The directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Open a store whose write-ahead log is damaged: keep the sound records, drop the others and
    /// report them
    #[arg(long)]
    salvage: bool,
    /// The prefixes of keys that filters hold beside the keys: fixed:N, capped:N, delimiter:BYTE,
    /// row-column:BYTE, none, or keep (the prefixes that the store was last opened with)
    ///
    /// Scans within one prefix skip SST files whose filter denies the prefix. BYTE is a character
    /// or 0xNN. If EXTRACTOR changes, the filters of older SST files answer "maybe" to every prefix
    /// until the files are compacted.
    #[arg(long, value_name = "EXTRACTOR", default_value_t, value_parser = prefix_choice)]
    prefix: PrefixChoice,
    #[command(flatten)]
    secret: SecretArguments,
}

/// The notation of keys and values on the command line, in files and on stdout.
#[derive(clap::Args)]
pub struct Notation {
    /// Keys and values are written in hexadecimal, two digits per byte
    #[arg(long)]
    hex: bool,
}

/// The options to write a store.
#[derive(clap::Args)]
pub struct WriteArguments {
    /// Sync the write-ahead log to the device after each write (load: after each batch)
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    hash: HashArguments,
}

/// The options for the filters of SST files.
#[derive(clap::Args)]
pub struct FilterArguments {
    /// The filters of the SST files that this command writes: by-level, a filter such as
    /// blocked-bloom:10, monkey:10 (a mean of 10 bits per key, spent where they save the most
    /// reads), or budget:64MiB (an approximate limit for all filters together)
    #[arg(long, value_name = "SPEC", default_value_t)]
    filter: FilterChoice,
    /// The range filters of the SST files that this command writes: none, grafite:fpr=0.01 (for
    /// short scans), grafite:L=1024:fpr=0.01 (for ranges of up to 1,024 integers), or
    /// above-bottom:SPEC (none for bottommost SST files, where most short scans find their keys)
    ///
    /// A scan skips an SST file if the range filter of the file denies the range of the scan. See
    /// docs/CHOOSING.md.
    #[arg(long, value_name = "SPEC", default_value_t)]
    range_filter: RangeChoice,
}

pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Put { store, write, notation, key, value } => {
            let (key, value) = (notation.decode(key)?, notation.decode(value)?);
            let db = store.open_to_write(write, true)?;
            db.put(&key, &value)?;
            close(db)
        }
        Command::Get(arguments) => read::get(arguments),
        Command::Delete { store, write, notation, key } => {
            let key = notation.decode(key)?;
            let db = store.open_to_write(write, false)?;
            db.delete(&key)?;
            close(db)
        }
        Command::Scan(arguments) => read::scan(arguments),
        Command::Load(arguments) => load(arguments),
        Command::Compact { store, filter } => {
            let db = store.open_with(filter.options(Options { create_if_missing: false, ..Options::default() }))?;
            let bar = progress::spinner("compacting");
            let compacted = db.compact_range(..);
            bar.finish_and_clear();
            compacted?;
            close(db)
        }
        Command::Stats(arguments) => check::stats(arguments),
        Command::Verify(arguments) => check::verify(arguments),
        Command::Repair(arguments) => check::repair(arguments),
    }
}

/// Prints the reports of the store on stderr, then closes the store.
fn close(db: Db) -> Outcome {
    print_reports(&db);
    db.close()?;
    Ok(Exit::Success)
}

/// Prints the reports of the store on stderr, for example about a damaged filter.
fn print_reports(db: &Db) {
    db.stats().reports.iter().for_each(message);
}

impl FilterArguments {
    fn options(&self, options: Options) -> Options {
        Options { filter: Some(self.filter.policy()), range_filter: self.range_filter.policy(), ..options }
    }
}

impl StoreArguments {
    fn open(&self) -> Outcome<Db> {
        self.open_with(Options { create_if_missing: false, ..Options::default() })
    }

    fn open_to_write(&self, write: &WriteArguments, create_if_missing: bool) -> Outcome<Db> {
        let durability = if write.sync { Durability::Sync } else { Durability::Buffered };
        let hash = write.hash.hash;
        self.open_with(write.filter.options(Options { create_if_missing, durability, hash, ..Options::default() }))
    }

    fn open_with(&self, options: Options) -> Outcome<Db> {
        check_dir(&self.dir)?;
        let recovery = if self.salvage { LogRecovery::Salvage } else { LogRecovery::Strict };
        let secret = self.secret.read()?;
        let prefix_extractor = self.prefix.clone();
        // A command reads few keys, so it does not read all keys of level 0 first.
        let run_map_trigger = None;
        let is_created = options.create_if_missing;
        let opened = Db::open(&self.dir, Options { recovery, secret, prefix_extractor, run_map_trigger, ..options });
        opened.map_err(|error| match error.in_file(&self.dir) {
            error if is_missing(&error) => self.explain_missing(error, is_created),
            error if !self.salvage && is_log_damage(&error) => {
                Failure::Damage(format!("{error}; --salvage opens the store, but drops the writes that it cannot read"))
            }
            error => explain_hash(&self.dir, self.secret.explain(error)),
        })
    }

    /// Explains that the store, or one of its files, does not exist, or cannot be created.
    fn explain_missing(&self, error: Error, is_created: bool) -> Failure {
        match &error {
            Error::InFile { path, .. } if *path != self.dir => {
                let (path, dir) = (path.display(), quoted(&self.dir.display().to_string()));
                let secret = self.secret.path().map(|file| quoted(&file.display().to_string()));
                let secret = secret.map_or_else(String::new, |file| format!(" --secret-file {file}"));
                Failure::Damage(format!(
                    "{path}: this file of the store is missing; restore it from a backup, or run \
                     \"filterblock db repair {dir}{secret}\""
                ))
            }
            _ if is_created => error.into(),
            _ => no_store(&self.dir),
        }
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error.root(), Error::Io(reason) if reason.kind() == io::ErrorKind::NotFound)
}

fn no_store(dir: &Path) -> Failure {
    Failure::about(dir, "there is no store here; check the path, or create a store with \"filterblock db put\"")
}

fn check_dir(dir: &Path) -> Outcome<()> {
    match dir.metadata() {
        Ok(found) if !found.is_dir() => refuse(dir, "not a directory; give the directory of a store"),
        _ => Ok(()),
    }
}

/// Explains the error for a `--hash` that differs from the hash function of the store. Returns
/// other failures unchanged.
fn explain_hash(dir: &Path, failure: Failure) -> Failure {
    match failure.library_error() {
        Some(filterblock::Error::Unexpected { field: filterblock::Field::HashId, found, expected }) => {
            Failure::about(dir, format!("the store hashes keys by {found}, not by {expected}; omit --hash"))
        }
        _ => failure,
    }
}

/// Returns whether `error` reports damage of a write-ahead log, which `--salvage` can skip. Damage
/// of a manifest has the same fields, but a manifest is always read strictly. An invalid batch in a
/// record with a correct checksum is an error with `--salvage`, too.
fn is_log_damage(error: &Error) -> bool {
    let Error::InFile { path, .. } = error else { return false };
    if path.extension().is_none_or(|extension| extension != "log") {
        return false;
    }
    let (Error::Corrupt { field, .. } | Error::ChecksumMismatch { field, .. }) = error.root() else { return false };
    matches!(field, Field::LogRecord | Field::LogSequence | Field::LogHeader)
}

impl Notation {
    fn decode(&self, written: &OsStr) -> Outcome<Vec<u8>> {
        KeyFormat { hex: self.hex, ..Default::default() }.argument(written)
    }

    fn write(&self, out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        if self.hex { out.write_all(text::hex(bytes).as_bytes()) } else { out.write_all(bytes) }
    }

    /// Writes a line with a key, a tab and its value.
    fn write_pair(&self, out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.write(out, key)?;
        out.write_all(b"\t")?;
        self.write(out, value)?;
        out.write_all(b"\n")
    }
}

fn load(arguments: &LoadArguments) -> Outcome {
    // The reader gets no --hex, because key and value are decoded separately, on either side of the
    // tab.
    let hex = arguments.notation.hex;
    let max = if hex { LINE_LEN_BYTES_MAX * 2 } else { LINE_LEN_BYTES_MAX };
    let format = KeyFormat { any_bytes: arguments.any_bytes, ..KeyFormat::default() };
    // Pairs are stored while the input is read, so its format must be known before.
    let lines = KeyReader::open(&arguments.file, format, max)?.without_options().hold_binary()?;
    let db = arguments.store.open_to_write(&arguments.write, true)?;
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
    let pairs = count(load.accepted, "pair");
    let stored = match is_kept {
        true => format!("{pairs} stored"),
        false => {
            format!("{pairs} accepted, but pairs since the last flush may be lost; load all pairs again, which is safe")
        }
    };
    note(&arguments.store.dir, stored);
    read?;
    written?;
    flushed?;
    closed?;
    Ok(Exit::Success)
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
                    return fail(format!("{place}, column {column}: {NO_PAIR}"));
                }
                (key, value) = (&key_bytes, &value_bytes);
            }
            if let Err(error) = self.batch.put(key, value) {
                return fail(format!("{}: {error}", self.lines.place()));
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
