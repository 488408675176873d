//! Checks that format version 1 stays frozen: its golden files never change.

use std::fmt::Write as _;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

/// The number of lines that `v1-frozen.txt` had at the freeze. These lines never change.
const NUM_FROZEN: usize = 50;
/// The XXH3 hash of the first [`NUM_FROZEN`] lines.
const FROZEN: u64 = 0x5474_4ee6_116a_d4a6;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden"].iter().collect()
}

fn recorded() -> String {
    std::fs::read_to_string(folder().join("v1-frozen.txt")).unwrap()
}

/// Returns the names of all golden files of blocks and of the compact form, in alphabetical order.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.ends_with(".fb") || name.ends_with(".compact")).collect();
    names.sort_unstable();
    names
}

/// Returns the line that `v1-frozen.txt` must have for a golden file.
fn line(name: &str) -> String {
    let bytes = std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    format!("{name} {} {:016x}", bytes.len(), xxh3_64(&bytes))
}

#[test]
fn golden_files_of_version_1_never_change() {
    let recorded = recorded();
    for recorded in recorded.lines() {
        let name = recorded.split(' ').next().unwrap();
        assert_eq!(line(name), recorded, "version 1 is frozen: see docs/FORMAT.md, \"What may change\"");
    }
    let listed = |name: &String| recorded.lines().any(|line| line.split(' ').next() == Some(name));
    let missing: Vec<String> = names().into_iter().filter(|name| !listed(name)).collect();
    assert!(missing.is_empty(), "append these golden files to v1-frozen.txt: {missing:?}");
}

#[test]
fn the_list_of_frozen_files_only_grows() {
    let frozen = recorded().lines().take(NUM_FROZEN).fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    });
    assert_eq!(xxh3_64(frozen.as_bytes()), FROZEN, "the first {NUM_FROZEN} lines of v1-frozen.txt have changed");
}

/// Appends the golden files that `v1-frozen.txt` does not list. Run it with
/// `cargo test --test block frozen:: -- --ignored`.
#[test]
#[ignore = "appends new golden files to tests/golden/v1-frozen.txt"]
fn append_new_golden_files() {
    let mut text = std::fs::read_to_string(folder().join("v1-frozen.txt")).unwrap_or_default();
    for name in names() {
        if !text.lines().any(|line| line.split(' ').next() == Some(&name)) {
            writeln!(text, "{}", line(&name)).unwrap();
        }
    }
    std::fs::write(folder().join("v1-frozen.txt"), text).unwrap();
}
