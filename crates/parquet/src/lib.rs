//! Adds Bloom filters to Parquet files without rewriting their data, checks the filters, and
//! indexes the filters of many files.
//!
//! [`append::add`] appends the filters and a new footer to a copy of a file, and does not change
//! the copied bytes. [`index`] keeps the filters of thousands of files in one file. A query for a
//! key then needs one read for all of these files.

#[cfg(feature = "values")]
pub mod advice;
#[cfg(feature = "values")]
pub mod append;
mod bloom;
#[cfg(feature = "values")]
pub mod check;
mod distinct;
pub mod engines;
pub mod error;
mod file;
pub mod filters;
pub mod folder;
mod footer;
pub mod index;
mod metadata;
mod schema;
pub mod thrift;
#[cfg(feature = "values")]
pub mod values;
pub mod written;

pub use bloom::{ParquetBloom, ParquetBloomBuilder};
pub use error::{Error, Result};
pub use file::ParquetFile;
pub use footer::Footer;
pub use metadata::{FilterRange, ParquetColumnChunk, ParquetMetadata};
pub use schema::{Leaf, Loss, PhysicalType};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/PARQUET.md")]
struct Document;
