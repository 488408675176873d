//! Tests the adapter: through SlateDB's traits alone, and inside SlateDB.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod allocation;
mod both_ways;
mod cluster;
mod common;
mod damage;
mod engine;
mod lists;
mod policy;
mod ranges;
mod reads;
