//! Tests the golden files: the builders must write these bytes, and the readers must read them.
//! docs/TESTING.md has the commands that make new files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use filterblock::{
    Added, FilterBlock, FilterKind, FilterOptions, HashKind, HashSeed, KeyHash, KeyHasher, ParsedBlock, Secret, Verify,
    WholeKeys, compact,
};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{BOTH, built_in_partitions, key, spec};
use xxhash_rust::xxh3::xxh3_64;

const SEED: HashSeed = HashSeed(0x0123_4567_89ab_cdef);
pub const TABLE: [u8; 16] = *b"golden table id.";
const BLOCKS: [&str; 39] = [
    "v1-bloom-0.fb",
    "v1-full-3.fb",
    "v1-bloom-1.fb",
    "v1-bloom-3.fb",
    "v1-bloom-1000.fb",
    "v1-bloom-10000.fb",
    "v1-blocked-bloom-1.fb",
    "v1-blocked-bloom-3.fb",
    "v1-blocked-bloom-1000.fb",
    "v1-blocked-bloom-10000.fb",
    "v1-prefixes.fb",
    "v1-keys-and-prefixes.fb",
    "v1-partitioned-bloom.fb",
    "v1-partitioned-blocked-bloom.fb",
    // Blocks whose keys were hashed under the secret.
    "v1-siphash-bloom-1000.fb",
    "v1-xxh3-secret-blocked-bloom-1000.fb",
    "v1-siphash-keys-and-prefixes.fb",
    "v1-siphash-partitioned-blocked-bloom.fb",
    "v1-split-block-3.fb",
    "v1-split-block-1000.fb",
    "v1-split-block-512-3.fb",
    "v1-split-block-512-1000.fb",
    "v1-ribbon-3.fb",
    "v1-ribbon-1000.fb",
    "v1-ribbon-parts-1000.fb",
    "v1-binary-fuse-8-3.fb",
    "v1-binary-fuse-8-1000.fb",
    "v1-binary-fuse-12-1000.fb",
    "v1-binary-fuse-16-1000.fb",
    "v1-bumped-ribbon-3.fb",
    "v1-bumped-ribbon-1000.fb",
    "v1-bumped-ribbon-10000.fb",
    "v1-bumped-ribbon-parts-1000.fb",
    "v1-bumped-ribbon-parts-10000.fb",
    "v1-bumped-ribbon-compact-10000.fb",
    "v1-binary-fuse-filled-8-3.fb",
    "v1-binary-fuse-filled-8-1000.fb",
    "v1-binary-fuse-filled-12-1000.fb",
    "v1-binary-fuse-filled-16-1000.fb",
];
const COMPACT: [&str; 7] = [
    "v1-empty.compact",
    "v1-full.compact",
    "v1-bloom-1.compact",
    "v1-bloom-33.compact",
    "v1-bloom-1000.compact",
    "v1-blocked-bloom-1000.compact",
    "v1-siphash-bloom-33.compact",
];

/// Files that only the readers must accept. Their free slots are 0, and builders fill free slots.
const NO_LONGER_WRITTEN: [&str; 4] =
    ["v1-binary-fuse-8-3.fb", "v1-binary-fuse-8-1000.fb", "v1-binary-fuse-12-1000.fb", "v1-binary-fuse-16-1000.fb"];

fn secret() -> Secret {
    Secret::new(b"golden secret of thirty-two byte").unwrap()
}

pub fn hasher(name: &str) -> KeyHasher {
    match name {
        _ if name.contains("siphash") => KeyHasher::sip13(SEED, &secret()),
        _ if name.contains("xxh3-secret") => KeyHasher::xxh3_with_secret(SEED, &secret()),
        _ => KeyHasher::xxh3(SEED),
    }
}

pub fn open<'a>(name: &str, bytes: &'a [u8], verify: Verify) -> FilterBlock<&'a [u8]> {
    ParsedBlock::open(bytes, verify).unwrap().bind_to(&hasher(name)).unwrap()
}

pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

pub fn golden(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the number of keys in the file, which are `key(0)`, `key(1)` and so on.
fn num_keys(name: &str) -> usize {
    match name {
        "v1-empty.compact" => 0,
        "v1-full.compact" => 3,
        _ => name
            .trim_end_matches(char::is_alphabetic)
            .trim_matches('.')
            .rsplit('-')
            .next()
            .unwrap()
            .parse()
            .unwrap_or(1000),
    }
}

/// Returns the bytes that the builders write for the file.
fn written(name: &str) -> Vec<u8> {
    let kind = match name {
        _ if name.contains("full") => "always-maybe",
        _ if name.contains("blocked-bloom") => "blocked-bloom:10",
        "v1-bloom-33.compact" | "v1-siphash-bloom-33.compact" => "bloom:fpr=0.01",
        _ if name.contains("split-block-512") => "split-block-512:10",
        _ if name.contains("split-block") => "split-block:10",
        // The filter has two groups of columns, and some of its blocks have one column less.
        _ if name.contains("bumped-ribbon-parts") => "bumped-ribbon:12.3",
        _ if name.contains("bumped-ribbon-compact") => "bumped-ribbon:fpr=0.01:compact",
        _ if name.contains("bumped-ribbon") => "bumped-ribbon:fpr=0.00390625",
        _ if name.contains("ribbon-parts") => "ribbon:7.3",
        _ if name.contains("ribbon") => "ribbon:8",
        _ if name.contains("binary-fuse-filled-8") => "binary-fuse:8",
        _ if name.contains("binary-fuse-filled-12") => "binary-fuse:12",
        _ if name.contains("binary-fuse-filled-16") => "binary-fuse:16",
        _ => "bloom:10",
    };
    let keys = (0..num_keys(name)).map(key);
    let mut options = FilterOptions::new(spec(kind)).table_id(TABLE);
    if name.contains("partitioned") {
        return built_in_partitions(&options, hasher(name), 300, keys);
    }
    if name.contains("prefixes") {
        let whole_keys = if name.contains("keys-and") { WholeKeys::Too } else { WholeKeys::Not };
        options = options.prefixes_by_host("first-10-bytes", whole_keys);
    }
    let mut builder = options.builder(hasher(name)).unwrap();
    for key in keys {
        builder.add(builder.hasher().key(&key));
        if name.contains("prefixes") {
            builder.add_prefix(builder.hasher().key(&key[..10]));
        }
    }
    if name.ends_with(".compact") { builder.finish_compact().unwrap() } else { builder.finish().unwrap().bytes }
}

fn compact_may_contain(name: &str, bytes: &[u8], key: &[u8]) -> bool {
    let hasher = hasher(name);
    compact::ask(bytes, &hasher, hasher.of(key)).must_read()
}

/// Asks for 10,000 fixed absent keys. Returns a line with the name of the file and the number of
/// keys that get "maybe". The numbers of the first eight of these keys follow.
fn answers(name: &str, bytes: &[u8]) -> String {
    let absent = |i: u32| format!("absent-{i}").into_bytes();
    let let_through: Vec<u32> = if name.ends_with(".compact") {
        (0..10_000).filter(|&i| compact_may_contain(name, bytes, &absent(i))).collect()
    } else {
        let block = open(name, bytes, Verify::AtOpen);
        let ask = |key: &[u8]| match block.metadata().added {
            Added::Prefixes => block.may_contain_prefix("first-10-bytes", hasher(name).key(key)),
            _ => block.may_contain(hasher(name).key(key)),
        };
        (0..10_000).filter(|&i| ask(&absent(i))).collect()
    };
    format!("{name} {} {:?}", let_through.len(), &let_through[..let_through.len().min(8)])
}

#[test]
fn blocks_of_version_1_open_and_hold_their_keys() {
    for name in BLOCKS {
        let bytes = golden(name);
        for verify in BOTH {
            let block = open(name, &bytes, verify);
            assert_eq!(block.hasher().identity(), hasher(name).identity(), "{name}");
            assert_eq!((block.hasher().seed(), block.metadata().table_id), (SEED, TABLE), "{name}");
            let keys = (0..num_keys(name)).map(key);
            match block.metadata().added {
                Added::WholeKeys | Added::Ranges => assert_eq!(block.metadata().extractor, None),
                Added::Prefixes | Added::Both => assert_eq!(block.metadata().extractor, Some("first-10-bytes")),
            }
            // A block that holds only prefixes answers "maybe" for every key.
            assert!(keys.clone().all(|key| block.may_contain(block.hasher().key(&key))), "{name}: a key is denied");
            let prefixes = block.metadata().added != Added::WholeKeys;
            assert!(
                keys.clone()
                    .all(|key| !prefixes || block.may_contain_prefix("first-10-bytes", block.hasher().key(&key[..10]))),
                "{name}: a prefix is denied"
            );
            block.verify_pages().unwrap();
        }
    }
    assert_eq!(
        FilterBlock::open_any(golden("v1-bloom-0.fb"), Verify::AtOpen).unwrap().metadata().kind,
        FilterKind::Empty
    );
    assert_eq!(
        FilterBlock::open_any(golden("v1-partitioned-bloom.fb"), Verify::AtOpen).unwrap().metadata().num_partitions,
        4
    );
}

#[test]
fn compact_filters_of_version_1_hold_their_keys() {
    for name in COMPACT {
        let bytes = golden(name);
        compact::check(&bytes, &hasher(name)).unwrap();
        assert!((0..num_keys(name)).all(|i| compact_may_contain(name, &bytes, &key(i))), "{name}: a key is denied");
    }
}

#[test]
fn answers_about_absent_keys_do_not_change() {
    let recorded = String::from_utf8(golden("v1-answers.txt")).unwrap();
    // The order of the lines is that of the additions.
    let found: BTreeSet<String> = BLOCKS.iter().chain(&COMPACT).map(|name| answers(name, &golden(name))).collect();
    assert_eq!(found, recorded.lines().map(str::to_owned).collect());
}

/// Returns the metadata and statistics of a block as text. Floating-point values have seven digits.
fn described(name: &str, bytes: &[u8]) -> String {
    let block = open(name, bytes, Verify::AtOpen);
    let (info, found) = (block.metadata(), block.statistics());
    let digits = |number: f64| format!("{number:.6e}");
    format!(
        "{name}: {}, keys {}, bytes {} of {}, bits per key {}, probes {}, rate {}, fill {}, estimated {}, partitions {}",
        info.kind,
        info.num_keys,
        info.payload_len_bytes,
        info.block_len_bytes,
        digits(info.bits_per_key()),
        info.probes,
        digits(block.expected_fpr()),
        digits(found.fill_ratio),
        found.estimated_keys.map_or("unknown".to_owned(), digits),
        info.num_partitions
    )
}

#[test]
fn descriptions_of_golden_blocks_do_not_change() {
    let recorded = String::from_utf8(golden("v1-described.txt")).unwrap();
    let found: Vec<String> = BLOCKS.iter().map(|name| described(name, &golden(name))).collect();
    assert_eq!(found, recorded.lines().collect::<Vec<_>>());
}

#[test]
fn builders_write_the_bytes_of_the_golden_files() {
    for name in BLOCKS.iter().chain(&COMPACT).filter(|name| !NO_LONGER_WRITTEN.contains(name)) {
        assert!(written(name) == golden(name), "{name}: the builder writes other bytes");
    }
}

/// Numbers of keys near the thresholds at which a builder changes its choice, and between them.
const NUMBERS_OF_KEYS: [usize; 34] = [
    1, 2, 3, 8, 9, 27, 64, 65, 66, 128, 300, 304, 999, 1_000, 1_009, 1_010, 1_200, 1_500, 1_501, 2_047, 2_560, 2_561,
    3_000, 4_096, 4_097, 4_500, 9_727, 9_728, 20_479, 20_480, 30_000, 59_999, 60_000, 140_000,
];
const SPECS: [&str; 16] = [
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "ribbon:8",
    "ribbon:7.3",
    "ribbon:fpr=0.003",
    "binary-fuse:8",
    "binary-fuse:12",
    "binary-fuse:16",
    "bumped-ribbon:3",
    "bumped-ribbon:8",
    "bumped-ribbon:12.3",
    "bumped-ribbon:fpr=0.003",
    "bumped-ribbon:8:compact",
    "bumped-ribbon:20",
];

/// Returns the length and the XXH3 hash of the block that the builder writes for each number of
/// keys. A CRC-32 would not notice a change in a part of a block that ends in its own CRC-32.
fn fingerprints(spec_text: &str) -> String {
    let mut line = spec_text.to_owned();
    for n in NUMBERS_OF_KEYS {
        let mut random = Random(n as u64);
        let mut builder = FilterOptions::new(spec(spec_text)).self_check(false).builder(SEED).unwrap();
        (0..n).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
        let bytes = builder.finish().unwrap().bytes;
        write!(line, " {n}:{}:{:016x}", bytes.len(), xxh3_64(&bytes)).unwrap();
    }
    line
}

/// The lines of `v1-checksums.txt` may change even though version 1 is frozen: a builder may make
/// better choices, and readers still read its blocks.
#[test]
fn equal_keys_give_equal_bytes_at_every_builder_threshold() {
    let recorded = String::from_utf8(golden("v1-checksums.txt")).unwrap();
    for (spec, line) in SPECS.iter().zip(recorded.lines()) {
        assert_eq!(fingerprints(spec), line);
    }
    assert_eq!(recorded.lines().count(), SPECS.len());
}

#[test]
fn key_hashes_match_another_implementation() {
    let vectors = String::from_utf8(golden("key-hashes.txt")).unwrap();
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let [seed, len, hash] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let key: Vec<u8> = (0..len.parse::<usize>().unwrap()).map(|i| (i % 251) as u8).collect();
        let seed = HashSeed(u64::from_str_radix(seed, 16).unwrap());
        assert_eq!(KeyHash::of(&key, seed).raw(), u64::from_str_radix(hash, 16).unwrap(), "{line}");
        count += 1;
    }
    assert!(count > 150);
    assert_eq!(KeyHash::of(b"", HashSeed(0)).raw(), 0x2d06_8005_38d3_94c2);
}

#[test]
fn hashes_under_a_secret_match_other_implementations() {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    };
    let vectors = String::from_utf8(golden("keyed-hashes.txt")).unwrap();
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let [id, secret, seed, fingerprint, len, hash] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let kind = HashKind::from_id(id.parse().unwrap()).unwrap();
        let seed = HashSeed(u64::from_str_radix(seed, 16).unwrap());
        let hasher = KeyHasher::new(kind, seed, Some(&Secret::new(&bytes(secret)).unwrap())).unwrap();
        let key: Vec<u8> = (0..len.parse::<usize>().unwrap()).map(|i| (i % 251) as u8).collect();
        assert_eq!(hasher.identity().fingerprint.unwrap().to_string(), fingerprint, "{line}");
        assert_eq!(hasher.of(&key).raw(), u64::from_str_radix(hash, 16).unwrap(), "{line}");
        count += 1;
    }
    assert!(count > 400);
}

/// Writes the missing files and lines. Run it with
/// `cargo test --test block golden:: -- --ignored`.
#[test]
#[ignore = "writes missing files to tests/golden"]
fn make_missing_golden_files() {
    let mut lines = std::fs::read_to_string(path("v1-answers.txt")).unwrap_or_default();
    for name in BLOCKS.iter().chain(&COMPACT) {
        if !path(name).exists() {
            std::fs::write(path(name), written(name)).unwrap();
        }
        if !lines.contains(&format!("{name} ")) {
            writeln!(lines, "{}", answers(name, &golden(name))).unwrap();
        }
    }
    std::fs::write(path("v1-answers.txt"), lines).unwrap();
    let mut lines = std::fs::read_to_string(path("v1-described.txt")).unwrap_or_default();
    for name in BLOCKS {
        if !lines.contains(&format!("{name}: ")) {
            writeln!(lines, "{}", described(name, &golden(name))).unwrap();
        }
    }
    std::fs::write(path("v1-described.txt"), lines).unwrap();
    if !path("v1-checksums.txt").exists() {
        let lines: Vec<String> = SPECS.iter().map(|spec| fingerprints(spec) + "\n").collect();
        std::fs::write(path("v1-checksums.txt"), lines.concat()).unwrap();
    }
}
