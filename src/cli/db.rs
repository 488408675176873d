//! `filterblock db`: a store from the shell.

mod load;
mod scan;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::failure::{Exit, Failure, Outcome};
use super::filter_choice::FilterChoice;
use super::output::{self, message};
use super::text;
use crate::lsm::{Db, Durability, Options};

const EXAMPLES: &str = "\
Examples:
  filterblock db put store/ apple red
  filterblock db get store/ apple
  filterblock db load store/ pairs.tsv --sync
  filterblock db scan store/ --from a --to b --limit 10
  filterblock db stats store/ --json

Keys are up to 65,536 bytes. Exit status: 0 done; 1 the key is absent (get) or the store is damaged (verify); 2 an
error.";

/// Read and write a store
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
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
        /// The key
        key: OsString,
        /// The value
        value: OsString,
    },
    /// Print the value of a key and a newline; exits 1 if it is absent
    Get {
        #[command(flatten)]
        store: StoreArguments,
        /// The key
        key: OsString,
    },
    /// Delete a key; one that is absent is no error
    Delete {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        write: WriteArguments,
        /// The key
        key: OsString,
    },
    Scan(scan::Arguments),
    Load(load::Arguments),
    /// Flush, and compact everything into one sorted run
    Compact {
        #[command(flatten)]
        store: StoreArguments,
    },
    Stats(stats::Arguments),
    Verify(stats::VerifyArguments),
}

/// Which store, and how keys and values are written.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// The directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
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
    /// The filter of tables written from now on: by-level, or one such as blocked-bloom:10 for all
    #[arg(long, value_name = "SPEC", default_value_t = FilterChoice::ByLevel)]
    filter: FilterChoice,
}

/// Runs `filterblock db`.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Put { store, write, key, value } => {
            let (key, value) = (store.decode(key)?, store.decode(value)?);
            let db = store.open_to_write(write)?;
            db.put(&key, &value)?;
            close(db)
        }
        Command::Get { store, key } => get(store, key),
        Command::Delete { store, write, key } => {
            let key = store.decode(key)?;
            let db = store.open_to_write(write)?;
            db.delete(&key)?;
            close(db)
        }
        Command::Scan(arguments) => scan::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Compact { store } => {
            let db = store.open()?;
            db.compact_range(..)?;
            close(db)
        }
        Command::Stats(arguments) => stats::run(arguments),
        Command::Verify(arguments) => stats::verify(arguments),
    }
}

fn get(store: &StoreArguments, key: &OsStr) -> Outcome {
    let key = store.decode(key)?;
    let db = store.open()?;
    let value = db.get(&key)?;
    report_doubts(&db);
    db.close()?;
    let Some(value) = value else { return Ok(Exit::Negative) };
    let mut out = output::stdout();
    let written = store.write(&mut out, &value).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
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

impl StoreArguments {
    /// Opens a store that must exist.
    fn open(&self) -> Outcome<Db> {
        self.open_with(Options { create_if_missing: false, ..Options::default() })
    }

    fn open_to_write(&self, write: &WriteArguments) -> Outcome<Db> {
        let durability = if write.sync { Durability::Sync } else { Durability::Buffered };
        let filter = Some(write.filter.policy());
        self.open_with(Options { create_if_missing: true, durability, filter, ..Options::default() })
    }

    fn open_with(&self, options: Options) -> Outcome<Db> {
        Ok(Db::open(&self.dir, options).map_err(|error| error.in_file(&self.dir))?)
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    /// The bytes that an argument stands for.
    fn decode(&self, written: &OsStr) -> Outcome<Vec<u8>> {
        super::keys::KeyFormat { hex: self.hex, ..Default::default() }.argument(written)
    }

    /// Writes a key or value as the user wants to see it.
    fn write(&self, out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
        if self.hex { out.write_all(text::hex(bytes).as_bytes()) } else { out.write_all(bytes) }
    }
}
