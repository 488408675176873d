//! Tests that a store larger than its memory bound is loaded, compacted, scanned, verified,
//! recovered and repaired within the memory that docs/DESIGN.md states.
//!
//! The allocator counts the memory of all threads of the process, so this program has only one
//! test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::path::Path;
use std::sync::atomic::Ordering;

use filterblock_store::lsm::{Durability, WriteBatch};
use filterblock_store::repair::RepairMode;
use filterblock_store::{Db, Options};
use filterblock_testkit::allocation::of_process::{LIVE, PEAK, PerProcess};

#[global_allocator]
static ALLOCATOR: PerProcess = PerProcess;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Runs `act` and returns its result. Asserts that meanwhile the memory in use grows by at most
/// `bound` bytes.
fn peak_of<T>(what: &str, bound: usize, act: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = act();
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    println!("{what}: {} KiB of {} KiB", peak / KIB, bound / KIB);
    assert!(peak <= bound, "{what}: the peak of {peak} bytes exceeds the bound of {bound} bytes");
    result
}

const WRITE_BUFFER: usize = MIB;
const IMMUTABLE: usize = 2;
const TABLE: usize = 2 * MIB;
const KEYS: u64 = 300_000;
const VALUE: usize = 120;

fn options() -> Options {
    Options {
        write_buffer_bytes: WRITE_BUFFER,
        max_immutable_memtables: IMMUTABLE,
        table_size_bytes: TABLE as u64,
        level_base_bytes: 8 * MIB as u64,
        ..Options::default()
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("key{:012}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).into_bytes()
}

fn len_of(dir: &Path, end: &str) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_name().to_str().unwrap().ends_with(end))
        .map(|entry| entry.metadata().unwrap().len() as usize)
        .sum()
}

/// Asserts that a pinned value keeps only one block in memory, with the block's index, and is not a
/// copy.
fn pinned_values_hold_their_blocks(dir: &Path) {
    const CACHE: usize = 32 * KIB;
    const PINNED: usize = 1_000;
    let db = Db::open(dir, Options { block_cache_bytes: CACHE as u64, ..options() }).unwrap();
    // These gets read the index of each SST, which then stays in memory.
    (0..KEYS).step_by(97).for_each(|i| assert!(db.get(&key(i)).unwrap().is_some()));
    // A block has about 30 entries, and its index takes ten bytes per entry.
    let pinned = PINNED * (4096 + 512) + CACHE;
    let values = peak_of("pinned values", pinned, || {
        (0..PINNED as u64).map(|i| db.get_pinned(&key(i * 97)).unwrap().unwrap()).collect::<Vec<_>>()
    });
    let before = LIVE.load(Ordering::Relaxed);
    assert!(values.iter().all(|value| **value == [b'v'; VALUE]));
    drop(values);
    let freed = before - LIVE.load(Ordering::Relaxed);
    assert!(freed > PINNED * 3_000, "only {freed} bytes were freed: the values were copied");
}

#[test]
fn store_memory_stays_within_the_documented_bound() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    // From docs/DESIGN.md: besides the immutable memtables, one memtable fills and one is being
    // written to an SST. The arrays of a memtable grow by doubling.
    let buffers = 2 * (IMMUTABLE + 2) * WRITE_BUFFER;
    // The filters of all SSTs: at most 16 bits per key.
    let filters = KEYS as usize * 2;
    // One SST that is being built: hashes, index, filter, a chunk of the file, and a block of
    // each merge input.
    let keys_of_table = 2 * TABLE / VALUE;
    let table = 16 * keys_of_table + TABLE / 16 + MIB;
    // The indexes of the SSTs in use, and the memory of each open SST.
    let indexes = KEYS as usize * (VALUE + 20) / 4096 * 64 + 256 * KIB;
    let bound = buffers + filters + table + indexes;
    let db = peak_of("load with flushes and compactions", bound, || {
        let db = Db::open(dir, options()).unwrap();
        (0..KEYS).for_each(|i| db.put(&key(i), &[b'v'; VALUE]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db
    });
    let size = len_of(dir, ".sst");
    println!("the store has {} KiB", size / KIB);
    assert!(size > 2 * bound, "a store of {size} bytes is too small to test a bound of {bound} bytes");
    peak_of("compaction of the whole store", table + indexes + filters + WRITE_BUFFER, || {
        db.compact_range(..).unwrap()
    });
    // A scan holds two blocks and a key for each SST of level 0 and for each deeper level, at both
    // ends.
    let scan = 2 * (20 + 7) * (2 * 4096 + KIB) + indexes;
    peak_of("scan of the whole store", scan, || assert_eq!(db.scan(..).map(Result::unwrap).count(), KEYS as usize));
    peak_of("backward scan of the whole store", scan, || {
        assert_eq!(db.scan(..).rev().map(Result::unwrap).count(), KEYS as usize)
    });
    peak_of("verification", scan + WRITE_BUFFER + filters, || assert!(db.verify().unwrap().is_sound()));
    let mut batch = WriteBatch::new();
    (0..4_500).for_each(|i| db.put(&key(KEYS + i), &[b'v'; VALUE]).unwrap());
    batch.put(b"last", b"").unwrap();
    db.write_with(batch, Durability::Sync).unwrap();
    // A kill leaves the files as they are while the store is open.
    let killed = temporary.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
    }
    db.close().unwrap();
    pinned_values_hold_their_blocks(dir);
    let log = len_of(&killed, ".log");
    assert!(log > WRITE_BUFFER / 2, "{log}");
    let recovered = peak_of("recovery", log + 3 * WRITE_BUFFER + filters + table + indexes, || {
        Db::open(&killed, Options { auto_compaction: false, ..options() }).unwrap()
    });
    assert_eq!(recovered.get(&key(KEYS + 4_499)).unwrap().unwrap().len(), VALUE);
    recovered.close().unwrap();
    for entry in std::fs::read_dir(&killed).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("MANIFEST") || name == "CURRENT" {
            std::fs::remove_file(&path).unwrap();
        } else if name.ends_with(".sst") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[100] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    // Repair holds at most two whole SSTs in memory. Then it recovers the store.
    let repair = 2 * TABLE + 2 * table + 2 * WRITE_BUFFER + filters + indexes + MIB;
    let report = peak_of("repair, each SST damaged and no manifest", repair, || {
        Db::repair(&killed, options(), RepairMode::Write).unwrap()
    });
    assert!(report.tables_rewritten > 10 && report.entries > KEYS * 95 / 100, "{report:?}");
}
