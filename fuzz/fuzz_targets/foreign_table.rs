//! Opens files of other engines: any bytes, or tables that are assembled from edited parts and have
//! valid checksums.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| filterblock_fuzz::foreign_table(data));

#[cfg(not(fuzzing))]
fn main() {
    filterblock_fuzz::run_files(filterblock_fuzz::foreign_table);
}
