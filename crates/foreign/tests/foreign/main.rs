//! Tests the readers and writers of the filters and files of LevelDB, RocksDB and Parquet.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod damage;
mod filters;
mod footers;
mod formulas;
mod layouts;
mod native;
mod tables;

use filterblock_foreign::Result;
use filterblock_foreign::leveldb::LevelDbBloomBuilder;
use filterblock_foreign::rocksdb::{RocksDbFilterBuilder, RocksDbFilterKind, RocksDbFilterOptions};
use filterblock_parquet::ParquetBloomBuilder;
use filterblock_testkit::allocation::of_thread::PerThread;

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    filterblock_testkit::choose_instruction_set();
}

/// Returns the keys that `visit` passes on.
fn keys_of(visit: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    visit(&mut |key| {
        keys.push(key.to_vec());
        Ok(())
    })
    .map(|()| keys)
}

const ROCKSDB_KINDS: [RocksDbFilterKind; 3] =
    [RocksDbFilterKind::LegacyBloom, RocksDbFilterKind::FastLocalBloom, RocksDbFilterKind::Ribbon128];

fn leveldb_filter(bits_per_key: u32, keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut builder = LevelDbBloomBuilder::new(bits_per_key);
    keys.iter().for_each(|key| builder.add(key.as_ref()));
    builder.finish()
}

fn rocksdb_filter(kind: RocksDbFilterKind, bits_per_key: f64, keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let options = RocksDbFilterOptions { kind, bits_per_key, ..RocksDbFilterOptions::default() };
    let mut builder = RocksDbFilterBuilder::new(options);
    keys.iter().for_each(|key| builder.add(key.as_ref()));
    builder.finish()
}

fn parquet_filter(mut builder: ParquetBloomBuilder, keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
    keys.iter().for_each(|key| builder.add(key.as_ref()));
    builder.finish()
}
