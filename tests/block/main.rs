//! Tests filter blocks and sets of filters through the public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]
#![allow(clippy::big_endian_bytes, reason = "big-endian keys sort like integers")]
#![allow(clippy::type_complexity, reason = "tables of cases, and bounds in pairs")]

mod chosen_keys;
mod compact;
mod damage;
mod extractors;
mod filter_cache;
mod frozen;
mod golden;
mod kinds;
mod late_settings;
#[cfg(feature = "mmap")]
mod mapped;
mod misuse;
mod open_memory;
mod partition_index;
mod partitioned_builder;
mod partitions;
mod prefixes_of_keys;
mod ranges;
mod run_map;
mod secrets;
mod set;
mod shorter;
mod shrink;
mod threads;
mod verified;
mod verified_trailer;

use filterblock_testkit::allocation::of_thread::PerThread;

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}
