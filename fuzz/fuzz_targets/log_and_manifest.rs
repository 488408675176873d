//! Opens the files of a store with each recovery mode. The files have any bytes, or are sound files
//! that are edited.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| filterblock_fuzz::log_and_manifest(data));

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::log_and_manifest);
}
