//! Defines the Python module `filterblock._filterblock`: classes and functions that call the crates
//! `filterblock` and `filterblock-parquet`.
//!
//! ```text
//! filter  bloom  file_filter  tables  index  planning     the classes of Python
//!                                 parquet                 Parquet files, and the values of their columns
//!             keys                                        many keys: buffers, Arrow, iterables
//!                                 containers              how each container is read
//!       key   arrow  fork_lock   interrupt                one key; Arrow arrays; locks after forks; Ctrl-C
//!    buffer  answers  args  save  errors                  buffers; NumPy; arguments; files; exceptions
//!                                 memory                  allocations that can fail
//! ```
//! A module imports only modules of its own line and of lower lines. Code that holds a lock never
//! waits for the GIL. So a thread that holds the GIL and waits for a lock cannot cause a deadlock.

mod answers;
mod args;
mod arrow;
mod bloom;
mod buffer;
mod containers;
mod errors;
mod file_filter;
mod filter;
mod fork_lock;
mod index;
mod interrupt;
mod key;
mod keys;
mod memory;
mod parquet;
mod planning;
mod save;
mod tables;

use pyo3::prelude::*;

/// Checks the alignment of the classes at compile time. Python aligns objects only to 16 bytes.
const _: () = {
    const fn fits<T>() -> bool {
        align_of::<T>() <= 16
    }
    assert!(fits::<filter::Filter>() && fits::<bloom::Bloom>() && fits::<file_filter::FileFilter>());
    assert!(fits::<tables::LevelDbTable>() && fits::<tables::RocksDbTable>());
    assert!(fits::<parquet::ParquetFile>() && fits::<index::Index>() && fits::<planning::Plan>());
};

/// filterblock: checksummed filters of keys. Import `filterblock`, which re-exports these names.
#[pymodule]
mod _filterblock {
    #[pymodule_export]
    use super::bloom::Bloom;
    #[pymodule_export]
    use super::file_filter::FileFilter;
    #[cfg(debug_assertions)]
    #[pymodule_export]
    use super::filter::_build_with_a_bug;
    #[pymodule_export]
    use super::filter::Filter;
    #[pymodule_export]
    use super::index::{Index, index_build};
    #[pymodule_export]
    use super::key::key_bytes;
    #[pymodule_export]
    use super::parquet::{ParquetFile, parquet_add, parquet_check};
    #[pymodule_export]
    use super::planning::{Plan, instruction_set, kinds, plan, plan_largest};
    #[pymodule_export]
    use super::tables::{LevelDbTable, RocksDbTable};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::fork_lock::count_forks()?;
        // The first call detects the instruction set. No fork may happen during this call.
        let _ = filterblock::instruction_set();
        filterblock_parquet::values::quiet_guarded_panics();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
