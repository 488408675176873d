//! Tests concurrent reads and writes: a reader sees one moment of the store, and never an earlier
//! moment than before.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, DIR, Random, files, key, quiet};
use filterblock_store::lsm::{Scan, Snapshot, Stats};
use filterblock_store::sstable::FilterMemory;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};

const RUN: Duration = Duration::from_millis(1500);

/// Returns whether a run continues. A run lasts at least `RUN`. After that time, the run ends once
/// `is_enough` is true, and at the latest after 40 times `RUN`.
fn goes_on(start: Instant, is_enough: bool) -> bool {
    start.elapsed() < RUN || !is_enough && start.elapsed() < 40 * RUN
}

fn busy(storage: &Memory) -> Options {
    Options {
        auto_compaction: true,
        write_buffer_bytes: 12_000,
        table_size_bytes: 10_000,
        level_base_bytes: 40_000,
        l0_compaction_trigger: 2,
        run_map_trigger: Some(2),
        ..quiet(storage)
    }
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn twin(i: u64) -> [Vec<u8>; 2] {
    // The two keys are far apart, so that they end up in different blocks and SSTs.
    [format!("a{i:04}").into_bytes(), format!("z{i:04}").into_bytes()]
}

const TWINS: u64 = 50;

/// Writes counters as values. The two keys of a [`twin`] are written, or sometimes deleted, in one
/// batch.
fn write(db: &Db, done: &AtomicBool, acknowledged: &AtomicU64) {
    let mut random = Random(3);
    let mut count = 0u64;
    while !done.load(Ordering::Relaxed) {
        count += 1;
        let [a, z] = twin(random.below(TWINS));
        let number = Some(count.to_le_bytes());
        let value = number.filter(|_| random.below(10) > 0);
        db.write(common::batch_of([(b"counter".to_vec(), number), (a, value), (z, value)])).unwrap();
        acknowledged.store(count, Ordering::Release);
        db.put(&key(random.below(3_000)), &[b'f'; 30]).unwrap();
    }
}

fn rearrange(db: &Db, done: &AtomicBool) {
    let mut random = Random(4);
    while !done.load(Ordering::Relaxed) {
        match random.below(3) {
            0 => db.flush().unwrap(),
            1 => db.compact_range(..).unwrap(),
            _ => db.compact_range(&b"a"[..]..&b"k"[..]).unwrap(),
        }
        std::thread::sleep(Duration::from_millis(random.below(8)));
    }
}

fn twins_agree(pairs: &[(Vec<u8>, Vec<u8>)]) {
    let with = |first: u8| pairs.iter().filter(move |(key, _)| key[0] == first);
    let rest = |(key, value): &(Vec<u8>, Vec<u8>)| (key[1..].to_vec(), value.clone());
    assert_eq!(with(b'a').map(rest).collect::<Vec<_>>(), with(b'z').map(rest).collect::<Vec<_>>());
}

/// Reads a snapshot by `get`, `multi_get` and scans, asserts that the answers agree, and returns
/// its counter.
fn look(snapshot: &Snapshot, random: &mut Random) -> u64 {
    let [a, z] = twin(random.below(TWINS));
    assert_eq!(snapshot.get(&a).unwrap(), snapshot.get(&z).unwrap());
    let values = snapshot.multi_get(&[a, z]).unwrap();
    assert_eq!(values[0], values[1]);
    let mut entries: Vec<_> = snapshot.scan(..).map(Result::unwrap).collect();
    assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b));
    twins_agree(&entries);
    let mut backwards: Vec<_> = snapshot.scan(..).rev().map(Result::unwrap).collect();
    backwards.reverse();
    assert_eq!(backwards, entries, "two scans of one snapshot differ");
    entries.retain(|(key, _)| key == b"counter");
    let counted = number(entries.pop().map(|(_, value)| value));
    assert_eq!(counted, number(snapshot.get(b"counter").unwrap()));
    counted
}

#[test]
fn a_reader_sees_whole_batches_and_never_an_older_state() {
    let storage = Memory::new();
    let db = Db::open(DIR, busy(&storage)).unwrap();
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let looks = AtomicU64::new(0);
    let is_enough = |stats: &Stats| stats.flushes > 5 && stats.compactions > 5 && looks.load(Ordering::Relaxed) > 500;
    std::thread::scope(|scope| {
        scope.spawn(|| write(&db, &done, &acknowledged));
        scope.spawn(|| rearrange(&db, &done));
        for reader in 0..3 {
            let (db, done, acknowledged, looks) = (&db, &done, &acknowledged, &looks);
            scope.spawn(move || {
                let mut random = Random(reader);
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let floor = acknowledged.load(Ordering::Acquire).max(seen);
                    seen = match reader {
                        0 => number(db.get(b"counter").unwrap()),
                        1 => {
                            let [a, z] = twin(random.below(TWINS));
                            let values = db.multi_get(&[&a, &z[..], b"counter"]).unwrap();
                            assert_eq!(values[0], values[1]);
                            number(values[2].clone())
                        }
                        _ => look(&db.snapshot(), &mut random),
                    };
                    assert!(seen >= floor, "reader {reader} saw {seen} after {floor}");
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        while goes_on(start, is_enough(&db.stats())) {
            std::thread::sleep(RUN / 10);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(is_enough(&db.stats()), "{:?}", db.stats());
    assert!(db.verify().unwrap().is_sound());
}

#[test]
fn a_checkpoint_during_writes_is_one_moment_of_the_store() {
    let storage = Memory::new();
    let db = Db::open(DIR, busy(&storage)).unwrap();
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let make_copies = || {
        let (mut copies, mut seen) = (Vec::new(), 0);
        let (mut random, start) = (Random(9), Instant::now());
        while goes_on(start, copies.len() > 5) {
            let floor = acknowledged.load(Ordering::Acquire).max(seen);
            let dir = format!("/copies/{}", copies.len());
            db.checkpoint(&dir).unwrap();
            let copy = Db::open(&dir, busy(&storage)).unwrap();
            seen = look(&copy.snapshot(), &mut random);
            assert!(seen >= floor, "the checkpoint has counter {seen}, but {floor} was acknowledged");
            copies.push((dir, seen));
            // The copy removes SSTs that it shares with its source.
            copy.delete(b"counter").unwrap();
            copy.compact_range(..).unwrap();
            assert_eq!(copy.get(b"counter").unwrap(), None);
        }
        copies
    };
    let copies = std::thread::scope(|scope| {
        scope.spawn(|| write(&db, &done, &acknowledged));
        scope.spawn(|| rearrange(&db, &done));
        let copies = scope.spawn(make_copies).join();
        done.store(true, Ordering::Relaxed);
        copies.unwrap()
    });
    println!("{} checkpoints during {} batches", copies.len(), acknowledged.load(Ordering::Relaxed));
    assert!(copies.len() > 5 && db.verify().unwrap().is_sound());
    // The source has replaced most SSTs that it shared with these copies.
    for (dir, counted) in copies {
        let copy = Db::open(&dir, busy(&storage)).unwrap();
        assert!(copy.verify().unwrap().is_sound());
        assert_eq!(copy.get(b"counter").unwrap(), None, "{dir} at {counted}");
        twins_agree(&common::scan_all(&copy));
    }
}

#[test]
fn an_iterator_survives_flushes_and_compactions() {
    let storage = Memory::new();
    let db = Db::open(DIR, busy(&storage)).unwrap();
    (0..400).for_each(|i| db.put(&key(i), b"before").unwrap());
    let mut scan = db.scan(..);
    for i in 0..200u64 {
        assert_eq!(scan.next().unwrap().unwrap(), (key(i), b"before".to_vec()));
        let back = 399 - i;
        assert_eq!(scan.next_back().unwrap().unwrap(), (key(back), b"before".to_vec()));
        (0..20).for_each(|n| db.put(&key((i * 20 + n) % 400), b"after").unwrap());
        db.delete(&key(i + 1)).unwrap();
        if i % 50 == 0 {
            db.compact_range(..).unwrap();
        }
    }
    assert!(scan.next().is_none() && scan.next_back().is_none());
}

#[test]
fn reads_continue_during_a_compaction() {
    let storage = Memory::new();
    let db = Db::open(DIR, Options { table_size_bytes: 4 << 20, ..quiet(&storage) }).unwrap();
    for round in 0..4u8 {
        (0..100_000).for_each(|i| db.put(&key(i), &[round; 40]).unwrap());
        db.flush().unwrap();
    }
    let is_compacting = AtomicBool::new(true);
    let (longest, reads) = std::thread::scope(|scope| {
        scope.spawn(|| {
            db.compact_range(..).unwrap();
            is_compacting.store(false, Ordering::Relaxed);
        });
        let mut random = Random(1);
        let (mut longest, mut reads) = (Duration::ZERO, 0u64);
        let start = Instant::now();
        while is_compacting.load(Ordering::Relaxed) {
            let before = Instant::now();
            assert_eq!(db.get(&key(random.below(100_000))).unwrap().unwrap(), [3; 40]);
            longest = longest.max(before.elapsed());
            reads += 1;
        }
        println!("{reads} reads in {:?}, the longest took {longest:?}", start.elapsed());
        (longest, reads)
    });
    // A reader that waits for the compaction would finish only one or two reads. Scheduling may
    // delay any single read.
    assert!(reads > 1_000, "{reads} reads, the longest took {longest:?}");
}

#[test]
fn replaced_files_stay_for_readers_and_go_with_the_last_one() {
    let temporary = common::scratch();
    let options = || Options { auto_compaction: false, ..Options::default() };
    let tables = || files(&filterblock_store::storage::Disk, temporary.path(), ".sst");
    let db = Db::open(temporary.path(), options()).unwrap();
    let write = |value: &[u8]| (0..200).for_each(|i| db.put(&key(i), value).unwrap());
    write(b"one");
    db.flush().unwrap();
    let first = db.snapshot();
    let mut iterator = db.scan(..);
    assert_eq!(iterator.next().unwrap().unwrap().1, b"one");
    write(b"two");
    db.compact_range(..).unwrap();
    let second = db.snapshot();
    write(b"three");
    db.compact_range(..).unwrap();
    assert_eq!(tables().len(), 3, "expected one SST per snapshot and the current one: {:?}", tables());
    assert!(first.scan(..).all(|entry| entry.unwrap().1 == b"one"));
    assert!(second.scan(..).all(|entry| entry.unwrap().1 == b"two"));
    assert!(iterator.all(|entry| entry.unwrap().1 == b"one"));
    drop(second);
    drop(first);
    drop(iterator);
    // A background thread removes the files, so that no read waits for a removal.
    let start = Instant::now();
    while tables().len() > 1 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tables().len(), 1, "{:?}", tables());
    // A snapshot that outlives its store stays readable although the next open removes unneeded
    // files. Its drop harms nothing.
    let late = db.snapshot();
    drop(db);
    let db = Db::open(temporary.path(), options()).unwrap();
    db.delete(&key(0)).unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(late.scan(..).count(), 200);
    drop(late);
    assert_eq!(common::scan_all(&db).len(), 199);
    drop(db);
    assert_eq!(common::scan_all(&Db::open(temporary.path(), options()).unwrap()).len(), 199);
}

#[test]
fn snapshots_and_scans_continue_while_their_store_closes() {
    const KEYS: u64 = 400;
    let temporary = common::scratch();
    let options = || Options {
        write_buffer_bytes: 12_000,
        table_size_bytes: 10_000,
        level_base_bytes: 40_000,
        l0_compaction_trigger: 2,
        run_map_trigger: Some(2),
        ..Options::default()
    };
    let (looks, mut round, start) = (AtomicU64::new(0), 0u64, Instant::now());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (send, receive) = std::sync::mpsc::sync_channel::<(Snapshot, Scan, u64)>(2);
                let looks = &looks;
                scope.spawn(move || {
                    let mut random = Random(reader);
                    for (snapshot, rest, round) in receive {
                        let is_of_its_round = |value: &[u8]| value[..8] == round.to_le_bytes();
                        assert_eq!(rest.filter(|entry| is_of_its_round(&entry.as_ref().unwrap().1)).count(), 200);
                        assert!(snapshot.scan(..).rev().all(|entry| is_of_its_round(&entry.unwrap().1)));
                        let keys: Vec<_> = (0..50).map(|_| key(random.below(2 * KEYS))).collect();
                        for (asked, value) in keys.iter().zip(snapshot.multi_get(&keys).unwrap()) {
                            assert_eq!(value.is_some_and(|value| is_of_its_round(&value)), *asked < key(KEYS));
                            assert_eq!(snapshot.get(asked).unwrap().is_some(), *asked < key(KEYS));
                        }
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
                send
            })
            .collect();
        while goes_on(start, looks.load(Ordering::Relaxed) > 10) {
            round += 1;
            let db = Db::open(temporary.path(), options()).unwrap();
            let value = [&round.to_le_bytes()[..], &[b'v'; 60]].concat();
            db.write(common::batch_of((0..KEYS).map(|i| (key(i), Some(&value))))).unwrap();
            let snapshot = db.snapshot();
            let mut scan = snapshot.scan(..);
            assert_eq!(scan.by_ref().take(200).count(), 200);
            // A reader whose channel is full gets no snapshot in this round.
            let _ = readers[round as usize % 3].try_send((snapshot, scan, round));
            match round % 3 {
                0 => db.compact_range(..).unwrap(),
                1 => db.flush().unwrap(),
                _ => {}
            }
            if round % 2 == 0 {
                db.close().unwrap();
            }
        }
    });
    println!("{round} stores, {} snapshots read", looks.load(Ordering::Relaxed));
    assert!(looks.load(Ordering::Relaxed) > 10);
    let db = Db::open(temporary.path(), options()).unwrap();
    db.compact_range(..).unwrap();
    let tables = files(&filterblock_store::storage::Disk, temporary.path(), ".sst");
    assert_eq!(tables.len() as u64, db.stats().total.tables, "{tables:?}");
    assert!(db.verify().unwrap().is_sound());
}

/// Runs in its own process, because other tests open files and start threads.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_opens_and_closes_leave_no_thread_file_or_map() {
    const ALONE: &str = "FILTERBLOCK_TEST_ALONE";
    const THIS: &str = concat!(module_path!(), "::a_thousand_opens_and_closes_leave_no_thread_file_or_map");
    if std::env::var_os(ALONE).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", common::test_path(THIS), "--test-threads=1"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
        return;
    }
    let temporary = common::scratch();
    let entries = |dir: &str| std::fs::read_dir(dir).unwrap().count();
    let maps = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.ends_with(".sst")).count()
    };
    let census = || (entries("/proc/self/fd"), entries("/proc/self/task"), maps());
    let mut before = census();
    for i in 0..1_000 {
        let filter_memory = if i % 3 == 0 { FilterMemory::Mapped } else { FilterMemory::Heap };
        let db = Db::open(temporary.path(), Options { filter_memory, ..Options::default() }).unwrap();
        db.put(&key(i % 20), b"value").unwrap();
        let snapshot = db.snapshot();
        assert_eq!(snapshot.get(&key(i % 20)).unwrap().unwrap(), b"value");
        if i % 10 == 0 {
            db.compact_range(..).unwrap();
        }
        match i % 2 {
            0 => db.close().unwrap(),
            _ => drop(db),
        }
        drop(snapshot);
        if i == 0 {
            before = census();
        }
    }
    assert_eq!(census(), before);
    assert_eq!(before.2, 0);
    assert!(
        entries(temporary.path().to_str().unwrap()) < 30,
        "{:?}",
        files(&filterblock_store::storage::Disk, temporary.path(), "")
    );
    let db = Db::open(Path::new(temporary.path()), Options::default()).unwrap();
    assert_eq!(common::scan_all(&db).len(), 20);
}

#[test]
fn the_smallest_settings_let_no_thread_wait_forever() {
    let smallest = |storage: &Memory| Options {
        auto_compaction: true,
        write_buffer_bytes: 0,
        max_immutable_memtables: 0,
        table_size_bytes: 0,
        l0_compaction_trigger: 0,
        l0_stall_trigger: 0,
        level_base_bytes: 0,
        block_size_bytes: 0,
        ..quiet(storage)
    };
    let never_compacts = |storage: &Memory| Options {
        auto_compaction: true,
        write_buffer_bytes: 100,
        l0_compaction_trigger: 20,
        l0_stall_trigger: 2,
        ..quiet(storage)
    };
    for settings in [&smallest as &dyn Fn(&Memory) -> Options, &never_compacts] {
        let storage = Memory::new();
        let db = Db::open(DIR, settings(&storage)).unwrap();
        (0..60).for_each(|i| db.put(&key(i), &key(i)).unwrap());
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_eq!(common::scan_all(&db).len(), 60);
        db.close().unwrap();
        assert_eq!(common::scan_all(&Db::open(DIR, settings(&storage)).unwrap()).len(), 60);
    }
}

/// If flushes did not wait, a loop of put and flush would fill level 0 until the process has no
/// more file descriptors.
#[test]
fn flushes_wait_while_level_0_is_full() {
    let storage = Memory::new();
    let settings = Options { l0_compaction_trigger: 2, l0_stall_trigger: 4, ..busy(&storage) };
    let db = Db::open(DIR, settings).unwrap();
    for i in 0..300 {
        db.put(&key(i), &key(i)).unwrap();
        db.flush().unwrap();
        let level_0 = db.stats().levels.first().map_or(0, |level| level.tables);
        assert!(level_0 <= 4, "{level_0} SSTs in level 0 after {i} flushes");
    }
    assert_eq!(common::scan_all(&db).len(), 300);
    // Without background compactions a flush does not wait for one.
    let storage = Memory::new();
    let db = Db::open(DIR, Options { auto_compaction: false, l0_stall_trigger: 4, ..busy(&storage) }).unwrap();
    for i in 0..10 {
        db.put(&key(i), &key(i)).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.stats().levels[0].tables, 10);
}

#[test]
fn deleting_everything_releases_the_space_in_the_background() {
    let storage = Memory::new();
    let db = Db::open(DIR, Options { l0_compaction_trigger: 4, ..busy(&storage) }).unwrap();
    (0..5_000).for_each(|i| db.put(&key(i), &key(i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let before = db.stats().total.bytes;
    (0..5_000).for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let after = db.stats().total;
    assert!(after.bytes * 10 < before, "{before} bytes before, {} after", after.bytes);
    assert_eq!(common::scan_all(&db).len(), 0);
}

#[test]
fn scans_count_the_blocks_that_they_read() {
    let storage = Memory::new();
    let db = Db::open(DIR, Options { block_size_bytes: 500, ..quiet(&storage) }).unwrap();
    (0..1_000).for_each(|i| db.put(&key(i), &key(i)).unwrap());
    assert_eq!(db.scan(..).count(), 1_000);
    let in_memory = db.stats();
    assert_eq!((in_memory.scans, in_memory.scan_block_reads), (1, 0), "a scan of the memtable must read no block");
    db.flush().unwrap();
    assert_eq!(db.scan(..).count(), 1_000);
    let all = db.stats();
    let blocks = all.scan_block_reads;
    assert!(blocks > 20 && all.scan_block_read_bytes > 1_000 * 10, "{all:?}");
    assert_eq!(db.scan(..).rev().count(), 1_000);
    assert_eq!(db.stats().scan_block_reads, 2 * blocks, "a scan in either direction must read each block once");
    assert_eq!(db.scan(&key(500)[..]..).take(1).count(), 1);
    assert_eq!(db.stats().scan_block_reads, 2 * blocks + 1);
    assert_eq!(db.stats().total.block_reads, 0, "block reads of scans must not count as those of lookups");
    db.reset_stats();
    assert_eq!((db.stats().scans, db.stats().scan_block_reads), (0, 0));
}

#[test]
fn a_buffered_write_reaches_the_operating_system_soon() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each end of a compaction, even of an empty one, wakes all threads. These wakeups must not
        // delay the write.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.compact_range(&b"x"[..]..&b"y"[..]).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let start = Instant::now();
        db.put(b"key", b"buffered").unwrap();
        let in_a_file = |kind| {
            let found = |path: &std::path::PathBuf| {
                let content = filterblock_store::storage::Storage::read(&storage, path).unwrap_or_default();
                content.windows(8).any(|window| window == b"buffered")
            };
            files(&storage, Path::new(DIR), kind).iter().any(found)
        };
        while !in_a_file(".log") && !in_a_file(".sst") {
            assert!(start.elapsed() < Duration::from_secs(5), "the write is still in the process");
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
    });
}
