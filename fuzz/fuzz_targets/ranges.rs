//! Queries range filters of any keys for any ranges, before and after edits.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(ranges);
