//! Tests a load that is faster than compaction.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::{self, DIR, key, quiet};
use filterblock::{FilterSpec, policy::TableShape};
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};

/// A gate that blocks compactions until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let guard = self.0.lock().unwrap();
        drop(self.1.wait_while(guard, |is_open| !*is_open).unwrap());
    }
}

/// Returns options for a store whose compactions wait for the gate.
fn with_gate(storage: &Memory, gate: &Arc<Gate>) -> Options {
    let gate = Arc::clone(gate);
    let policy = move |shape: &TableShape| {
        if shape.level > 0 {
            gate.pass();
        }
        Some("bloom:10".parse::<FilterSpec>().unwrap())
    };
    Options {
        auto_compaction: true,
        write_buffer_bytes: 1 << 20,
        l0_compaction_trigger: 2,
        l0_stall_trigger: 8,
        filter: Some(Arc::new(policy)),
        ..quiet(storage)
    }
}

#[test]
fn writers_are_slowed_down_before_level_0_is_full() {
    let (storage, gate) = (Memory::new(), Arc::new(Gate::default()));
    let db = Db::open(DIR, with_gate(&storage, &gate)).unwrap();
    let value = [7; 1_000];
    // A writer that is slowed down waits for each 64 KiB. Each call of `write` writes more than
    // three times as much.
    let write = |from: u64| (from..from + 200).for_each(|i| db.put(&key(i), &value).unwrap());
    for i in 0..5 {
        write(i * 200);
        db.flush().unwrap();
    }
    write(1_000);
    assert_eq!(db.stats().write_delays, 0, "level 0 has 5 of 8 SSTs");
    db.flush().unwrap();
    write(1_200);
    let slowed = db.stats();
    assert!((3..=4).contains(&slowed.write_delays), "{} delays with 6 of 8 SSTs", slowed.write_delays);
    assert!(slowed.write_delay_nanos >= slowed.write_delays * 250_000, "{} ns", slowed.write_delay_nanos);
    db.flush().unwrap();
    write(1_400);
    let more = db.stats();
    assert_eq!(more.write_stalls, 0, "7 of 8 SSTs");
    let (delays, nanos) = (more.write_delays - slowed.write_delays, more.write_delay_nanos - slowed.write_delay_nanos);
    assert!(nanos >= delays * 500_000, "{delays} delays took {nanos} ns");
    gate.open();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let before = db.stats().write_delays;
    write(1_600);
    assert_eq!(db.stats().write_delays, before, "level 0 is below the slowdown trigger, so no write is delayed");
    assert_eq!(common::scan_all(&db).len(), 1_800);
    db.reset_stats();
    assert_eq!((db.stats().write_delays, db.stats().write_delay_nanos), (0, 0));
    db.close().unwrap();
}

#[test]
fn writers_are_not_slowed_down_without_automatic_compaction() {
    let storage = Memory::new();
    let settings = Options { l0_stall_trigger: 4, write_buffer_bytes: 1 << 20, ..quiet(&storage) };
    let db = Db::open(DIR, Options { auto_compaction: false, ..settings }).unwrap();
    for i in 0..6 {
        (0..200).for_each(|j| db.put(&key(i * 200 + j), &[7; 1_000]).unwrap());
        db.flush().unwrap();
    }
    assert_eq!(db.stats().write_delays, 0);
}

/// A compaction of level 0 that writes more than 16 MiB may wait for a limited time. It does not
/// wait if a caller waits until the store is idle.
#[test]
fn an_idle_store_is_compacted_although_level_0_is_small() {
    let storage = Memory::new();
    let settings = || Options {
        auto_compaction: true,
        write_buffer_bytes: 64 << 20,
        l0_compaction_trigger: 2,
        reserve_bytes: Some(0),
        ..quiet(&storage)
    };
    let fill = |db: &Db, from: u64, to: u64| {
        (from..to).for_each(|i| db.put(&key(i * 7_919 % 60_000), &[7; 1_000]).unwrap());
        db.flush().unwrap();
    };
    let db = Db::open(DIR, settings()).unwrap();
    fill(&db, 0, 30_000);
    fill(&db, 30_000, 60_000);
    db.wait_idle().unwrap();
    let level_0 = |db: &Db| db.stats().levels[0].tables;
    assert_eq!(level_0(&db), 0);
    fill(&db, 0, 100);
    fill(&db, 100, 200);
    db.wait_idle().unwrap();
    assert_eq!(level_0(&db), 0, "a caller waits");
    fill(&db, 0, 100);
    fill(&db, 100, 200);
    let start = std::time::Instant::now();
    while level_0(&db) > 0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(level_0(&db), 0, "the store is idle for a minute");
    assert_eq!(common::scan_all(&db).len(), 60_000);
}

#[test]
fn a_finished_flush_is_counted() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    // Many flushes: the count must be right for every interleaving of the threads.
    for i in 1..=500 {
        db.put(&key(i), b"value").unwrap();
        db.flush().unwrap();
        let stats = db.stats();
        assert_eq!((stats.flushes, stats.total.tables), (i, i));
        assert!(stats.flushed_bytes >= stats.total.bytes, "{} of {} bytes", stats.flushed_bytes, stats.total.bytes);
    }
}
