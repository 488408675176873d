//! Tests the filters of the module `variants`, and runs their examples.
#![cfg(feature = "variants")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod compressed;
mod counts;
mod examples;
mod file_filter;
#[cfg(unix)]
mod file_filter_neighbours;
#[cfg(unix)]
mod file_filter_writer;
mod literature;
mod model;
mod support;
