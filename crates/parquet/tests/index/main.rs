//! Tests of the index over many files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod damage;
mod document;
mod figures;
mod model;
mod stamp;
mod support;
