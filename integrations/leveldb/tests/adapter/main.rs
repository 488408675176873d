//! Tests the policy: alone through the traits of both engines, in databases of rusty-leveldb, and in
//! tables of the crate `sstable`.
#![cfg(all(feature = "rusty-leveldb", feature = "sstable"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod both_ways;
mod damage;
mod keys;
mod policy;
mod sstable;
mod support;
