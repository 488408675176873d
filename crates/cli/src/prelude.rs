//! The names that most commands use.

pub use charts::text::{self, count, percent, printable, significant, thousands};

pub(crate) use super::failure::{Exit, Failure, Outcome, fail, refuse};
pub(crate) use super::output::{self, message, note};
pub(crate) use super::progress;
