//! Asks a filter with any payload for keys, one by one and in a batch. `FILTERBLOCK_ISA` chooses
//! the kernels.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(kernels);
