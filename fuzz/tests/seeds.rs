//! Writes seeds to `fuzz/corpus`. The command is
//! `cargo test --manifest-path fuzz/Cargo.toml --test seeds -- --ignored`. The tests that are not
//! ignored check stored seeds.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filterblock::{Error, FilterBlock, FilterOptions, HashSeed, Verify};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use filterblock_fuzz::c_abi_opened;
use filterblock_fuzz::store_files::{Log, STORE_ID, batch, current, first_edit, put_numbers};
use filterblock_testkit::Random;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn write(target: &str, name: &str, parts: &[&[u8]]) {
    let dir = here("corpus").join(target);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(name), parts.concat()).unwrap();
}

const GOLDEN_TABLES: [&str; 2] = ["v1-sorted.sst", "v1-sorted-lz4.sst"];

/// Returns the seed for a golden file of the store. The target opens the file as it is.
fn golden_table(name: &str) -> Vec<u8> {
    [vec![0], std::fs::read(here("../crates/store/tests/golden").join(name)).unwrap()].concat()
}

#[test]
fn seeds_of_golden_tables_are_the_golden_files() {
    for name in GOLDEN_TABLES {
        let seed = std::fs::read(here("corpus/table").join(format!("any-{name}"))).unwrap();
        assert!(seed == golden_table(name), "{name}: write the seeds again");
    }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    std::iter::repeat_with(|| random.next()).flat_map(u64::to_le_bytes).take(len).collect()
}

#[test]
fn seeds_of_open_block_are_of_the_present_layout() {
    for entry in std::fs::read_dir(here("corpus/open_block")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "fb") {
            let opened = FilterBlock::open_any(std::fs::read(&path).unwrap(), Verify::AtOpen);
            assert!(matches!(opened, Ok(_) | Err(Error::Secret { .. })), "{}: write the seeds again", path.display());
        }
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_open_block() {
    for name in [
        "blocked-bloom-3.fb",
        "bloom-0.fb",
        "bloom-1.compact",
        "bloom-3.fb",
        "bloom-33.compact",
        "empty.compact",
        "full-3.fb",
        "full.compact",
        "keys-and-prefixes.fb",
        "siphash-bloom-1000.fb",
        "siphash-partitioned-blocked-bloom.fb",
    ] {
        let golden = std::fs::read(here("../tests/golden").join(format!("v1-{name}"))).unwrap();
        write("open_block", name, &[&golden]);
    }
    for (name, spec, num_keys) in [
        ("binary-fuse-8-60", "binary-fuse:8", 60u32),
        ("bumped-ribbon-5-2700", "bumped-ribbon:5", 2_700),
        ("bumped-ribbon-8-60", "bumped-ribbon:8", 60),
        ("bumped-ribbon-9.5-60", "bumped-ribbon:9.5", 60),
        ("bumped-ribbon-fpr-0.01-60", "bumped-ribbon:fpr=0.01", 60),
        ("ribbon-8-60", "ribbon:8", 60),
        ("split-block-10-60", "split-block:10", 60),
        ("split-block-512-12-60", "split-block-512:12", 60),
    ] {
        let mut builder = FilterOptions::new(spec.parse().unwrap()).builder(HashSeed(1)).unwrap();
        (0..num_keys).for_each(|i| builder.add(builder.hasher().key(&i.to_le_bytes())));
        write("open_block", &format!("{name}.fb"), &[&builder.finish().unwrap().bytes]);
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_c_abi() {
    let bloom: &[u8] = &[42, 0, 1, 3, 0x29, 0x23, 0, 0, 1];
    let ribbon: &[u8] = &[42, 0, 1, 8, 0x29, 0x23, 0, 0, 1];
    let ribbon_with_prefixes: &[u8] = &[42, 0, 1, 8, 0x29, 0x23, 2, 0, 1];
    let without_id: &[u8] = &[42, 0, 193, 3, 0x29, 0x23, 0, 0, 1];
    let with_ranges: &[u8] = &[42, 0, 7, 3, 0x29, 0x23, 0, 0, 1];
    // The steps that the seeds combine.
    let keys: &[u8] = b"\x00\x02\x05apple\x00\x02\x04pear\x00\x01\x05lemon\x03\x03";
    let keys_in_full: &[u8] = b"\x00\x02\x05apple\x00\x02\x04pear\x00\x03\x02ab";
    let prefixes: &[u8] = b"\x00\x00\x03app\x00\x00\x03pea";
    let finish: &[u8] = &[5, 1, 1];
    let compact: &[u8] = &[5, 0, 1];
    let open: &[u8] = &[8, 0, 0xf0, 0, 0, 5, 0, 1];
    let touch: &[u8] = &[8, 0, 0xf1, 9, 0, 7, 1, 1];
    let ask: &[u8] = b"\x0a\x00\x00\x03abc\x00\x00\x00\x00\x00\x00\x00\x01\x01\x0b\x00\xf0\x00\x00\x04pear\x01\x01\x01";
    let set: &[u8] = b"\x0c\x50\x00\x00abc\x0c\x05\x00\x00abc\x0c\xf0\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00abc";
    let damage: &[u8] = &[7, 0, 20, 0, 3, 1, 2, 4];
    let partitions: &[u8] = b"\x0d\x03\x29\x23\x02\x00\x04\x05apple\x04pear\x05lemon\x03abc\x01\x01";
    let anything: &[u8] = b"\x0e\x10bloom:10\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01\x01";
    write("c_abi", "bloom", &[bloom, keys, finish, open, ask, set]);
    write("c_abi", "ribbon-prefixes", &[ribbon_with_prefixes, prefixes, keys, finish, open, touch, ask, set]);
    write("c_abi", "compact", &[bloom, keys, compact, open, ask]);
    write("c_abi", "damage", &[bloom, keys, finish, damage, touch, ask, open, damage, touch, set]);
    write("c_abi", "partitions", &[bloom, partitions, open, touch, ask, set]);
    write("c_abi", "lost-key", &[bloom, keys, b"\x00\x02\xfaabcdefghij", finish, finish, &[4, 4], keys, finish, open]);
    write("c_abi", "without-table-id", &[without_id, keys, finish, open, touch, ask, set]);
    write("c_abi", "ranges", &[with_ranges, keys_in_full, finish, open, touch, ask, damage, touch, set]);
    write("c_abi", "anything", &[ribbon, anything, open, ask, set]);
}

#[test]
fn seeds_of_c_abi_open_filters() {
    for name in ["bloom", "ribbon-prefixes", "damage", "partitions", "lost-key", "without-table-id", "ranges"] {
        let opened = c_abi_opened(&std::fs::read(here("corpus/c_abi").join(name)).unwrap());
        assert!(opened > 0, "{name}: the calls are out of step with the target; correct the seed and write it again");
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_run_map() {
    // A step that adds a run has its number, a shift (64: hashes of keys), and the keys.
    let run = |number: u8, shift: u8, keys: std::ops::Range<u8>| {
        [vec![0, number, shift, keys.len() as u8], keys.collect()].concat()
    };
    let (drop, ask): (&[u8], &[u8]) = (&[2, 0, 9], &[3, 64, 4, b'a', b'b', b'c', b'd']);
    write("run_map", "usual", &[&[40], &run(0, 64, 0..60), &run(1, 64, 30..90), ask, drop, &run(2, 64, 0..60), ask]);
    write("run_map", "full-lines", &[&[1], &run(0, 64, 0..99), &run(1, 64, 0..99), &run(200, 64, 9..40), drop, ask]);
    let many: Vec<u8> = (0..40).flat_map(|number| run(number * 6, 64, 0..number + 1)).collect();
    write("run_map", "many-runs", &[&[200], &many, drop, ask]);
    write("run_map", "one-line", &[&[255], &run(3, 36, 1..90), &run(5, 36, 80..200), drop, &run(4, 36, 1..40), ask]);
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_filter_cache() {
    // Each filter has a specification, a form (2: partitions, 3: with ranges), a size and a first key.
    let kinds: &[u8] = &[0, 0, 250, 0, 1, 0, 160, 90, 5, 0, 120, 180, 3, 2, 180, 9, 6, 3, 140, 0];
    let ribbons: &[u8] = &[1, 0, 250, 0, 1, 0, 160, 90, 4, 0, 200, 180, 1, 3, 180, 9, 1, 0, 160, 60];
    let late: &[u8] = &[2, 28, 90, 0, 7, 24, 160, 4, 1, 20, 160, 7, 192, 0, 90, 2, 0, 0, 0, 0];
    let (rebalance, publish): (&[u8], &[u8]) = (&[7], &[9, 0, 0]);
    let (drop_set, drop_filter, add): (&[u8], &[u8], &[u8]) = (&[10, 0], &[10, 3], &[11, 1, 0, 250, 33]);
    // The set: 0, or 2 for the last of three.
    let ones = |set: u8| (0..5).flat_map(|i| [2, set, i, i * 3, i, 1, 2, set, i, i * 3 + 1, i, 1]).collect::<Vec<u8>>();
    let batches = |set: u8, times: u8| (0..5).flat_map(|i| [4, set, i, times]).collect::<Vec<u8>>();
    let pairs = |set: u8| [6, set, 0, 7, 250];
    write("filter_cache", "room-for-all", &[&[255, 4], kinds, &ones(0), &batches(0, 1), &pairs(0), publish, &ones(1)]);
    write("filter_cache", "no-room", &[&[0, 4], kinds, &ones(0), &batches(0, 0), rebalance, publish, &pairs(1)]);
    write("filter_cache", "late-loads", &[&[255, 4], late, &ones(0), &[9, 0, 7], &ones(1), &batches(0, 1), &ones(0)]);
    let rounds = [&batches(0, 3)[..], rebalance, publish, &batches(1, 3), rebalance, publish].concat();
    let shrunk = [&rounds[..], &batches(2, 3), rebalance, drop_set, publish, &batches(2, 3)].concat();
    write("filter_cache", "lost-columns", &[&[55, 4], ribbons, &shrunk]);
    write("filter_cache", "bound-of-kinds", &[&[60, 4], kinds, &shrunk]);
    let given_up = [drop_filter, &[10, 5], drop_set, publish, rebalance, drop_set, publish, rebalance].concat();
    write("filter_cache", "columns-again", &[&[70, 4], ribbons, &rounds, &given_up, &batches(1, 1), rebalance, add]);
    for kind in 0..7 {
        let (now, later) = ([0, kind, 40 * kind, 1], [0, kind, 9, 3]);
        let ones = ones(0);
        let steps = [&now[..], &ones, &later, &ones[..6], &pairs(0), publish, &batches(1, 1), rebalance].concat();
        write("filter_cache", &format!("fault-{kind}"), &[&[255, 4], kinds, &steps]);
        let again = [&rounds[..], &later, &given_up, &now, rebalance, &batches(0, 1)].concat();
        write("filter_cache", &format!("fault-{kind}-of-columns"), &[&[70, 4], ribbons, &again]);
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_table() {
    for name in GOLDEN_TABLES {
        write("table", &format!("any-{name}"), &[&golden_table(name)]);
    }
    // Two entries are spelled out. The other 90 have counted keys, whose shape and value lengths
    // the first bytes describe.
    let entries: &[u8] = &[90, 0, 41, 30, 2, 3, b'a', b'b', b'c', 4, b'q', b'q', b'r', b's'];
    let bloom: &[u8] = &[7, 1, 0x29, 0x23];
    let lz4: &[u8] = &[131, 3, 0x29, 0x23];
    let kinds: [(&str, &[u8]); 7] = [
        ("none", &[22]),
        ("bloom", bloom),
        ("blocked-bloom-lz4", lz4),
        ("split-block", &[9, 5, 0x29, 0x23]),
        ("ribbon", &[8, 7, 0x59, 0x1b]),
        ("bumped-ribbon", &[9, 8, 0x29, 0x23]),
        ("binary-fuse", &[10, 9, 1, 0]),
    ];
    for (name, how) in kinds {
        write("table", &format!("sound-{name}"), &[&[1], entries, how]);
    }
    let edits: [(&str, &[u8], &[u8]); 11] = [
        ("block-xor", bloom, &[0, 0, 3, 0, 0, 9, 0, 4]),
        ("block-count", bloom, &[0, 1, 2, 0, 3, 3, 9]),
        ("block-lz4", lz4, &[0, 2, 1, 0, 2, 5, 0, 200]),
        ("index", bloom, &[0, 3, 0, 7, 0, 128]),
        ("blocks-swapped", bloom, &[0, 4, 0, 0, 0, 2, 0]),
        ("block-twice", bloom, &[0, 4, 2, 1, 0, 1, 0]),
        ("separator", bloom, &[0, 4, 3, 1, 0, 1, 0, 2, b'p', b'0']),
        ("properties", bloom, &[0, 5, 2, 1, 0, 9]),
        ("filter-of-others", bloom, &[0, 6, 1, 1]),
        ("footer", bloom, &[0, 7, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
        ("damage", bloom, &[3, 0, 100, 0, 0, 4, 3, 3, 0, 0, 0, 64, 0, 0, 5]),
    ];
    for (name, how, edit) in edits {
        write("table", &format!("edit-{name}"), &[&[1], entries, how, edit, &[0]]);
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_log_and_manifest() {
    // Six batches of one to three writes each, over nine keys.
    let batches: &[u8] =
        &[6, 0, 1, 20, 1, 2, 31, 201, 5, 2, 3, 40, 4, 50, 5, 245, 0, 1, 22, 0, 210, 1, 1, 6, 60, 7, 241];
    let stores: [(&str, u8, &[u8]); 5] = [
        ("one-log", 0, &[0, 0]),
        ("three-logs-buffered", 128, &[0, 2]),
        ("tables-and-logs", 2, &[2, 1, 0, 1]),
        ("tables-in-one-edit", 5, &[3, 0, 0, 0]),
        ("all-in-tables", 9, &[2, 2, 0, 0]),
    ];
    let edits: [(&str, &[u8]); 9] = [
        ("sound", &[]),
        ("damaged", &[0, 2, 0, 0, 60, 0, 0, 1]),
        ("blank", &[0, 2, 0, 2, 48, 0, 0, 10]),
        ("torn", &[0, 1, 0, 4, 100, 0, 0]),
        ("forged-log", &[2, 0, 0, 2, 72, 0, 9]),
        ("forged-manifest", &[2, 2, 0, 2, 80, 0, 200]),
        ("own-record", &[4, 2, 0, 1, 0, 9, 6, 0, 9, 9, 1, 0, 0, 1, 1]),
        ("header-number", &[5, 0, 0, 0xf0, 255, 255, 255, 255, 255, 255, 127]),
        ("missing", &[6, 1, 0]),
    ];
    for (number, (store, style, layout)) in stores.into_iter().enumerate() {
        for (name, edit) in edits.iter().skip(number % 2).step_by(2) {
            let mode = if number == 3 { 129 } else { 1 };
            write("log_and_manifest", &format!("{store}-{name}"), &[&[mode, style], batches, layout, edit, &[0]]);
        }
    }
    let mut manifest = Log::new(b"fb-man\r\n", 1, [0; 16], 0, true);
    let mut edit = first_edit();
    put_numbers(&mut edit, 3, 10, 0);
    manifest.append(0, &edit);
    let mut log = Log::new(b"fb-log\r\n", 3, STORE_ID, 1, true);
    log.append(1, &batch(&[(b"key01".to_vec(), Some(b"value".to_vec())), (b"gone".to_vec(), None)]));
    let file = |choice: u8, bytes: &[u8]| [&[choice], (bytes.len() as u16).to_le_bytes().as_slice(), bytes].concat();
    let (manifest, log) = (file(133, &manifest.bytes), file(135, &log.bytes));
    let current = file(0, &current(b"MANIFEST-000001"));
    write("log_and_manifest", "any-store", &[&[0], &current, &manifest, &log]);
    write("log_and_manifest", "any-without-log", &[&[128], &manifest]);
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_store_ops() {
    for number in 0..16u8 {
        // These bytes choose the options of the store.
        let config = [number.wrapping_mul(37), number.wrapping_mul(101), number.wrapping_mul(59)];
        write("store_ops", &format!("chance-{number:02}"), &[&config, &random(number.into(), 400)]);
    }
    // Most operations, without faults.
    let put = |i: u8| [0, i, 20, i];
    let puts: Vec<u8> = (1..40).flat_map(put).collect();
    let rest: &[u8] = &[15, 19, 10, 3, 10, 4, 17, 0, 0, 0, 20, 4, 2, 30, 0xaa, 0xaa, 22, 2, 7, 9, 23, 30, 24, 31, 5];
    write("store_ops", "everything-once", &[&[1, 0, 0], &puts, rest]);
    write("store_ops", "everything-in-a-quiet-store", &[&[1, 16, 3], &puts, rest]);
    // Writes or syncs fail, the store rejects writes, and every sort of crash occurs.
    let failing: Vec<u8> =
        (0..4u8).flat_map(|crash| [27, 0, crash, 0, 9, 20, crash, 0, 8, 20, 1, 25, crash, 7, 0]).collect();
    write("store_ops", "failed-writes-and-crashes", &[&[1, 0, 0], &puts, &failing]);
    let rot: Vec<u8> = (0..6u8).flat_map(|after| [27, 5 + after % 2, after, 20, 0, 0, 0, 0, 0, 22, 2, 1, 3]).collect();
    write("store_ops", "bytes-that-read-wrong", &[&[1, 16, 3], &puts, &[15], &rot]);
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_foreign_filter() {
    for golden in [
        "leveldb/raw-n7-b10.filter",
        "leveldb/raw-n100-b10.filter",
        "rocksdb-7.8.3/raw-legacy-n100-b10.filter",
        "rocksdb-7.8.3/raw-fastlocal-n200-b50.1.filter",
        "rocksdb-11.8.1/raw-fastlocal-n70-b10-offm.filter",
        "rocksdb-7.8.3/raw-ribbon-n300-b10.filter",
        "rocksdb-7.8.3/raw-ribbon-n1200-b2.filter",
        "parquet/raw-n100-fpp0.01.sbbf",
    ] {
        let bytes = std::fs::read(here("../tests/golden/foreign").join(golden)).unwrap();
        write("foreign_filter", &format!("any-{}", golden.replace('/', "-")), &[&[0], &bytes]);
    }
    write("foreign_filter", "any-empty", &[&[0]]);
    write("foreign_filter", "any-six-zeros", &[&[0; 7]]);
    // A seed has the kind, the bits per key in units of 1/500, the first key, the number of keys,
    // and edits.
    let ten_bits: &[u8] = &[0x88, 0x13, 1, 2, 3, 4];
    let kinds: [(&str, u8); 6] =
        [("leveldb", 1), ("parquet", 43), ("legacy", 4), ("fast-local", 5), ("for-memory", 133), ("ribbon", 6)];
    for (name, choice) in kinds {
        write("foreign_filter", &format!("sound-{name}"), &[&[choice], ten_bits, &[200, 1]]);
        write("foreign_filter", &format!("no-keys-{name}"), &[&[choice], ten_bits, &[0, 0]]);
        // Sets two of the last five bytes, changes a byte of the payload, and truncates the filter.
        let edits: &[u8] = &[3, 4, 31, 3, 2, 2, 0, 40, 0, 8, 9, 30, 1];
        write("foreign_filter", &format!("edited-{name}"), &[&[choice], ten_bits, &[44, 1], edits]);
    }
    for (name, bits) in [("half-a-bit", [0xfa, 0]), ("many-bits", [0xff, 0xff]), ("no-bits", [0, 0])] {
        write("foreign_filter", name, &[&[6], &bits, &[0, 0, 0, 0, 44, 1]]);
    }
}

/// Returns a Parquet file of one column, one row and one filter, whose offset is in the metadata.
fn parquet_of(filter: &[u8]) -> Vec<u8> {
    let mut metadata = vec![0x49, 0x1c, 0x19, 0x1c, 0x3c, 0x15, 12, 0x29, 0x18, 1, b'k', 0x26, 2, 0x96, 8, 0x15];
    metadata.extend([filter.len() as u8 * 2, 0, 0, 0, 0]);
    [b"PAR1", filter, &metadata, &[metadata.len() as u8, 0, 0, 0], b"PAR1"].concat()
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_foreign_table() {
    let golden = here("../tests/golden/foreign");
    for name in [
        "leveldb/tbl-n1.ldb",
        "leveldb/tbl-n100.ldb",
        "rocksdb-7.8.3/fv5-bloom-n1.sst",
        "rocksdb-9.8.4/fv6-bloom-n1.sst",
        "rocksdb-11.8.1/fv7-bloom-n1.sst",
        "rocksdb-9.8.4-layouts/fv6-no-filter.sst",
        "rocksdb-9.8.4-layouts/fv6-zstd.sst",
    ] {
        let bytes = std::fs::read(golden.join(name)).unwrap();
        write("foreign_table", &format!("any-{}", name.replace('/', "-")), &[&[0], &bytes]);
    }
    let filter = std::fs::read(golden.join("parquet/raw-n1-fpp0.01.sbbf")).unwrap();
    write("foreign_table", "any-parquet", &[&[0], &parquet_of(&filter)]);
    // A seed has 50 keys with 4 keys per block, edits, and either one whole filter or a filter
    // partition for each block.
    let edits: [(&str, &[u8]); 9] = [
        ("sound", &[]),
        ("data-xor", &[0, 3, 0, 0, 9, 0, 7]),
        ("data-length", &[1, 2, 0, 4, 1, 0, 3, 255, 255, 255]),
        ("compression", &[3, 1, 0, 7, 3, 2, 0, 1, 3, 3, 0, 4]),
        ("filter", &[4, 3, 1, 9]),
        ("index", &[5, 0, 12, 0, 3, 5, 3, 0, 200]),
        ("handle", &[6, 4, 0, 251, 0, 6, 5, 0, 0, 9]),
        ("index-packed", &[7, 7]),
        ("damage", &[0, 5, 0, 0, 1, 0, 1, 8, 8, 8, 0, 40, 1, 0, 9]),
    ];
    for (engine, choice) in [("leveldb", 2), ("rocksdb", 3)] {
        for (name, edit) in edits {
            for (layout, how) in [("whole", 0), ("partitions", 1)] {
                if choice == 3 || how == 0 {
                    write("foreign_table", &format!("{engine}-{layout}-{name}"), &[&[choice, 50, 0, 3, how], edit]);
                }
            }
        }
    }
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_index_file() {
    let golden = std::fs::read(here("../crates/parquet/tests/golden/v1-four-files.index")).unwrap();
    write("index_file", "any-four-files", &[&[0], &golden]);
    write("index_file", "any-empty", &[&[0]]);
    // The bytes are the FPR, the number of files, and the name, first key and number of keys of
    // each file. The number of updates follows.
    let three: &[u8] = &[0, 3, 1, 0, 0, 40, 2, 100, 0, 60, 3, 0, 1, 255];
    write("index_file", "sound", &[&[2], three, &[0]]);
    // Two updates: the first removes a file and adds another, and the second adds a file.
    let updates: &[u8] = &[2, 2, 1, 4, 0, 2, 30, 0, 1, 2, 0, 3, 63];
    write("index_file", "updated", &[&[2], three, updates]);
    // `damage` changes a byte, blanks bytes, and copies bytes to another place. The seed
    // `truncated` truncates the index.
    let damage: &[u8] = &[0, 200, 1, 0, 8, 2, 0, 2, 0, 5, 3, 100, 1, 0, 0, 3, 0, 7];
    write("index_file", "damaged", &[&[2], three, updates, damage]);
    write("index_file", "truncated", &[&[2], three, &[0], &[4, 100, 1, 0]]);
    for (name, at, to) in
        [("rows", 16, 9), ("cells", 20, 1), ("files", 24, 2), ("table-len", 28, 3), ("path-len", 68, 9)]
    {
        write("index_file", &format!("edited-{name}"), &[&[1], three, &[0], &[2, at, 0, to]]);
    }
}

/// Returns a Parquet file with two row groups and three columns: a number, an optional text and a
/// list of numbers.
fn small_parquet(rows: u32, change: impl Fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder) -> Vec<u8> {
    let schema = "message m { required double x; optional binary s (UTF8); \
                  optional group l (LIST) { repeated group list { required int32 element; } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(change(WriterProperties::builder()).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for group in 0..2 {
        let mut row_group = writer.next_row_group().unwrap();
        let numbers: Vec<f64> = (0..rows).map(|row| f64::from(row / 2 * group)).collect();
        let mut column = row_group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        let levels: Vec<i16> = (0..rows).map(|row| i16::from(row % 3 != 0)).collect();
        let texts = (0..rows).filter(|row| row % 3 != 0).map(|row| ByteArray::from(format!("text {row}").into_bytes()));
        let mut column = row_group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts.collect::<Vec<_>>(), Some(&levels), None).unwrap();
        column.close().unwrap();
        let elements: Vec<i32> = (0..rows.cast_signed() * 2).collect();
        let repetitions: Vec<i16> = elements.iter().map(|element| (element % 2) as i16).collect();
        let mut column = row_group.next_column().unwrap().unwrap();
        let definitions = vec![2; elements.len()];
        column.typed::<Int32Type>().write_batch(&elements, Some(&definitions), Some(&repetitions)).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

#[test]
#[ignore = "writes seed files to fuzz/corpus"]
fn seeds_of_parquet() {
    type Change = fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder;
    let plain: Change = |builder| builder.set_dictionary_enabled(false).set_compression(Compression::UNCOMPRESSED);
    let changes: [(&str, Change); 5] = [
        ("plain", plain),
        ("dictionary", |builder| builder.set_compression(Compression::UNCOMPRESSED)),
        ("snappy", |builder| builder.set_dictionary_enabled(false).set_compression(Compression::SNAPPY)),
        ("version-2", |builder| {
            let builder = builder.set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false);
            builder.set_compression(Compression::UNCOMPRESSED)
        }),
        ("filters", |builder| builder.set_bloom_filter_enabled(true).set_compression(Compression::UNCOMPRESSED)),
    ];
    for (name, change) in changes {
        let file = small_parquet(20, change);
        write("parquet_add", name, &[&file]);
        let footer = filterblock_parquet::Footer::read(&mut std::io::Cursor::new(&file)).unwrap();
        write("parquet_footer", name, &[footer.metadata()]);
    }
}
