//! `filterblock index`: builds, queries and updates an index of many files. The index is one file
//! that answers which of these files may hold a key.

mod build;
mod input;
pub mod opened;
pub mod query;
mod update;
pub mod verify;

use filterblock_parquet::Error;

use super::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  filterblock index build -o ids.index --column user.id data/*.parquet
  filterblock index query ids.index 42 1043
  filterblock index add ids.index data/new.parquet
  filterblock index remove ids.index data/old.parquet
  filterblock index verify ids.index

The index has filters for each file, and stores them so that one read answers a key for all files. `absent` is certain, \
`maybe` is not.
docs/INDEX_FORMAT.md specifies the format of the index.

Changed files:
  The index records size, modification time and a checksum of the end of each file: the last 4 KiB, or the \
whole metadata of a Parquet file. If a file differs, is \
missing or cannot be read, it is a candidate for every key, except with --check no: add it again, or remove it from \
the index. `query` and `verify` name the first 10 such files on stderr, and count all.

Paths:
  The index stores the paths as given. Relative paths are looked up in the working directory, or in --base.";

/// Build and query an index of many files: which files may hold a key?
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Build(build::Arguments),
    Query(query::Arguments),
    Add(update::AddArguments),
    Remove(update::RemoveArguments),
    Verify(verify::Arguments),
}

/// Runs `filterblock index`.
pub fn run(arguments: &Arguments) -> Outcome {
    super::parquet::quiet_guarded_panics();
    match &arguments.command {
        Command::Build(arguments) => build::run(arguments),
        Command::Query(arguments) => query::run(arguments),
        Command::Add(arguments) => update::add(arguments),
        Command::Remove(arguments) => update::remove(arguments),
        Command::Verify(arguments) => verify::run(arguments),
    }
}

/// Returns the failure of an operation on `path`.
fn failure(path: &std::path::Path, error: Error) -> Failure {
    match error {
        Error::Io(error) => Failure::file(path, error),
        Error::Invalid { what: "path", reason, .. } => Failure::Message(reason),
        // The library's message cannot name an option of the command.
        Error::Invalid { what: "filters", reason, .. } => {
            Failure::Message(format!("{}: {reason}, without --from-filters", path.display()))
        }
        other => Failure::Message(format!("{}: {other}", path.display())),
    }
}
