//! Opens and queries any bytes as a filter block, as a partition, as a handle and as a compact form.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(open_block);
