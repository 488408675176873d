//! Footers of Parquet files: any bytes. A rewrite changes the filters only.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::parquet_footer(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::parquet_footer);
}
