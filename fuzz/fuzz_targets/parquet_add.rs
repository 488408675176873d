//! Adds filters to a Parquet file of any bytes. No filter may deny a value.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::parquet_add(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::parquet_add);
}
