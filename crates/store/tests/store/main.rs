//! Tests SST files and the store through their public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

#[cfg(feature = "testing")]
mod announced_reads;
mod bad_input;
mod bugs_of_others;
mod chosen_keys;
mod common;
#[cfg(unix)]
mod directory;
mod examples;
mod faults;
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
mod recovery;
mod repair;
mod run_map;
mod secrets;
mod sst;
mod steps;
#[cfg(feature = "testing")]
mod storages;
