//! Tests the store through its public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod announced_reads;
mod bad_input;
mod bugs_of_others;
mod chosen_keys;
#[path = "../common/mod.rs"]
mod common;
#[cfg(unix)]
mod directory;
mod examples;
mod filter_budget;
mod filter_policies;
mod filters;
mod golden;
mod load;
mod model;
#[cfg(unix)]
mod odd_files;
mod pinned;
mod prefixes;
mod ranges;
mod readers;
mod run_map;
mod secrets;
#[path = "../steps/mod.rs"]
mod steps;
#[cfg(feature = "testing")]
mod storages;
