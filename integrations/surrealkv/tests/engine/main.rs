//! Tests the policy in stores of SurrealKV.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod both_ways;
mod damage;
mod keys;
mod support;
