//! Opens files of other engines: any bytes, or tables that are assembled from edited parts and have
//! valid checksums.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(foreign_table);
