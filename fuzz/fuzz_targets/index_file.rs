//! Queries an index over many files: any bytes, or a sound index that is damaged or edited.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(index_file);
