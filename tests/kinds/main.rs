//! Tests the kinds that filter single keys.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod extremes;
mod independence;
#[path = "../common/isa.rs"]
mod isa;
mod planning;
mod present_keys;
mod rates;
mod shrunk;
mod space;
mod specs;
#[path = "../block/support.rs"]
mod support;
