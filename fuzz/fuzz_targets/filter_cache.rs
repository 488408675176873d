//! Asks filters of a cache while their reads go wrong: no key may be denied, and the bound holds.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(filter_cache);
