//! A filter of any bytes, asked one by one and as a batch; by the kernels that `FILTERBLOCK_ISA` names.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    filterblock_fuzz::kernels(data);
});

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(|data| drop(filterblock_fuzz::kernels(data)));
}
