//! Tests the filters of the module `variants`: compares them with a model, with simpler designs and
//! with published numbers, tests filters in files, and runs examples.
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
