//! Opens, walks and searches an SST file: any bytes, or a sound file with forged or damaged parts.
#![cfg_attr(fuzzing, no_main)]

filterblock_fuzz::fuzz_main!(table);
