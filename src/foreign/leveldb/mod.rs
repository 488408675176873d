//! LevelDB: its Bloom filter (`leveldb.BuiltinBloomFilter2`).

mod bloom;

pub use bloom::{BloomBuilder, BloomFilter};
