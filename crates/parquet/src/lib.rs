//! Bloom filters for Parquet files that have none, without rewriting their data.

pub mod index;
