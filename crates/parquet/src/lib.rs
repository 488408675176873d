//! Bloom filters for Parquet files that have none, without rewriting their data.
//!
//! The first bytes of a file stay as they are. The filters and a new footer follow them.

pub mod error;
pub mod index;
pub mod thrift;
#[cfg(feature = "values")]
pub mod values;

pub use error::{Error, Result};
