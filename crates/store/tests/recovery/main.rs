//! Tests the opening of a store after a crash, with missing files, and with failing operations.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod after_crash;
mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "testing")]
mod crash;
#[cfg(feature = "testing")]
mod failed_open;
mod missing_logs;
