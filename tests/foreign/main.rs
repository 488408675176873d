//! Tests the readers and writers of the filters and files of LevelDB, RocksDB and Parquet.
#![cfg(feature = "foreign")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

#[path = "../allocation/of_thread.rs"]
mod allocation;
#[path = "../block/support.rs"]
mod block_support;
mod damage;
mod filters;
mod footers;
mod formulas;
#[path = "../common/isa.rs"]
mod isa;
mod layouts;
mod native;
mod support;
mod tables;
