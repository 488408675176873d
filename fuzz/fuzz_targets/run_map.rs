//! Adds runs to a map, drops some, and asks: no key may be denied.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(run_map);
