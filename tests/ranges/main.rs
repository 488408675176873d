//! Tests range filters: answers, FPRs, partitions, damage, misuse, and blocks with two filters.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]
// Big-endian keys sort like integers.
#![allow(clippy::big_endian_bytes, clippy::type_complexity)]

mod answers;
mod beside;
mod counted;
mod damage;
mod golden;
mod key_sets;
mod misuse;
mod partitions;
mod rates;
mod support;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}
