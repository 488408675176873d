//! Tests the kinds that filter single keys.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod extremes;
mod independence;
mod planning;
mod present_keys;
mod rates;
mod shrunk;
mod space;
mod specs;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}
