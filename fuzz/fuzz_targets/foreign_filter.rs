//! Queries filters of other engines: any bytes, or filters that are built and edited.
//! `FILTERBLOCK_ISA` chooses the kernels.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(foreign_filter);
