//! Tests of range filters: answers against a sorted set of keys, FPRs, damage and misuse.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod answers;
mod beside;
mod counted;
mod damage;
mod golden;
mod key_sets;
mod misuse;
mod partitions;
#[path = "../common/random.rs"]
mod random;
mod rates;
mod support;
