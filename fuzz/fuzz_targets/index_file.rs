//! Queries an index over many files: any bytes, or a sound index that is damaged or edited.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| filterblock_fuzz::index_file(data));

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::index_file);
}
