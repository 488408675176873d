//! Defines the result of a subcommand: an exit status that answers a question, or a failure with a
//! message.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use filterblock::Error;
use filterblock_foreign as foreign;

/// The result of a subcommand or of one of its steps.
pub type Outcome<T = Exit> = Result<T, Failure>;

/// An exit status that answers the question asked.
#[derive(Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Ctrl-C or another terminating signal arrived.
    #[error("interrupted")]
    Interrupted,
    /// The reader of stdout closed its end before the command had an answer.
    #[error("standard output: the reader closed it")]
    ReaderGone,
    #[error(transparent)]
    Library(#[from] Error),
    #[error(transparent)]
    Foreign(#[from] foreign::Error),
    #[error(transparent)]
    Variants(#[from] filterblock_family::Error),
    #[error(transparent)]
    Parquet(#[from] filterblock_parquet::Error),
    #[error(transparent)]
    Store(#[from] filterblock_store::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A damaged write-ahead log or a missing file of a store, with advice.
    #[error("{0}")]
    Damage(String),
    /// Any other error, as a message for the user.
    #[error("{0}")]
    Message(String),
}

pub fn fail<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Failure::Message(why.into()))
}

/// Returns a failure with a message that begins with a path.
pub fn refuse<T>(path: &Path, why: impl Display) -> Outcome<T> {
    Err(Failure::about(path, why))
}

impl Failure {
    /// Returns the failure with a message that begins with a path.
    pub fn about(path: &Path, why: impl Display) -> Self {
        Self::Message(format!("{}: {why}", path.display()))
    }

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
