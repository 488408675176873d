//! Implements the filter policy of RocksDB with filterblock.
//!
//! The adapter is the C++ header `include/filterblock_rocksdb.h`, because RocksDB accepts filter
//! policies only in C++. With the feature `sys`, `sys::install` installs a policy into the options
//! of the RocksDB that the crate `librocksdb-sys` compiles.

#[cfg(feature = "sys")]
pub mod sys;
