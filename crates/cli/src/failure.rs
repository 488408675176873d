//! Defines the result of a subcommand: an exit status that answers a question, or a failure with a
//! message.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use filterblock::Error;
use filterblock_family as variants;
use filterblock_foreign as foreign;

/// The result of a subcommand or of one of its steps.
pub type Outcome<T = Exit> = Result<T, Failure>;

/// An exit status that answers the question asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exit status 0, for example: done, found, sound, or equal.
    Success,
    /// Exit status 1, for example: not found, damaged, or different.
    Negative,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => Self::SUCCESS,
            Exit::Negative => Self::from(1),
        }
    }
}

/// The reason why a subcommand could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// Ctrl-C or another terminating signal arrived.
    Interrupted,
    /// The reader of stdout closed its end before the command had an answer.
    ReaderGone,
    /// An error of the library.
    Library(Error),
    /// An error of the library about a file or a filter of another engine.
    Foreign(foreign::Error),
    /// An error of the library while it merges or compares blocks.
    Variants(variants::Error),
    /// An error of the library about Parquet files and their filters.
    Parquet(filterblock_parquet::Error),
    /// An error of the store.
    Store(filterblock_store::Error),
    /// A damaged write-ahead log or a missing file of a store, with advice.
    Damage(String),
    /// Any other error, as a message for the user.
    Message(String),
}

impl Failure {
    /// Returns the failure for an error of the operating system about `path`.
    pub fn file(path: &Path, error: io::Error) -> Self {
        Self::Library(Error::from(error).in_file(path))
    }

    /// Returns the error of the core library in a [`Failure::Library`], [`Failure::Foreign`] or
    /// [`Failure::Store`], without file names. Returns `None` if there is no such error.
    pub fn library_error(&self) -> Option<&Error> {
        match self {
            Self::Library(error) => Some(error.root()),
            Self::Foreign(error) => match error.root() {
                foreign::Error::Filter(error) => Some(error.root()),
                _ => None,
            },
            Self::Store(error) => match error.root() {
                filterblock_store::Error::Filter(error) => Some(error.root()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the failure for a failed write to stdout. For a closed pipe, see
    /// [`super::output::Unbuffered`] and [`super::output::print_binary`].
    pub fn stdout(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Message(format!("standard output: {}", Error::from(error))),
            None => Self::Message(format!("standard output: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::ReaderGone => f.write_str("standard output: the reader closed it"),
            Self::Library(error) => write!(f, "{error}"),
            Self::Foreign(error) => write!(f, "{error}"),
            Self::Variants(error) => write!(f, "{error}"),
            Self::Parquet(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Damage(message) | Self::Message(message) => f.write_str(message),
        }
    }
}

impl From<filterblock_store::Error> for Failure {
    fn from(error: filterblock_store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<foreign::Error> for Failure {
    fn from(error: foreign::Error) -> Self {
        Self::Foreign(error)
    }
}

impl From<filterblock_parquet::Error> for Failure {
    fn from(error: filterblock_parquet::Error) -> Self {
        Self::Parquet(error)
    }
}

impl From<variants::Error> for Failure {
    fn from(error: variants::Error) -> Self {
        Self::Variants(error)
    }
}
