//! `filterblock db`: a store from the shell.

mod load;
mod repair;
mod scan;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::failure::{Exit, Failure, Outcome};
use super::filter_choice::FilterChoice;
use super::output::{self, message};
use super::secret::{HashArguments, SecretArguments};
use super::{progress, text};
use filterblock_store::lsm::{Db, Durability, LogRecovery, Options};
use filterblock_store::{Error, Field};

const EXAMPLES: &str = "\
Examples:
  filterblock db put store/ apple red
  filterblock db get store/ apple
  filterblock db load store/ pairs.tsv --sync
  filterblock db scan store/ --from a --to b --limit 10
  filterblock db stats store/ --json
  filterblock db verify store/ || filterblock db repair store/

Keys are up to 65,536 bytes. Only put and load make a store where there is none. A store that is made with --secret-file
needs that file each time.

Opening a store replays its log, so that also a command that only reads needs the right to write to the directory, and \
may turn logged pairs into a table. Only one command at a time can have a store open.

A directory is a store only if at least one of its files certainly is a store's. Every command refuses any other directory, \
such as a database of LevelDB or RocksDB, and changes nothing in it.

Exit status: 0 done; 1 the key is absent (get), the store is damaged (verify), or keys may be lost (repair); 2 an error, \
or the directory is refused.";

/// Read and write a store
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Store a value under a key; makes the store if there is none
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
    /// Print the value of a key and a newline; exits 1 if it is absent
    Get {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        notation: Notation,
        /// The key
        key: OsString,
    },
    /// Delete a key; one that is absent is no error
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
    Scan(scan::Arguments),
    Load(load::Arguments),
    /// Flush, and compact everything into one sorted run with the filters that are asked for
    Compact {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        filter: FilterArguments,
    },
    Stats(stats::Arguments),
    Repair(repair::Arguments),
    Verify(stats::VerifyArguments),
}

/// Which store, and how it is opened.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// The directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Open a store whose log is damaged: keep what is sound, skip the rest and say so
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    secret: SecretArguments,
}

/// How keys and values are written, on the command line, in files and on stdout.
#[derive(Debug, clap::Args)]
pub struct Notation {
    /// Keys and values are written as hexadecimal digits, two a byte
    #[arg(long)]
    hex: bool,
}

/// How a store is written.
#[derive(Debug, clap::Args)]
pub struct WriteArguments {
    /// Wait until each write is on the device
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    hash: HashArguments,
}

/// What filters tables get.
#[derive(Debug, clap::Args)]
pub struct FilterArguments {
    /// The filter of tables written from now on: by-level, one such as blocked-bloom:10 for all, monkey:10 (so many bits
    /// a key, spent where they save most reads), or budget:64MiB (for all filters together)
    #[arg(long, value_name = "SPEC", default_value_t)]
    filter: FilterChoice,
}

/// Runs `filterblock db`.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Put { store, write, notation, key, value } => {
            let (key, value) = (notation.decode(key)?, notation.decode(value)?);
            let db = store.open_to_write(write, IfMissing::Create)?;
            db.put(&key, &value)?;
            close(db)
        }
        Command::Get { store, notation, key } => get(store, notation, key),
        Command::Delete { store, write, notation, key } => {
            let key = notation.decode(key)?;
            let db = store.open_to_write(write, IfMissing::Refuse)?;
            db.delete(&key)?;
            close(db)
        }
        Command::Scan(arguments) => scan::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Compact { store, filter } => {
            let filter = Some(filter.filter.policy());
            let db = store.open_with(Options { create_if_missing: false, filter, ..Options::default() })?;
            let bar = progress::spinner("compacting");
            let compacted = db.compact_range(..);
            bar.finish_and_clear();
            compacted?;
            close(db)
        }
        Command::Stats(arguments) => stats::run(arguments),
        Command::Verify(arguments) => stats::verify(arguments),
        Command::Repair(arguments) => repair::run(arguments),
    }
}

fn get(store: &StoreArguments, notation: &Notation, key: &OsStr) -> Outcome {
    let key = notation.decode(key)?;
    let db = store.open()?;
    let value = db.get(&key)?;
    report_doubts(&db);
    db.close()?;
    let Some(value) = value else { return Ok(Exit::Negative) };
    let mut out = output::stdout();
    let written = notation.write(&mut out, &value).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    written.map_err(Failure::stdout)?;
    Ok(Exit::Success)
}

/// Closes the store, so that a failure to write is told.
fn close(db: Db) -> Outcome {
    report_doubts(&db);
    db.close()?;
    Ok(Exit::Success)
}

/// Passes on what the store noticed on its way, such as a damaged filter that cost reads but no answers.
fn report_doubts(db: &Db) {
    db.stats().reports.iter().for_each(message);
}

/// What to do where there is no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Create,
    Refuse,
}

impl StoreArguments {
    /// Opens a store that must exist.
    fn open(&self) -> Outcome<Db> {
        self.open_with(Options { create_if_missing: false, ..Options::default() })
    }

    fn open_to_write(&self, write: &WriteArguments, if_missing: IfMissing) -> Outcome<Db> {
        let durability = if write.sync { Durability::Sync } else { Durability::Buffered };
        let filter = Some(write.filter.filter.policy());
        let create_if_missing = if_missing == IfMissing::Create;
        let hash = write.hash.hash;
        self.open_with(Options { create_if_missing, durability, filter, hash, ..Options::default() })
    }

    fn open_with(&self, options: Options) -> Outcome<Db> {
        let recovery = if self.salvage { LogRecovery::Salvage } else { LogRecovery::Strict };
        let secret = self.secret.read()?;
        let opened = Db::open(&self.dir, Options { recovery, secret, ..options });
        opened.map_err(|error| match error.in_file(&self.dir) {
            error if !self.salvage && is_log_damage(&error) => Failure::Damage(format!(
                "{error}; --salvage opens the store with what is sound in the log, and says what is not"
            )),
            error => self.secret.explain(error),
        })
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Whether it is the write-ahead log that is damaged.
fn is_log_damage(error: &Error) -> bool {
    let (Error::Corrupt { field, .. } | Error::ChecksumMismatch { field, .. }) = error.root() else { return false };
    matches!(field, Field::LogRecord | Field::LogSequence | Field::LogHeader | Field::Batch)
}

impl Notation {
    /// The bytes that an argument stands for.
    fn decode(&self, written: &OsStr) -> Outcome<Vec<u8>> {
        super::keys::KeyFormat { hex: self.hex, ..Default::default() }.argument(written)
    }

    /// Writes a key or value as the user wants to see it.
    fn write(&self, out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
        if self.hex { out.write_all(text::hex(bytes).as_bytes()) } else { out.write_all(bytes) }
    }
}
