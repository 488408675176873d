//! Tests golden files of range filters: the builders must write these bytes, and the readers must
//! read them.

use filterblock::WholeKeys;
use std::fmt::Write as _;
use std::ops::Bound::{Excluded, Included};
use std::path::PathBuf;

use filterblock::{
    FilterBlock, FilterOptions, HashSeed, KeyHasher, ParsedBlock, Secret, Verify, partitions::PartitionedBuilder,
};

use super::key_sets::mix;

const SEED: HashSeed = HashSeed(0x0123_4567_89ab_cdef);
const TABLE: [u8; 16] = *b"golden table id.";
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

fn secret() -> Secret {
    Secret::new(b"golden secret of thirty-two byte").unwrap()
}

fn hasher(name: &str) -> KeyHasher {
    if name.contains("siphash") { KeyHasher::sip13(SEED, &secret()) } else { KeyHasher::xxh3(SEED) }
}

fn open<'a>(name: &str, bytes: &'a [u8], verify: Verify) -> FilterBlock<&'a [u8]> {
    let secret = name.contains("siphash").then(secret);
    ParsedBlock::open(bytes, verify).unwrap().bind_any(secret.as_ref()).unwrap()
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn keys(name: &str, key: fn(u64) -> Vec<u8>) -> Vec<Vec<u8>> {
    let count: u64 = name.trim_end_matches(".fb").rsplit('-').next().unwrap().parse().unwrap();
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    keys
}

fn written((name, spec, key): (&str, &str, fn(u64) -> Vec<u8>)) -> Vec<u8> {
    let spec = spec.parse().unwrap();
    if name.contains("partitioned") {
        let mut builder =
            PartitionedBuilder::new(&FilterOptions::new(spec).table_id(TABLE), hasher(name), 300).unwrap();
        keys(name, key).iter().for_each(|key| builder.add(builder.hasher().key(key)).unwrap());
        return builder.finish().unwrap().bytes;
    }
    let both = || FilterOptions::new("bloom:10".parse().unwrap()).ranges(spec);
    let has_prefixes = name.contains("prefixes-and");
    let options = match name {
        _ if has_prefixes => both().prefixes_by_host("fixed:8", WholeKeys::Too),
        _ if name.contains("bloom-and") => both(),
        _ => FilterOptions::new(spec),
    };
    let mut builder = options.table_id(TABLE).builder(hasher(name)).unwrap();
    for key in keys(name, key) {
        builder.add(builder.hasher().key(&key));
        if has_prefixes {
            builder.add_prefix(builder.hasher().key(&key[..8]));
        }
    }
    builder.finish().unwrap().bytes
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
        for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
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
/// `cargo test --test ranges golden -- --ignored`.
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
