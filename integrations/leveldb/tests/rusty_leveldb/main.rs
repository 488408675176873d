//! Tests the policy in databases of rusty-leveldb.
#![cfg(feature = "rusty-leveldb")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod both_ways;
mod damage;
mod keys;
mod support;
