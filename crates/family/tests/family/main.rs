//! Tests the filters in memory, and runs their examples.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod compressed;
mod counts;
mod examples;
mod extremes;
mod file_filter;
#[cfg(unix)]
mod file_filter_neighbours;
#[cfg(unix)]
mod file_filter_writer;
mod literature;
mod model;
mod planning;
mod support;

#[test]
fn filters_in_memory_are_send_and_sync() {
    use filterblock_family::{Bloom, Bloomier, Counting, DLeft, DynamicCounting, FileFilter};
    const fn is_send_and_sync<T: Send + Sync>() {}
    const { is_send_and_sync::<(Bloom, Bloomier, Counting, DLeft, DynamicCounting, FileFilter)>() }
}
