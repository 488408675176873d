//! Tests golden files of range filters: the builders must write these bytes, and the readers must
//! read them.

use std::fmt::Write as _;
use std::ops::Bound::{Excluded, Included};

use filterblock::{FilterOptions, ParsedBlock, Verify, WholeKeys};
use filterblock_testkit::blocks::{BOTH, built, built_in_partitions};

use super::key_sets::mix;
use crate::golden::{TABLE, golden, hasher, open, path};

/// The name of each file, the specification of its range filter, and the function that makes its
/// keys.
const FILES: [(&str, &str, fn(u64) -> Vec<u8>); 8] = [
    ("v1-grafite-3.fb", "grafite:fpr=0.01", decimal),
    ("v1-grafite-1000.fb", "grafite:fpr=0.01", decimal),
    ("v1-grafite-16-1000.fb", "grafite:L=16:fpr=0.01", integer),
    ("v1-grafite-names-5000.fb", "grafite:12", name),
    ("v1-siphash-grafite-1000.fb", "grafite:L=1024:18", integer),
    ("v1-bloom-and-grafite-1000.fb", "grafite:fpr=0.01", decimal),
    ("v1-partitioned-grafite-1000.fb", "grafite:fpr=0.01", decimal),
    ("v1-prefixes-and-grafite-1000.fb", "grafite:fpr=0.01", decimal),
];

fn decimal(i: u64) -> Vec<u8> {
    format!("user:{:09}", mix(i) % 1_000_000_000).into_bytes()
}

fn integer(i: u64) -> Vec<u8> {
    mix(i).to_be_bytes().to_vec()
}

/// Returns a word of one to eight characters. The byte values of the characters are not contiguous,
/// so the filter's mapping of keys to integers has sets of bytes.
fn name(i: u64) -> Vec<u8> {
    (0..1 + mix(i) % 8).map(|j| b"aeinorstAZ_~"[(mix(i * 9 + j) % 12) as usize]).collect()
}

fn keys(name: &str, key: fn(u64) -> Vec<u8>) -> Vec<Vec<u8>> {
    let count: u64 = name.trim_end_matches(".fb").rsplit('-').next().unwrap().parse().unwrap();
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    keys
}

fn written((name, spec, key): (&str, &str, fn(u64) -> Vec<u8>)) -> Vec<u8> {
    let spec = spec.parse().unwrap();
    let (keys, alone) = (keys(name, key), FilterOptions::new(spec).table_id(TABLE));
    let beside = FilterOptions::new("bloom:10".parse().unwrap()).table_id(TABLE).ranges(spec);
    match name {
        _ if name.contains("partitioned") => built_in_partitions(&alone, hasher(name), 300, keys),
        _ if name.contains("prefixes-and") => {
            let options = beside.prefixes_by_host("fixed:8", WholeKeys::Too);
            let mut builder = options.builder(hasher(name)).unwrap();
            for key in keys {
                builder.add(builder.hasher().key(&key));
                builder.add_prefix(builder.hasher().key(&key[..8]));
            }
            builder.finish().unwrap().bytes
        }
        _ if name.contains("bloom-and") => built(&beside, hasher(name), keys),
        _ => built(&alone, hasher(name), keys),
    }
}

/// Returns a line with the number of answers "maybe" for 10,000 fixed ranges, and a description of
/// the filter.
fn described((name, _, key): (&str, &str, fn(u64) -> Vec<u8>), bytes: &[u8]) -> String {
    let block = open(name, bytes, Verify::AtOpen);
    let maybe = (0..10_000).filter(|&i| {
        let (mut from, mut to) = (key(i + 1_000_000), key(i + 1_000_000));
        from.push(1);
        to.push(200);
        block.may_contain_range(Included(&from), Excluded(&to))
    });
    let (count, info) = (maybe.count(), block.metadata());
    let parameters = ParsedBlock::open(bytes, Verify::AtOpen).unwrap().parameters().unwrap_or_default();
    format!("{name}: {count} of 10000, {} of {} bytes, {} keys; {parameters}", info.kind, bytes.len(), info.num_keys)
}

#[test]
fn range_filters_of_version_1_open_and_hold_their_keys() {
    for file @ (name, _, key) in FILES {
        let bytes = golden(name);
        for verify in BOTH {
            let block = open(name, &bytes, verify);
            assert!(block.has_ranges() && block.metadata().table_id == TABLE, "{name}");
            for key in keys(name, key) {
                assert!(
                    block.may_contain_range(Included(&key), Included(&key))
                        && block.may_contain(block.hasher().key(&key)),
                    "{name}"
                );
            }
            block.verify_pages().unwrap();
        }
        assert!(written(file) == bytes, "{name}: the builder writes other bytes");
    }
}

#[test]
fn descriptions_of_golden_range_filters_do_not_change() {
    let recorded = String::from_utf8(golden("v1-ranges-described.txt")).unwrap();
    let found: Vec<String> = FILES.into_iter().map(|file| described(file, &golden(file.0))).collect();
    assert_eq!(found, recorded.lines().collect::<Vec<_>>());
}

/// Writes the missing golden files, and the missing lines of `v1-ranges-described.txt`. Run it with
/// `cargo test --test block golden:: -- --ignored`.
#[test]
#[ignore = "writes missing files to tests/golden"]
fn make_missing_golden_range_filters() {
    let mut lines = std::fs::read_to_string(path("v1-ranges-described.txt")).unwrap_or_default();
    for file in FILES {
        if !path(file.0).exists() {
            std::fs::write(path(file.0), written(file)).unwrap();
        }
        if !lines.contains(&format!("{}: ", file.0)) {
            writeln!(lines, "{}", described(file, &golden(file.0))).unwrap();
        }
    }
    std::fs::write(path("v1-ranges-described.txt"), lines).unwrap();
}
