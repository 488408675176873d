//! Runs any sequence of calls through the C ABI.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(c_abi);
