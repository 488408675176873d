//! Filters of other engines, of any bytes or built and edited; by the kernels that `FILTERBLOCK_ISA` names.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::foreign_filter(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(|data| drop(filterblock_fuzz::foreign_filter(data)));
}
