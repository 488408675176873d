//! Names the ABI version in the shared library, so that the loader never takes a library of another
//! ABI for a program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_elf = std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family.contains("unix"))
        && std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor != "apple");
    if is_elf {
        // The number is FILTERBLOCK_ABI_VERSION; a test compares them.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfilterblock.so.1");
    }
}
