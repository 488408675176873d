//! Tests damage at rest and repairs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

#[cfg(feature = "testing")]
mod again;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "testing")]
mod damage_at_rest;
mod damaged_files;
#[cfg(feature = "testing")]
mod harmless;
mod kept;
