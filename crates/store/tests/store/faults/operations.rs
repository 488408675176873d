//! Makes the k-th file operation of a store fail or return wrong bytes, for many k.
//!
//! With `FILTERBLOCK_EVERY_FAULT=1` the first two tests try every k. By default they try one k in
//! 23 for each kind of fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{self, DIR, Random, key};
use filterblock_store::lsm::Durability;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty, Operation};
use filterblock_store::{Db, Error, Options, Result};

const PAIRS: u64 = 25;

fn options(storage: &Faulty) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        durability: Durability::Sync,
        hash_seed: Some(7),
        write_buffer_bytes: 1_500,
        table_size_bytes: 1_000,
        level_base_bytes: 4_000,
        l0_compaction_trigger: 3,
        block_cache_bytes: 0,
        ..Options::default()
    }
}

fn pair(i: u64) -> [Vec<u8>; 2] {
    [key(i), key(1_000 + i)]
}

/// The possible values of each pair of keys. The two keys of a pair are always written together.
#[derive(Debug, Clone, Default)]
struct Known {
    possible: BTreeMap<u64, Vec<Option<Vec<u8>>>>,
}

impl Known {
    fn of(&self, i: u64) -> &[Option<Vec<u8>>] {
        self.possible.get(&i).map_or(&[None], Vec::as_slice)
    }

    fn write(&mut self, db: &Db, i: u64, value: Option<Vec<u8>>) -> Result<()> {
        let written = db.write(common::batch_of(pair(i).map(|key| (key, value.as_ref()))));
        match &written {
            Ok(()) => drop(self.possible.insert(i, vec![value])),
            // The store refused the write before it changed anything.
            Err(error) if matches!(error.root(), Error::Poisoned { .. } | Error::BackgroundFails { .. }) => {}
            // The write may be in the log or not.
            Err(_) => self.possible.entry(i).or_insert_with(|| vec![None]).push(value),
        }
        written
    }

    /// Asserts that a store without further faults holds a possible value of each pair.
    fn check(&self, db: &Db, what: &str) {
        let found: BTreeMap<_, _> = common::scan_all(db).into_iter().collect();
        for i in 0..PAIRS {
            let [value, other] = pair(i).map(|key| {
                let got = db.get(&key).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(got.as_ref(), found.get(&key), "{what}: get and scan of {i} differ");
                got
            });
            assert_eq!(value, other, "{what}: only a part of batch {i} is present");
            assert!(self.of(i).contains(&value), "{what}: {i} is {value:?}, not one of {:?}", self.of(i));
        }
    }
}

/// Opens, uses and closes a store three times while any operation may fail. Asserts that no `get`
/// returns a wrong value, and returns the result of every call.
fn live(storage: &Faulty, known: &mut Known) -> Vec<Result<()>> {
    let mut results = Vec::new();
    let mut random = Random(1);
    for life in 0..3u64 {
        let db = match Db::open(DIR, options(storage)) {
            Ok(db) => db,
            Err(error) => {
                results.push(Err(error));
                continue;
            }
        };
        for number in 0..30u64 {
            let value = (number % 5 > 0).then(|| vec![(life * 30 + number) as u8; 100]);
            results.push(known.write(&db, random.below(PAIRS), value));
            let i = random.below(PAIRS);
            results.push(db.get(&key(i)).map(|value| assert!(known.of(i).contains(&value), "{i}: {value:?}")));
            match number {
                7 | 19 => results.push(db.flush()),
                13 => results.push(db.compact_range(..)),
                16 => results.push(db.checkpoint(format!("/copy{life}"))),
                25 => results.push(db.verify().map(drop)),
                _ => {}
            }
        }
        let scan: Result<Vec<_>> = db.scan(..).collect();
        results.push(scan.map(drop));
        results.push(db.close());
    }
    results
}

fn try_fault(fault: Fault) -> bool {
    let storage = Faulty::new();
    let mut known = Known::default();
    storage.fail(fault);
    let results = live(&storage, &mut known);
    let what = format!("{fault:?}, struck {:?}", storage.struck());
    let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    for error in &errors {
        let is_refusal = matches!(error.root(), Error::Poisoned { .. } | Error::BackgroundFails { .. });
        assert!(matches!(error.root(), Error::Io(_)) || is_refusal, "{what}: {error}");
        let named = matches!(error, Error::InFile { .. }) || is_refusal;
        assert!(named, "{what}: the error names no file: {error}");
    }
    storage.heal();
    for (image, how) in [(storage.clone(), "reopened"), (storage.after(Crash::Dropped, 0), "after a power failure")] {
        let what = format!("{what}, {how}");
        let db = Db::open(DIR, options(&image)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut known = known.clone();
        known.check(&db, &what);
        known.write(&db, 0, Some(b"goes on".to_vec())).unwrap();
        db.flush().unwrap();
        known.check(&db, &what);
    }
    !storage.struck().is_empty()
}

fn stride() -> u64 {
    if std::env::var_os("FILTERBLOCK_EVERY_FAULT").is_some() { 1 } else { 23 }
}

fn try_every(is_lasting: bool) {
    let storage = Faulty::new();
    assert!(live(&storage, &mut Known::default()).iter().all(Result::is_ok));
    let operations = storage.operations();
    let mut struck = 0;
    for (number, kind) in FaultKind::ERRORS.into_iter().enumerate() {
        for from in (number as u64 % stride()..operations).step_by(stride() as usize) {
            struck += u64::from(try_fault(Fault { from, kind, is_lasting }));
        }
    }
    println!("{operations} operations; {struck} runs with a fault");
    assert!(struck > operations / stride());
}

#[test]
fn single_operation_failures_are_errors_or_cost_nothing() {
    try_every(false);
}

#[test]
fn lasting_operation_failures_lose_no_acknowledged_write() {
    try_every(true);
}

#[test]
fn a_recovery_after_failures_applies_each_write_once() {
    // Each record becomes an SST, and no SSTs are merged.
    let quiet = |storage: &Faulty| Options { auto_compaction: false, write_buffer_bytes: 1, ..options(storage) };
    let is_table = |path: &Path| path.to_string_lossy().contains(".sst");
    let storage = Faulty::new();
    let db = Db::open(DIR, Options { write_buffer_bytes: 1 << 20, ..options(&storage) }).unwrap();
    (0..10).for_each(|i| db.put(&key(i), &key(i)).unwrap());
    let killed = storage.after(Crash::Kept, 0);
    for is_lasting in [false, true] {
        let mut failed = 0;
        for from in 0.. {
            let image = killed.after(Crash::Kept, 0);
            image.fail(Fault { from: image.operations() + from, kind: FaultKind::Io, is_lasting });
            failed += u64::from(Db::open(DIR, quiet(&image)).is_err());
            let struck = image.struck();
            image.heal();
            let is_writing = |operation| matches!(operation, Operation::Create | Operation::Write | Operation::Sync);
            if !is_lasting && struck.iter().any(|(operation, path)| is_writing(*operation) && is_table(path)) {
                assert_eq!(common::files(&image, Path::new(DIR), ".sst"), Vec::<PathBuf>::new(), "{from} {struck:?}");
            }
            for image in [image.after(Crash::Dropped, 0), image] {
                let db = Db::open(DIR, quiet(&image)).unwrap();
                let total = db.stats().total;
                assert_eq!((total.tables, total.keys), (10, 10), "{from} {struck:?}");
                assert!((0..10).all(|i| db.get(&key(i)).unwrap() == Some(key(i))), "{from} {struck:?}");
            }
            if struck.is_empty() {
                break;
            }
        }
        assert!(failed > 50, "{failed}");
    }
}

#[test]
fn a_failed_log_write_or_sync_refuses_writes_until_reopened() {
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::Interrupted] {
        let storage = Faulty::new();
        let mut known = Known::default();
        let db = Db::open(DIR, options(&storage)).unwrap();
        known.write(&db, 1, Some(b"before".to_vec())).unwrap();
        let mut from = storage.operations();
        // A record is written first, then synced. `NoSpace` hits the write, and the other kinds hit
        // the sync.
        from += u64::from(kind != FaultKind::NoSpace);
        storage.fail(Fault { from, kind, is_lasting: false });
        let failed = known.write(&db, 2, Some(b"failed".to_vec())).unwrap_err();
        let struck = storage.struck();
        assert!(struck.len() == 1 && matches!(struck[0].0, Operation::Sync | Operation::Write), "{struck:?}");
        let refused = known.write(&db, 3, Some(b"refused".to_vec())).unwrap_err();
        let Error::Poisoned { reason } = refused.root() else { panic!("{refused}") };
        assert!(reason.contains("a fault injected by the test"), "{failed}; {reason}");
        assert!(refused.to_string().contains("reopen"), "{refused}");
        assert_eq!(db.get(&key(1)).unwrap().unwrap(), b"before");
        drop(db);
        let db = Db::open(DIR, options(&storage)).unwrap();
        known.check(&db, "reopened");
        known.write(&db, 3, Some(b"taken".to_vec())).unwrap();
        known.check(&db, "goes on");
    }
}

#[test]
fn a_failed_checkpoint_is_no_store_and_spares_the_source() {
    for kind in FaultKind::ERRORS {
        for more in 0.. {
            let storage = Faulty::new();
            let mut known = Known::default();
            let db = Db::open(DIR, options(&storage)).unwrap();
            (0..10).for_each(|i| known.write(&db, i, Some(vec![i as u8; 300])).unwrap());
            db.flush().unwrap();
            db.wait_idle().unwrap();
            storage.fail(Fault { from: storage.operations() + more, kind, is_lasting: true });
            let made = db.checkpoint("/copy");
            storage.heal();
            known.check(&db, "the source");
            match Db::open("/copy", Options { create_if_missing: false, ..options(&storage) }) {
                Ok(copy) => known.check(&copy, &format!("{kind:?} from {more} on: {made:?}")),
                Err(error) => assert!(made.is_err(), "{error}"),
            }
            if made.is_ok() {
                assert!(more > 3 || kind == FaultKind::ShortRead, "{kind:?}");
                break;
            }
        }
    }
}

#[test]
fn wrong_bytes_from_reads_are_errors_or_only_extra_reads() {
    let storage = Faulty::new();
    let mut known = Known::default();
    let db = Db::open(DIR, options(&storage)).unwrap();
    let mut random = Random(2);
    for number in 0..120 {
        known.write(&db, random.below(PAIRS), (number % 4 > 0).then(|| vec![number as u8; 120])).unwrap();
    }
    db.close().unwrap();
    let ask = |storage: &Faulty| -> Result<()> {
        let db = Db::open(DIR, options(storage))?;
        for i in 0..PAIRS {
            for key in pair(i) {
                // The read may return an error. If it returns an answer, the answer must be right.
                if let Ok(value) = db.get(&key) {
                    assert!(known.of(i).contains(&value), "{i}: {value:?}, {:?}", storage.struck());
                }
            }
            assert_eq!(db.get(&key(5_000 + i)).unwrap_or(None), None);
        }
        Ok(())
    };
    let image = storage.after(Crash::Kept, 0);
    let before = image.operations();
    ask(&image).unwrap();
    let operations = image.operations() - before;
    let mut refused = 0;
    for kind in [FaultKind::BitRot, FaultKind::Misdirected] {
        for from in 0..operations {
            let image = storage.after(Crash::Kept, 0);
            image.fail(Fault { from, kind, is_lasting: false });
            refused += u64::from(ask(&image).is_err());
        }
    }
    println!("{operations} operations, {refused} of {} opens were refused", 2 * operations);
    assert!(operations > 50);
}
