//! Tests the readers and writers of the filters and files of LevelDB, RocksDB and Parquet.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod damage;
mod filters;
mod footers;
mod formulas;
mod layouts;
mod native;
mod tables;

use filterblock_testkit::allocation::of_thread::PerThread;

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}
