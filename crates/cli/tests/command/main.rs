//! Runs the command `filterblock` as a user or a script would. Each module covers a subcommand or a
//! topic.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod algebra;
mod bench_load;
mod bench_ranges;
mod bench_report;
mod demo;
mod filter_files;
mod foreign_directories;
mod foreign_files;
mod get_keys;
#[cfg(unix)]
mod golden;
mod hadoop_checksums;
mod html;
mod index;
mod interrupted;
mod json;
mod key_lists;
mod own_files;
mod parquet_add;
mod parquet_check;
mod parquet_contradictions;
mod parquet_samples;
mod parquet_types;
mod parquet_values;
mod plan;
mod refused_values;
mod repair;
mod replaced_meanwhile;
mod replaces_files;
mod secrets;
mod shell;
mod shell_help;
mod store;
mod streams;
mod terminal;
#[cfg(unix)]
mod tutorial;
mod what_if;

/// Returns the path of a file of the repository.
fn repository(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}
