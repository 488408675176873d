//! Adds runs to a map, drops some, and asks: no key may be denied.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::run_map(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::run_map);
}
