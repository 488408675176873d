//! Sets the soname of the shared library on ELF systems. The soname ends in the ABI version, so
//! that a program does not load a library of another ABI version.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_elf = std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family.contains("unix"))
        && std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor != "apple");
    if is_elf {
        // The soname ends in FILTERBLOCK_ABI_VERSION: tests/abi checks it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfilterblock.so.1");
    }
}
