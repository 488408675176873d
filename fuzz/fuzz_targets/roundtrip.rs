//! Adds keys to every form of a filter and queries them.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(roundtrip);
