//! Parses and rewrites any bytes as the footer of a Parquet file. A rewrite may change only the
//! locations of the filters.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::parquet_footer(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::parquet_footer);
}
