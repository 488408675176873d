//! Queries range filters of any keys for any ranges, before and after edits.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| filterblock_fuzz::ranges(data));

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::ranges);
}
