//! Queries filters of other engines: any bytes, or filters that are built and edited.
//! `FILTERBLOCK_ISA` chooses the kernels.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::foreign_filter(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(|data| drop(filterblock_fuzz::foreign_filter(data)));
}
