//! Asks a filter with any payload for keys, one by one and in a batch. `FILTERBLOCK_ISA` chooses
//! the kernels.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::kernels(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(|data| drop(filterblock_fuzz::kernels(data)));
}
