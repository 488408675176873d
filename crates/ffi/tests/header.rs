//! Checks that include/filterblock.h is what cbindgen generates from the source. To write it, run
//! `FILTERBLOCK_WRITE_HEADER=1 cargo test -p filterblock-ffi --test header`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn header_is_generated_from_the_source() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/filterblock.h");
    let generated = generated();
    if std::env::var_os("FILTERBLOCK_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is outdated; run FILTERBLOCK_WRITE_HEADER=1 cargo test -p filterblock-ffi --test header",
        path.display()
    );
}
