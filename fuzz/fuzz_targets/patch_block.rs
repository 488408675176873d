//! Edits a sound block, repairs its checksums or not, and opens and queries it.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(patch_block);
