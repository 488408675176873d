//! Parses and rewrites any bytes as the footer of a Parquet file. A rewrite may change only the
//! locations of the filters.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(parquet_footer);
