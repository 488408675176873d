//! Bloom filters for Parquet files that have none, without rewriting their data.
//!
//! The first bytes of a file stay as they are. The filters and a new footer follow them.

#[cfg(feature = "values")]
pub mod append;
pub mod error;
pub mod filters;
pub mod footer;
#[cfg(feature = "values")]
pub mod source;
pub mod thrift;
#[cfg(feature = "values")]
pub mod values;

pub use error::{Error, Result};
pub use footer::Footer;
