//! Compares docs/FORMAT.md with the code, and tests docs/EMBEDDING.md and its example.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod embedding;
mod format;
mod ranges;
mod stranger;
mod support;
mod text;
