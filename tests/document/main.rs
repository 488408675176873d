//! docs/FORMAT.md against the code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod format;
mod stranger;
#[path = "../block/support.rs"]
mod support;
mod text;
