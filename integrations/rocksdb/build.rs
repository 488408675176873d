//! With the feature `sys`, compiles the shim between Rust and the C++ header, with the headers of
//! `librocksdb-sys`.

fn main() {
    #[cfg(feature = "sys")]
    build_shim();
}

#[cfg(feature = "sys")]
fn build_shim() {
    use std::env;
    use std::path::PathBuf;

    let var = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let (here, rocksdb) = (var("CARGO_MANIFEST_DIR"), var("DEP_ROCKSDB_CARGO_MANIFEST_DIR").join("rocksdb"));
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed=src/shim.cc");
    println!("cargo::rerun-if-changed=../../crates/ffi/include");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").define("NDEBUG", None);
    build.include(here.join("include")).include(here.join("../../crates/ffi/include"));
    // -isystem suppresses warnings in RocksDB's headers.
    for folder in [rocksdb.join("include"), rocksdb] {
        build.flag("-isystem").flag(folder);
    }
    build.warnings(true).extra_warnings(true).file(here.join("src/shim.cc")).compile("filterblock_rocksdb");
}
