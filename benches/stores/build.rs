//! Links the C libraries of the features.

fn main() {
    if std::env::var_os("CARGO_FEATURE_LEVELDB").is_some() {
        println!("cargo:rustc-link-lib=leveldb");
    }
    if std::env::var_os("CARGO_FEATURE_ROCKSDB").is_some() {
        println!("cargo:rustc-link-lib=rocksdb");
        println!("cargo:rustc-env=ROCKSDB_VERSION={}", rocksdb_version());
    }
}

/// Returns the version in the header of Debian's librocksdb-dev, because the library's C interface
/// does not tell it. A part that is not found becomes `?`.
fn rocksdb_version() -> String {
    let header = std::fs::read_to_string("/usr/include/rocksdb/version.h").unwrap_or_default();
    let part = |name: &str| {
        let line = header.lines().find(|line| line.starts_with(&format!("#define ROCKSDB_{name} ")));
        line.and_then(|line| line.split_whitespace().last()).unwrap_or("?").to_owned()
    };
    ["MAJOR", "MINOR", "PATCH"].map(part).join(".")
}
