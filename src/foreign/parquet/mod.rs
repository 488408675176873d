//! Apache Parquet: the split-block Bloom filter of a column chunk.

mod header;
mod split_block;
mod thrift;

pub use split_block::{SplitBlockBuilder, SplitBlockFilter};
