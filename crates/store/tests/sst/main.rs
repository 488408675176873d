//! Tests SST files: comparisons with a sorted map and with docs/STORE_FORMAT.md, damage, and
//! failing storage.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

#[path = "../../../../tests/allocation/of_thread.rs"]
mod allocation;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod document;
#[cfg(feature = "testing")]
mod faults;
mod open_memory;
mod tables;
