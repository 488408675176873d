//! Adds Bloom filters to Parquet files without rewriting their data, checks the filters, and
//! indexes the filters of many files.
//!
//! [`append::add`] appends the filters and a new footer to a copy of a file, and does not change
//! the copied bytes. [`index`] keeps the filters of thousands of files in one file. A query for a
//! key then needs one read for all of these files.

#[cfg(feature = "values")]
pub mod append;
#[cfg(feature = "values")]
pub mod check;
pub mod error;
pub mod filters;
pub mod footer;
pub mod index;
mod read;
#[cfg(feature = "values")]
pub mod source;
pub mod thrift;
#[cfg(feature = "values")]
pub mod values;
pub mod written;

pub use error::{Error, Result};
pub use footer::Footer;
pub use read::{
    ParquetBloom, ParquetBloomBuilder, ParquetColumnChunk, ParquetFile, ParquetFilterRange, ParquetMetadata,
    PhysicalType,
};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/PARQUET.md")]
struct Document;
