//! Tests SST files: comparisons with a sorted map and with docs/STORE_FORMAT.md, damage, and
//! failing storage.

mod damage;
mod document;
#[cfg(feature = "testing")]
mod faults;
mod open_memory;
mod tables;

use filterblock_store::sstable::Table;
use filterblock_testkit::allocation::of_thread::PerThread;

/// Counts the memory of each thread for `open_memory`.
#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

/// Returns whether the filter of the SST denies the key.
fn denies(table: &Table, key: &[u8]) -> bool {
    table.filter().ready().is_some_and(|filter| !filter.may_contain(filter.hasher().key(key)))
}
