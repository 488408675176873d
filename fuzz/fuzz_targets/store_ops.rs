//! Runs operations on a store whose file system fails and crashes, and compares the store with a
//! model.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(store_ops);
