//! Tests of footers, values, `append` and `check`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod append;
mod check;
mod footer;
mod handmade;
mod support;
mod values;
