//! Tests that faults of operations, threads, processes and machines lose no durable write.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod background;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "testing")]
mod failed_sync;
mod kill;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(unix)]
mod open_files;
#[cfg(feature = "testing")]
mod operations;
#[cfg(feature = "testing")]
mod passing;
#[path = "../steps/mod.rs"]
mod steps;
#[cfg(target_os = "linux")]
mod system_calls;
