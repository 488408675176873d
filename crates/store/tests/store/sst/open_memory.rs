//! Tests the bounds on the memory that an open takes in release builds, even for hostile files:
//!
//! * For an SST: its size and 8 KiB.
//! * For a log with any writes: twice its size, two write buffers and 512 KiB.
//! * For a damaged log that is salvaged: four times its size and 512 KiB.
//! * For a manifest with any content: four times its size and 16 KiB.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, Random, key};
use filterblock::Verify;
use filterblock_store::lsm::LogRecovery;
use filterblock_store::sstable::{FilterMemory, Table, TableOptions, TableReadOptions, TableWriter};
use filterblock_store::storage::{Disk, Memory, Storage};
use filterblock_store::{Db, Options};
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};

fn peak_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = act();
    (result, usize::try_from(PEAK.get() - before).unwrap())
}

fn table(filter: &str) -> Vec<u8> {
    let storage = Memory::new();
    let path = Path::new("t.sst");
    let options = TableOptions { filter: Some(filter.parse().unwrap()), ..TableOptions::default() };
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    (0..2_000).for_each(|i| writer.add(&key(i), Some(b"value")).unwrap());
    writer.finish().unwrap();
    storage.read(path).unwrap()
}

fn open_frugally(path: &Path, bytes: &[u8], what: &str) {
    fs::write(path, bytes).unwrap();
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        for filter_memory in [FilterMemory::Heap, FilterMemory::Mapped] {
            let options = TableReadOptions { verify, filter_memory, ..TableReadOptions::default() };
            let (opened, peak) = peak_of(|| Table::open(&Disk, path, options).map(drop));
            assert!(
                peak <= bytes.len() + 8192,
                "{what}: a peak of {peak} bytes for a file of {}, {opened:?}",
                bytes.len()
            );
        }
    }
}

#[test]
fn tables_with_any_lengths_in_footers_open_within_their_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sst");
    let mut random = Random(1);
    for filter in ["bloom:10", "bumped-ribbon:8", "binary-fuse:8"] {
        let sound = table(filter);
        open_frugally(&path, &sound, "sound");
        let footer = sound.len() - 112;
        for field in (16..80).step_by(8) {
            let len = sound.len() as u64;
            for value in [0, 1, 4096, len - 1, len, len + 1, 1 << 20, 1 << 32, 1 << 40, u64::MAX - 4095, u64::MAX] {
                let mut bytes = sound.clone();
                bytes[footer + field..footer + field + 8].copy_from_slice(&value.to_le_bytes());
                common::seal_footer(&mut bytes);
                open_frugally(&path, &bytes, &format!("field {field} is {value}"));
            }
        }
        let start = common::footer_number(&sound, 56);
        let properties = start..start + common::footer_number(&sound, 64);
        for _ in 0..500 {
            let mut bytes = sound.clone();
            for _ in 0..3 {
                let at = properties.start + random.below(properties.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            let sum = crc32fast::hash(&bytes[properties.clone()]);
            bytes[footer + 88..footer + 92].copy_from_slice(&sum.to_le_bytes());
            common::seal_footer(&mut bytes);
            open_frugally(&path, &bytes, "other properties");
        }
    }
}

/// Builds a log or manifest with one record of any payload and valid checksums. `payload_len` is
/// the length that the record states, which may be false.
fn log(magic: &[u8; 8], number: u64, store_id: [u8; 16], sequence: u64, payload: &[u8], payload_len: u32) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(store_id);
    let id = bytes.clone();
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    let mut record = payload_len.to_le_bytes().to_vec();
    record.extend(sequence.to_le_bytes());
    record.extend(0u64.to_le_bytes());
    let sum = crc32fast::hash(&[&id, record.as_slice(), payload].concat());
    record.extend(sum.to_le_bytes());
    [bytes, record, payload.to_vec()].concat()
}

/// Creates and closes an empty store on disk, and returns its options.
fn store(dir: &Path) -> Options {
    let options =
        Options { storage: Arc::new(Disk), auto_compaction: false, write_buffer_bytes: 1 << 16, ..Options::default() };
    drop(Db::open(dir, options.clone()).unwrap());
    options
}

fn only(dir: &Path, kind: &str) -> std::path::PathBuf {
    common::files(&Disk, dir, kind).remove(0)
}

/// Returns the number and the store id in the header of a log.
fn identity(log: &[u8]) -> (u64, [u8; 16]) {
    (u64::from_le_bytes(log[12..20].try_into().unwrap()), log[20..36].try_into().unwrap())
}

#[test]
fn logs_with_any_lengths_are_read_within_size_and_write_buffer() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let options = store(dir);
    let path = only(dir, ".log");
    let sound = fs::read(&path).unwrap();
    let (number, store_id) = identity(&sound);
    // Opens a copy of the store whose log has `content`.
    let open_with = |content: &[u8]| {
        let temporary = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), temporary.path().join(entry.file_name())).unwrap();
        }
        fs::write(temporary.path().join(path.file_name().unwrap()), content).unwrap();
        peak_of(|| Db::open(temporary.path(), options.clone()).map(drop))
    };
    let (opened, base) = open_with(&sound);
    opened.unwrap();
    for payload in [
        vec![1, 0xff, 0xff, 0xff, 0xff, 0x7f],
        vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
        vec![2, 0x80, 0x80, 0x80, 0x80, 0x10],
        vec![1, 1, b'k', 0xff, 0xff, 0xff, 0xff, 0x07],
        vec![0; 100_000],
        vec![0xff; 100_000],
    ] {
        for payload_len in [payload.len() as u32, u32::MAX, 1 << 30] {
            let bytes = log(b"fb-log\r\n", number, store_id, 1, &payload, payload_len);
            let (opened, peak) = open_with(&bytes);
            // A record that is longer than the file is a torn tail.
            assert_eq!(opened.is_ok(), payload_len as usize > payload.len(), "{payload_len}: {opened:?}");
            assert!(
                peak <= base + bytes.len() + 8192,
                "a peak of {peak} bytes, {base} for an empty store and {} for the bytes: {opened:?}",
                bytes.len()
            );
        }
    }
}

/// These batches have many writes, most of them short. As a memtable entry, a short write takes
/// many times its size.
#[test]
fn a_log_of_any_writes_is_read_within_twice_its_size_and_buffer() {
    let put = |key: &[u8], value: &[u8]| {
        [&[1, u8::try_from(key.len()).unwrap()], key, &[u8::try_from(value.len()).unwrap()], value].concat()
    };
    let shuffled = |i: u32| i.wrapping_mul(0x9e37_79b1).to_le_bytes();
    let batches: [(&str, Vec<u8>); 6] = [
        ("deletes of the empty key", [2, 0].repeat(2_000_000)),
        ("two alternating keys", [1, 0, 0, 2, 1, b'k'].repeat(500_000)),
        (
            "keys of three bytes, descending",
            (0..500_000u32).flat_map(|i| put(&(!i).swap_bytes().to_le_bytes()[1..], b"")).collect(),
        ),
        ("keys of four bytes in any order", (0..500_000).flat_map(|i| put(&shuffled(i), b"")).collect()),
        ("enough keys for a filter", (0..200_000).flat_map(|i| put(&shuffled(i), &[b'v'; 9])).collect()),
        ("long values", (0..20_000).flat_map(|i| put(&shuffled(i), &[b'v'; 120])).collect()),
    ];
    for (what, payload) in batches {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let options = store(dir);
        let path = only(dir, ".log");
        let (number, store_id) = identity(&fs::read(&path).unwrap());
        let log = log(b"fb-log\r\n", number, store_id, 1, &payload, payload.len() as u32);
        fs::write(&path, &log).unwrap();
        let (db, peak) = peak_of(|| Db::open(dir, options.clone()).unwrap());
        println!("{what}: a peak of {peak} bytes for a log of {}", log.len());
        // The bound covers the positions for the sort, the hashes for a filter, the filter, the
        // index and the chunk of the new file.
        let bound = 2 * log.len() + 2 * options.write_buffer_bytes + (512 << 10);
        // In debug builds a hash takes 16 bytes instead of 8.
        let hashes = if cfg!(debug_assertions) { log.len() / 2 + options.write_buffer_bytes } else { 0 };
        let bound = bound + hashes;
        assert!(peak <= bound, "{what}: a peak of {peak} bytes for a log of {}, above {bound}", log.len());
        // In only two of the cases, the SST gets a filter. In the others, the hashes would exceed
        // the memory for a filter.
        assert_eq!(db.stats().total.filter_bytes > 0, ["enough keys for a filter", "long values"].contains(&what));
        let mut model = std::collections::BTreeMap::new();
        for op in filterblock_store::lsm::BatchOps::new(&payload, 0).map(Result::unwrap) {
            model.insert(op.key().to_vec(), op.value().map(<[u8]>::to_vec));
        }
        let expected: Vec<_> = model.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        assert!(common::scan_all(&db) == expected, "{what}");
        // A merge needs no memory for hashes of a whole log, so its SST gets a filter.
        db.compact_range(..).unwrap();
        assert!(db.stats().total.filter_bytes > 0 || expected.is_empty(), "{what}");
        assert!(common::scan_all(&db) == expected, "{what}");
    }
}

/// Builds a log or manifest of several records. The first record has the sequence number
/// `sequence`, and each record takes `step` sequence numbers.
fn log_of(id: (&[u8; 8], u64, [u8; 16]), sequence: u64, step: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let (magic, number, store_id) = id;
    let mut bytes = Vec::new();
    for (nth, payload) in (0..).zip(payloads) {
        let record = log(magic, number, store_id, sequence + nth * step, payload, payload.len() as u32);
        bytes.extend(if nth == 0 { &record[..] } else { &record[48..] });
    }
    bytes
}

#[test]
fn a_log_damaged_everywhere_is_salvaged_within_a_size_multiple() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let options = Options { recovery: LogRecovery::Salvage, ..store(dir) };
    let path = only(dir, ".log");
    let (number, store_id) = identity(&fs::read(&path).unwrap());
    // The log has the shortest possible records, with one wrong byte after each record.
    let records = log_of((b"fb-log\r\n", number, store_id), 1, 1, &vec![vec![2, 0]; 20_000]);
    let mut log = records[..48].to_vec();
    records[48..].chunks(26).for_each(|record| log.extend([record, &[0xff]].concat()));
    fs::write(&path, &log).unwrap();
    let (db, peak) = peak_of(|| Db::open(dir, options.clone()).unwrap());
    println!("a peak of {peak} bytes for a log of {}", log.len());
    assert!(peak <= 4 * log.len() + (512 << 10), "a peak of {peak} bytes for a log of {}", log.len());
    // The store keeps at most 100 reports.
    assert_eq!(db.stats().reports.len(), 100);
}

#[test]
fn manifests_of_any_content_are_read_within_a_size_multiple() {
    let sound = Memory::new();
    drop(Db::open(DIR, common::quiet(&sound)).unwrap());
    let log = sound.read(&common::files(&sound, Path::new(DIR), ".log")[0]).unwrap();
    let put_manifest = |edits: &[Vec<u8>]| {
        let storage = common::image(&sound);
        let path = common::files(&storage, Path::new(DIR), "MANIFEST-").remove(0);
        let bytes = log_of((b"fb-man\r\n", 1, [0; 16]), 0, 1, edits);
        common::replace(&storage, &path, &bytes);
        (storage, bytes.len())
    };
    let id = [&[1u8][..], &identity(&log).1].concat();
    // An SST with empty keys has the shortest valid entry in an edit.
    let varint = |i: u64| [(i & 0x7f) as u8 | 0x80, (i >> 7) as u8];
    let added = |i: u64| [&[6, 0][..], &varint(i), &[0; 7]].concat();
    let removed = |i: u64| [&[7, 0][..], &varint(i)].concat();
    let all = |step: &dyn Fn(u64) -> Vec<u8>| (0..16_000).flat_map(step).collect::<Vec<u8>>();
    let mut cases = vec![
        ("SSTs", vec![all(&added)]),
        ("SSTs of several edits", (0..16_000).step_by(40).map(|i| (i..i + 40).flat_map(added).collect()).collect()),
        ("removed SSTs that do not exist", vec![all(&removed)]),
        ("SSTs that are removed", vec![all(&added), all(&removed)]),
        ("SSTs that are removed, the last first", vec![all(&added), all(&|i| removed(15_999 - i))]),
    ];
    for tail in [[0xff; 9].as_slice(), &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x20]] {
        cases.push(("false lengths", vec![[&[6, 0, 1, 1, 1, 0][..], tail].concat()]));
        cases.push(("false lengths", vec![[&[6, 0, 1, 1, 1, 0, 1, b'k'][..], tail].concat()]));
    }
    for (what, mut edits) in cases {
        edits[0].splice(0..0, id.iter().copied());
        let (storage, len) = put_manifest(&edits);
        let (opened, peak) = peak_of(|| Db::open(DIR, common::quiet(&storage)).map(drop));
        println!("{what}: a peak of {peak} bytes for a manifest of {len}, {:?}", opened.as_ref().err());
        assert!(peak <= 4 * len + 16_384, "{what}: a peak of {peak} bytes for a manifest of {len}: {opened:?}");
        assert_eq!(opened.is_ok(), what.starts_with("SSTs that are removed"), "{what}: {opened:?}");
    }
}
