//! `filterblock db`: reads and writes a store from the shell.

mod get;
mod load;
mod repair;
mod scan;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::{Exit, Failure, Outcome};
use super::filter_choice::FilterChoice;
use super::output::message;
use super::progress;
use super::range_choice::RangeChoice;
use super::refused_value::prefix_choice;
use super::secret::{HashArguments, SecretArguments};
use super::text::{self, quoted};
use filterblock_store::lsm::{Db, Durability, LogRecovery, Options, PrefixChoice};
use filterblock_store::{Error, Field};

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

/// Read, write, check and repair a store
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
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
    Get(get::Arguments),
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
    Scan(scan::Arguments),
    Load(load::Arguments),
    /// Flush, and compact everything into one sorted run with the filters of --filter and
    /// --range-filter
    #[command(after_long_help = COMPACT_EXAMPLES)]
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

/// The options to open a store.
#[derive(Debug, clap::Args)]
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
#[derive(Debug, clap::Args)]
pub struct Notation {
    /// Keys and values are written in hexadecimal, two digits per byte
    #[arg(long)]
    hex: bool,
}

/// The options to write a store.
#[derive(Debug, clap::Args)]
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
#[derive(Debug, clap::Args)]
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

/// Runs `filterblock db`.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Put { store, write, notation, key, value } => {
            let (key, value) = (notation.decode(key)?, notation.decode(value)?);
            let db = store.open_to_write(write, IfMissing::Create)?;
            db.put(&key, &value)?;
            close(db)
        }
        Command::Get(arguments) => get::run(arguments),
        Command::Delete { store, write, notation, key } => {
            let key = notation.decode(key)?;
            let db = store.open_to_write(write, IfMissing::Refuse)?;
            db.delete(&key)?;
            close(db)
        }
        Command::Scan(arguments) => scan::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Compact { store, filter } => {
            let db = store.open_with(filter.options(Options { create_if_missing: false, ..Options::default() }))?;
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

/// The behaviour of a command if the store does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Create,
    Refuse,
}

impl FilterArguments {
    /// Returns the options with the chosen filters.
    fn options(&self, options: Options) -> Options {
        Options { filter: Some(self.filter.policy()), range_filter: self.range_filter.policy(), ..options }
    }
}

impl StoreArguments {
    /// Opens an existing store.
    fn open(&self) -> Outcome<Db> {
        self.open_with(Options { create_if_missing: false, ..Options::default() })
    }

    fn open_to_write(&self, write: &WriteArguments, if_missing: IfMissing) -> Outcome<Db> {
        let durability = if write.sync { Durability::Sync } else { Durability::Buffered };
        let create_if_missing = if_missing == IfMissing::Create;
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
        let opened = Db::open(&self.dir, Options { recovery, secret, prefix_extractor, run_map_trigger, ..options });
        opened.map_err(|error| match error.in_file(&self.dir) {
            error if is_missing(&error) => self.explain_missing(&error),
            error if !self.salvage && is_log_damage(&error) => {
                Failure::Damage(format!("{error}; --salvage opens the store, but drops the writes that it cannot read"))
            }
            error => explain_hash(&self.dir, self.secret.explain(error)),
        })
    }

    /// Explains that the store, or one of its files, does not exist.
    fn explain_missing(&self, error: &Error) -> Failure {
        match error {
            Error::InFile { path, .. } if *path != self.dir => {
                let (path, dir) = (path.display(), quoted(&self.dir.display().to_string()));
                let secret = self.secret.path().map(|file| quoted(&file.display().to_string()));
                let secret = secret.map_or_else(String::new, |file| format!(" --secret-file {file}"));
                Failure::Damage(format!(
                    "{path}: this file of the store is missing; restore it from a backup, or run \
                     \"filterblock db repair {dir}{secret}\""
                ))
            }
            _ => no_store(&self.dir),
        }
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Returns whether `error` says that a file or directory does not exist.
fn is_missing(error: &Error) -> bool {
    matches!(error.root(), Error::Io(reason) if reason.kind() == io::ErrorKind::NotFound)
}

fn no_store(dir: &Path) -> Failure {
    let dir = dir.display();
    Failure::Message(format!(
        "{dir}: there is no store here; check the path, or create a store with \"filterblock db put\""
    ))
}

/// Returns an error if `dir` exists and is not a directory.
fn check_dir(dir: &Path) -> Outcome<()> {
    match dir.metadata() {
        Ok(found) if !found.is_dir() => {
            Err(Failure::Message(format!("{}: not a directory; give the directory of a store", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Explains the error for a `--hash` that differs from the hash function of the store. Returns
/// other failures unchanged.
fn explain_hash(dir: &Path, failure: Failure) -> Failure {
    match failure.library_error() {
        Some(filterblock::Error::Unexpected { field: filterblock::Field::HashId, found, expected }) => {
            let dir = dir.display();
            Failure::Message(format!("{dir}: the store hashes keys by {found}, not by {expected}; omit --hash"))
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
    /// Returns the bytes that an argument encodes.
    fn decode(&self, written: &OsStr) -> Outcome<Vec<u8>> {
        super::keys::KeyFormat { hex: self.hex, ..Default::default() }.argument(written)
    }

    /// Writes a key or value in this notation.
    fn write(&self, out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
        if self.hex { out.write_all(text::hex(bytes).as_bytes()) } else { out.write_all(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salvage_is_advised_for_the_damage_that_it_skips() {
        let damage = |field, file: &str| Error::Corrupt { field, offset: 72 }.in_file(Path::new(file));
        assert!(is_log_damage(&damage(Field::LogRecord, "store/000012.log")));
        assert!(!is_log_damage(&damage(Field::Batch, "store/000012.log")));
        assert!(!is_log_damage(&damage(Field::LogRecord, "store/MANIFEST-000001")));
    }
}
