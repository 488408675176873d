//! Opens the files of a store with each recovery mode. The files have any bytes, or are sound files
//! that are edited.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(log_and_manifest);
