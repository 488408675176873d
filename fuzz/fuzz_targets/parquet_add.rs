//! Adds filters to a Parquet file of any bytes. No filter may deny a value.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(parquet_add);
