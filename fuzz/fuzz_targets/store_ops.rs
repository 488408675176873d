//! Runs operations on a store whose file system fails and crashes, and compares the store with a
//! model.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| filterblock_fuzz::store_ops(data));

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::store_ops);
}
