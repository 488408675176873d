//! Tests a store whose threads, storage or filter policy fail, panic or are slow, or whose SSTs are
//! damaged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, DIR, batch_of, files, in_time, is_table, key, quiet, scan_all, wait_until};
use filterblock::{
    FilterSpec,
    policy::{FilterPolicy, TableShape},
};
use filterblock_store::lsm::Durability;
use filterblock_store::storage::faulty::{Crash, Faulty, Operation};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

fn options(storage: &Faulty) -> Options {
    Options { write_buffer_bytes: 4_000, ..quiet(storage) }
}

/// Calls `act` before each operation of this kind on a file whose name contains `name`.
fn before(
    storage: &Faulty,
    operation: Operation,
    name: &'static str,
    act: impl Fn() -> Option<i32> + Send + Sync + 'static,
) {
    storage.refuse(Some(Arc::new(move |done, path| {
        if done == operation && path.to_string_lossy().contains(name) { act() } else { None }
    })));
}

/// A flag that tests share with the hooks of their storage.
fn flag(value: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(value))
}

#[test]
fn a_snapshot_of_a_closed_store_leaves_files_of_the_next_alone() {
    let memory = Memory::new();
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    for i in 0..10 {
        db.put(&key(i), b"first").unwrap();
        db.flush().unwrap();
    }
    let (snapshot, scan) = (db.snapshot(), db.scan(..));
    db.compact_range(..).unwrap();
    db.close().unwrap();
    for name in memory.list(Path::new(DIR)).unwrap() {
        memory.remove(&Path::new(DIR).join(name)).unwrap();
    }
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    for i in 0..30 {
        db.put(&key(i), b"second").unwrap();
        db.flush().unwrap();
    }
    let tables = files(&memory, Path::new(DIR), ".sst");
    assert_eq!(snapshot.get(&key(3)).unwrap().unwrap(), b"first");
    drop(snapshot);
    drop(scan);
    assert_eq!(files(&memory, Path::new(DIR), ".sst"), tables);
    db.close().unwrap();
    assert_eq!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len(), 30);
}

#[derive(Debug)]
struct Panics(AtomicU64);

impl FilterPolicy for Panics {
    fn choose(&self, _: &TableShape) -> Option<FilterSpec> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 2, "the policy panics");
        None
    }
}

#[test]
fn a_policy_panic_in_a_flush_is_an_error_for_all_waiters() {
    let memory = Memory::new();
    let options = Options { filter: Some(Arc::new(Panics(AtomicU64::new(1)))), ..quiet(&memory) };
    let error = in_time("the store", move || {
        let db = Db::open(DIR, options).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        db.put(b"b", b"2").unwrap();
        assert!(matches!(db.flush().unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.put(b"c", b"3").unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.wait_idle().unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.compact_range(..).unwrap_err(), Error::Poisoned { .. }));
        assert_eq!(db.get(b"b").unwrap().unwrap(), b"2");
        db.close().unwrap_err()
    });
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len(), 2);
}

#[test]
fn a_policy_panic_in_a_compaction_blocks_no_caller() {
    for in_background in [false, true] {
        let memory = Memory::new();
        let panics = || Some(Arc::new(Panics(AtomicU64::new(0))) as Arc<dyn FilterPolicy>);
        let options =
            Options { filter: panics(), auto_compaction: in_background, l0_compaction_trigger: 2, ..quiet(&memory) };
        in_time("the store", move || {
            let db = Db::open(DIR, options).unwrap();
            for i in 0..2 {
                db.put(&key(i), b"value").unwrap();
                // The second SST triggers the compaction, which may panic before the flush returns.
                match db.flush() {
                    Err(Error::Poisoned { .. }) if in_background && i == 1 => {}
                    flushed => flushed.unwrap(),
                }
            }
            if in_background {
                assert!(matches!(db.wait_idle().unwrap_err(), Error::Poisoned { .. }));
            } else {
                let compact = std::panic::AssertUnwindSafe(|| db.compact_range(..));
                std::panic::catch_unwind(compact).unwrap_err();
                // A panic in the caller's thread does not fail the store.
                db.wait_idle().unwrap();
                db.put(b"on", b"").unwrap();
            }
            drop(db);
        });
        assert!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len() >= 2);
    }
}

#[test]
fn a_policy_panic_within_a_compaction_leaves_no_sst_behind() {
    let memory = Memory::new();
    // The policy chooses for the flush and for the first result, and panics for the second result.
    let filter: Arc<dyn FilterPolicy> = Arc::new(Panics(AtomicU64::new(0)));
    let db = Db::open(DIR, Options { filter: Some(filter), table_size_bytes: 4_000, ..quiet(&memory) }).unwrap();
    (0..200).for_each(|i| db.put(&key(i), &[b'v'; 100]).unwrap());
    db.flush().unwrap();
    let before = files(&memory, Path::new(DIR), ".sst");
    let compact = std::panic::AssertUnwindSafe(|| db.compact_range(..));
    std::panic::catch_unwind(compact).unwrap_err();
    assert_eq!(files(&memory, Path::new(DIR), ".sst"), before);
    assert_eq!(scan_all(&db).len(), 200);
}

#[test]
fn a_storage_panic_under_a_writer_fails_the_store() {
    let storage = Faulty::new();
    let faulty = storage.clone();
    in_time("the store", move || {
        let db = Db::open(DIR, Options { durability: Durability::Sync, ..options(&faulty) }).unwrap();
        db.put(b"before", b"").unwrap();
        before(&faulty, Operation::Write, ".log", || panic!("the storage panics"));
        std::thread::scope(|scope| {
            let write = || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.put(b"during", b"")));
                assert!(!matches!(result, Ok(Ok(()))));
            };
            (0..4).for_each(|_| drop(scope.spawn(write)));
        });
        assert!(matches!(db.put(b"after", b"").unwrap_err(), Error::Poisoned { .. }));
        faulty.refuse(None);
    });
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"");
}

#[test]
fn a_flush_under_load_ends() {
    let storage = Faulty::new();
    // Writing an SST takes longer than filling the next memtable.
    before(&storage, Operation::Create, ".sst", || {
        std::thread::sleep(Duration::from_millis(20));
        None
    });
    let db = Db::open(DIR, options(&storage)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_running = |_: &u64| !done.load(Ordering::Relaxed);
            (0..).take_while(is_running).for_each(|i| db.put(&key(i), &[b'v'; 100]).unwrap());
        });
        wait_until(|| db.stats().flushes > 2);
        let start = Instant::now();
        (0..3).for_each(|_| db.flush().unwrap());
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
}

#[test]
fn buffered_writes_reach_the_log_during_a_slow_flush() {
    let (storage, is_blocked) = (Faulty::new(), flag(true));
    let gate = Arc::clone(&is_blocked);
    before(&storage, Operation::Create, ".sst", move || {
        wait_until(|| !gate.load(Ordering::Relaxed));
        None
    });
    let db = Db::open(DIR, options(&storage)).unwrap();
    (0..50).for_each(|i| db.put(&key(i), &[b'v'; 100]).unwrap());
    let crashed = || scan_all(&Db::open(DIR, quiet(&storage.after(Crash::Kept, 0))).unwrap()).len();
    wait_until(|| crashed() == 50);
    is_blocked.store(false, Ordering::Relaxed);
    db.close().unwrap();
}

#[test]
fn batches_of_many_writers_keep_each_writers_order() {
    let memory = Memory::new();
    let db = Db::open(DIR, Options { durability: Durability::Sync, ..quiet(&memory) }).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let db = &db;
            scope.spawn(move || {
                for i in 0..500u64 {
                    db.put(&key(writer), &i.to_le_bytes()).unwrap();
                    assert_eq!(db.get(&key(writer)).unwrap().unwrap(), i.to_le_bytes());
                }
            });
        }
    });
    db.close().unwrap();
}

/// Returns a store whose levels 1 and 2 have the same keys, each in many SSTs. Also returns the
/// path of one SST of level 1, which `damage` has changed.
fn two_levels(damage: fn(&mut Vec<u8>)) -> (Memory, std::path::PathBuf) {
    let memory = Memory::new();
    let options = || Options { block_size_bytes: 1, table_size_bytes: 4_000, auto_compaction: true, ..quiet(&memory) };
    let fill = |options: Options| {
        let db = Db::open(DIR, options).unwrap();
        (0..1_000).for_each(|i| db.put(&key(i), &[b'v'; 20]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
    };
    let into_level_1 = || Options { l0_compaction_trigger: 1, ..options() };
    fill(Options { level_base_bytes: 1, level_size_ratio: 1 << 40, ..into_level_1() });
    let below = files(&memory, Path::new(DIR), ".sst");
    fill(into_level_1());
    let mut above = files(&memory, Path::new(DIR), ".sst").into_iter().filter(|path| !below.contains(path));
    let damaged = above.nth(3).unwrap();
    common::change(&memory, &damaged, damage);
    (memory, damaged)
}

/// Gives the second data block a key above all others, and corrects the checksum of the block. Each
/// block has one entry.
fn disorder(bytes: &mut [u8]) {
    let (block_len, footer) = (3 + 9 + 20 + 8 + 5, bytes.len() - 112);
    let table_id = bytes[footer..footer + 16].to_vec();
    let block = &mut bytes[block_len..2 * block_len];
    assert_eq!((block[..3].to_vec(), &block[3..6]), (vec![0, 9, 21], &b"key"[..]));
    block[6] = b'9';
    let (covered, sum) = block.split_at_mut(block_len - 4);
    let offset = (block_len as u64).to_le_bytes();
    sum.copy_from_slice(&crc32fast::hash(&[&table_id, &offset[..], covered].concat()).to_le_bytes());
}

#[test]
fn a_damaged_or_disordered_table_is_left_out_of_compactions() {
    let damages: [fn(&mut Vec<u8>); 2] = [|bytes| bytes[70] ^= 1, |bytes| disorder(bytes)];
    for damage in damages {
        let (memory, damaged) = two_levels(damage);
        let options = Options {
            auto_compaction: true,
            level_base_bytes: 1,
            level_size_ratio: 1 << 40,
            l0_compaction_trigger: 2,
            l0_stall_trigger: 2,
            write_buffer_bytes: 2_000,
            ..quiet(&memory)
        };
        let db = Db::open(DIR, options).unwrap();
        db.wait_idle().unwrap();
        let levels = db.stats().levels;
        assert_eq!((levels[1].tables, levels[2].tables > 2), (1, true), "{levels:?}");
        // A damaged SST blocks the compaction of level 0, but no writer waits for that compaction.
        (0..200).for_each(|i| db.put(&key(i * 5), &[b'w'; 100]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let reports = db.stats().reports;
        assert!(reports.len() == 1 && reports[0].starts_with(damaged.to_str().unwrap()), "{reports:?}");
        assert_eq!(db.get(&key(10)).unwrap().unwrap(), [b'w'; 100]);
        let verified = db.verify().unwrap();
        let found = verified.damage[0].to_string();
        assert!(verified.damage.len() == 1 && found.starts_with(damaged.to_str().unwrap()), "{verified:?}");
        let error = db.compact_range(..).unwrap_err();
        assert!(error.is_damage() && error.to_string().starts_with(damaged.to_str().unwrap()), "{error}");
        assert!(db.scan(..).any(|pair| pair.is_err_and(|error| error.is_damage())));
        assert!(db.scan(..).rev().any(|pair| pair.is_err_and(|error| error.is_damage())));
        db.close().unwrap();
        let report = Db::repair(DIR, quiet(&memory), filterblock_store::repair::RepairMode::Write).unwrap();
        assert_eq!((report.tables_rewritten, report.tables_lost), (1, 0), "{report}");
        assert!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len() >= 1_000 - 1);
    }
}

#[test]
fn a_failed_store_removes_nothing_for_a_running_compaction() {
    let storage = Faulty::new();
    let [is_held, is_waiting, is_broken] = [(); 3].map(|()| flag(false));
    let (held, waiting, broken) = (Arc::clone(&is_held), Arc::clone(&is_waiting), Arc::clone(&is_broken));
    storage.refuse(Some(Arc::new(move |operation, path| {
        if operation == Operation::Create && is_table(path) && held.load(Ordering::Relaxed) {
            waiting.store(true, Ordering::Relaxed);
            wait_until(|| !held.load(Ordering::Relaxed));
        }
        let is_log = operation == Operation::Write && path.extension().is_some_and(|end| end == "log");
        (is_log && broken.load(Ordering::Relaxed)).then_some(5)
    })));
    let db = Arc::new(Db::open(DIR, options(&storage)).unwrap());
    for value in [b"one", b"two"] {
        (0..20).for_each(|i| db.put(&key(i), value).unwrap());
        db.flush().unwrap();
    }
    let (tables, manifest) = (files(&storage, Path::new(DIR), ".sst"), files(&storage, Path::new(DIR), "MANIFEST-"));
    let before = storage.read(&manifest[0]).unwrap();
    is_held.store(true, Ordering::Relaxed);
    let compacts = Arc::clone(&db);
    let compaction = std::thread::spawn(move || compacts.compact_range(..));
    wait_until(|| is_waiting.load(Ordering::Relaxed));
    is_broken.store(true, Ordering::Relaxed);
    let error = db.write_with(batch_of([("never there", Some(""))]), Durability::Sync).unwrap_err();
    assert!(matches!(error.root(), Error::Io(_)), "{error}");
    is_held.store(false, Ordering::Relaxed);
    assert!(matches!(compaction.join().unwrap().unwrap_err().root(), Error::Poisoned { .. }));
    drop(db);
    storage.refuse(None);
    let left = files(&storage, Path::new(DIR), ".sst");
    assert!(tables.iter().all(|table| left.contains(table)), "only {left:?} remain of the SSTs {tables:?}");
    assert!(storage.read(&manifest[0]).unwrap() == before);
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    assert!(scan_all(&db).iter().all(|(_, value)| value == b"two") && scan_all(&db).len() == 20);
}

#[test]
fn a_flush_that_removes_its_log_slowly_pins_no_table() {
    let storage = Faulty::new();
    let (reached, is_slow) = (Arc::new(AtomicU64::new(0)), flag(false));
    let (count, slow) = (Arc::clone(&reached), Arc::clone(&is_slow));
    before(&storage, Operation::Remove, ".log", move || {
        count.fetch_add(1, Ordering::SeqCst);
        wait_until(|| !slow.load(Ordering::SeqCst));
        None
    });
    let db = Db::open(DIR, options(&storage)).unwrap();
    for (round, value) in [(1, b"one"), (2, b"two")] {
        db.put(b"key", value).unwrap();
        is_slow.store(round == 2, Ordering::SeqCst);
        db.compact_range(..).unwrap();
        wait_until(|| reached.load(Ordering::SeqCst) == round);
    }
    assert_eq!(files(&storage, Path::new(DIR), ".sst").len(), 1);
    is_slow.store(false, Ordering::SeqCst);
}

#[test]
fn a_briefly_invisible_store_is_not_created_again() {
    for hidden in 0..3 {
        let storage = Faulty::new();
        common::make_store(&storage, 2, 50);
        let (faulty, asked, is_away) = (storage.clone(), AtomicU64::new(0), flag(false));
        let [current, aside] = ["/store/CURRENT", "/aside"].map(Path::new);
        storage.refuse(Some(Arc::new(move |operation, path| {
            if operation != Operation::Rename && is_away.swap(false, Ordering::Relaxed) {
                faulty.rename(aside, current).unwrap();
            }
            let is_asked = operation == Operation::Exists && path == current;
            if is_asked && asked.fetch_add(1, Ordering::Relaxed) == hidden {
                faulty.rename(current, aside).unwrap();
                is_away.store(true, Ordering::Relaxed);
            }
            None
        })));
        match Db::open(DIR, options(&storage)) {
            Ok(db) => assert_eq!(scan_all(&db).len(), 100),
            Err(error) => assert!(matches!(error.root(), Error::NotAStore), "{error}"),
        }
        storage.refuse(None);
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!(scan_all(&db).len(), 100, "hidden from call {hidden}");
    }
}
