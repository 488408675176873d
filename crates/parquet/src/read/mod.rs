//! Reads and builds the split-block Bloom filter of a Parquet column chunk, and reads the files
//! that contain it.

mod footer;
mod header;
mod schema;
mod split_block;
mod thrift;

pub use footer::{ParquetColumnChunk, ParquetFile, ParquetFilterRange, ParquetMetadata, PhysicalType};
pub use split_block::{ParquetBloom, ParquetBloomBuilder};
