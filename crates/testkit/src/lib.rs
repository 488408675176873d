//! Helpers for the tests, benches and fuzz targets of this repository; never published.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "a test may panic"
)]

#[cfg(feature = "measure")]
pub mod measure;
