//! Bloom filters for Parquet files that have none, without rewriting their data, and an index over
//! the filters of many files.
//!
//! [`append::add`] keeps the first bytes of a file as they are. The filters and a new footer follow
//! them. [`index`] keeps the filters of thousands of files in one file, which answers for all of
//! these files with one read.

#[cfg(feature = "values")]
pub mod append;
#[cfg(feature = "values")]
pub mod check;
pub mod error;
pub mod filters;
pub mod footer;
pub mod index;
#[cfg(feature = "values")]
pub mod source;
pub mod thrift;
#[cfg(feature = "values")]
pub mod values;
pub mod written;

pub use error::{Error, Result};
pub use footer::Footer;
