//! Simulates a crash after every change that a store makes to its files.
//!
//! `FILTERBLOCK_CRASH_IMAGES` sets the approximate number of simulated crashes; the default is
//! 10,000. `FILTERBLOCK_CRASH_SEED` chooses other writes and crashes; the default is 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, Random, key};
use filterblock::FilterSpec;
use filterblock_store::lsm::{Durability, LogRecovery};
use filterblock_store::repair::RepairMode;
use filterblock_store::storage::Storage;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty, Moment};
use filterblock_store::{Db, Options, Result};

const COPY: &str = "/copy";

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The keys of a write with their values. `None` deletes the key.
type Write = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn options(storage: &Faulty, durability: Durability) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        durability,
        hash_seed: Some(7),
        prefix_extractor: "fixed:8".parse().unwrap(),
        range_filter: Some(Arc::new("grafite:fpr=0.05".parse::<FilterSpec>().unwrap())),
        write_buffer_bytes: 1_500,
        table_size_bytes: 1_000,
        level_base_bytes: 4_000,
        l0_compaction_trigger: 3,
        run_map_trigger: Some(2),
        ..Options::default()
    }
}

/// A list of writes. `states[n]` is the state after the first `n` writes.
struct Script {
    writes: Vec<Write>,
    states: Vec<State>,
}

impl Script {
    fn new(writes: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut script = Self { writes: Vec::new(), states: vec![State::new()] };
        for number in 0..writes {
            let mut state = script.states[script.states.len() - 1].clone();
            // A batch has puts, deletions or both. Each value identifies its write.
            let entries: Write = (0..1 + random.below(4))
                .map(|_| {
                    let value = vec![number as u8; 1 + random.below(200) as usize];
                    (key(random.below(40)), (random.below(4) > 0).then_some(value))
                })
                .collect();
            for (key, value) in &entries {
                match value {
                    Some(value) => state.insert(key.clone(), value.clone()),
                    None => state.remove(key),
                };
            }
            script.writes.push(entries);
            script.states.push(state);
        }
        script
    }

    fn write(&self, db: &Db, number: usize) -> Result<()> {
        db.write(common::batch_of(self.writes[number].iter().map(|(key, value)| (key, value.as_ref()))))
    }

    /// Runs the script with flushes, compactions, checkpoints and closes. Returns every moment of
    /// the run. The low half of a moment's mark is the number of begun writes, which a crash may
    /// leave. The high half is the number of durable writes, which a crash must leave.
    fn live(&self, storage: &Faulty, durability: Durability) -> Vec<Moment> {
        storage.record();
        let mark = |begun: usize, durable: usize| storage.set_mark(begun as u64 | (durable as u64) << 32);
        let mut db = Db::open(DIR, options(storage, durability)).unwrap();
        let mut durable = 0;
        for number in 0..self.writes.len() {
            mark(number + 1, durable);
            self.write(&db, number).unwrap();
            match number % 40 {
                13 => db.flush().unwrap(),
                22 => db.compact_range(..).unwrap(),
                31 => db.checkpoint(format!("{COPY}{number}")).unwrap(),
                39 => {
                    db.close().unwrap();
                    durable = number + 1;
                    mark(number + 1, durable);
                    db = Db::open(DIR, options(storage, durability)).unwrap();
                }
                _ => {}
            }
            if durability == Durability::Sync || matches!(number % 40, 13 | 22 | 31) {
                durable = number + 1;
            }
            mark(number + 1, durable);
        }
        db.close().unwrap();
        storage.moments()
    }

    /// Opens a store after a crash. Asserts that its content is the state after a number of writes
    /// that `mark` allows, and returns this number. Also asserts that gets and scans agree, and
    /// that the store keeps working.
    fn check(&self, image: &Faulty, mark: u64, durability: Durability, what: &dyn Fn() -> String) -> usize {
        let (durable, begun) = ((mark >> 32) as usize, (mark & u64::from(u32::MAX)) as usize);
        let db = Db::open(DIR, options(image, durability)).unwrap_or_else(|error| panic!("{}: {error}", what()));
        let found: State = common::scan_all(&db).into_iter().collect();
        let number = (durable..=begun).rev().find(|&number| self.states[number] == found);
        let Some(number) = number else {
            let other = (0..self.states.len()).find(|&number| self.states[number] == found);
            panic!("{}: expected the state after {durable} to {begun} writes, found that after {other:?}", what());
        };
        for (key, value) in &found {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value), "{}", what());
        }
        assert!((0..40).all(|i| db.get(&key(i)).unwrap().is_some() == found.contains_key(&key(i))), "{}", what());
        // These scans ask the range filters, and ask the filters about prefixes.
        assert!((0..40).all(|i| is_scanned(&db, &key(i)) == found.contains_key(&key(i))), "{}", what());
        let by_prefix: Vec<_> = (0..4).flat_map(|i| db.scan_prefix(&key(10 * i)[..8]).map(Result::unwrap)).collect();
        assert!(by_prefix.iter().map(|(key, value)| (key, value)).eq(&found), "{}", what());
        assert!(db.verify().unwrap().is_sound(), "{}", what());
        // The store must keep working.
        db.put(b"zz", b"goes on").unwrap();
        drop(db);
        let db = Db::open(DIR, options(image, durability)).unwrap_or_else(|error| panic!("{}, again: {error}", what()));
        let durably = durability == Durability::Sync;
        assert!(!durably || db.get(b"zz").unwrap().is_some(), "{}", what());
        number
    }
}

/// Returns whether a scan of this key alone finds it.
fn is_scanned(db: &Db, key: &[u8]) -> bool {
    db.scan(key..=key).map(Result::unwrap).count() == 1
}

fn images_wanted() -> usize {
    std::env::var("FILTERBLOCK_CRASH_IMAGES").map_or(10_000, |text| text.parse().unwrap())
}

/// Returns seed `number`, 1 to 5, of this run.
fn seed(number: u64) -> u64 {
    number + 5 * std::env::var("FILTERBLOCK_CRASH_SEED").map_or(0, |text| text.parse::<u64>().unwrap())
}

/// Returns the state after a random kind of crash, or after the end of the process alone. Also
/// returns a description of the moment and the crash.
fn end(moment: &Moment, random: &mut Random) -> (Faulty, String) {
    match Crash::ALL.get(random.below(5) as usize) {
        Some(&crash) => (moment.after(crash, random.next()), format!("{moment:?}, {crash:?}")),
        None => (moment.killed(), format!("{moment:?}, killed")),
    }
}

/// Returns one crash of each kind after each moment, then more torn and reordered ones. There are
/// `wanted` crashes, but at least one of each kind.
fn crashes(moments: usize, wanted: usize) -> impl Iterator<Item = (usize, Crash, u64)> {
    let each = (0..moments).flat_map(|at| Crash::ALL.map(|crash| (at, crash, 0)));
    let more = (1u64..)
        .flat_map(move |seed| (0..moments).flat_map(move |at| [(at, Crash::Torn, seed), (at, Crash::Reordered, seed)]));
    each.chain(more).take(wanted.max(Crash::ALL.len() * moments))
}

fn play(durability: Durability, seed: u64, wanted: usize) {
    let script = Script::new(120, seed);
    let moments = script.live(&Faulty::new(), durability);
    let (mut images, mut behind) = (0, 0);
    for (at, crash, seed) in crashes(moments.len(), wanted) {
        let moment = &moments[at];
        let image = moment.after(crash, seed);
        let what = || format!("moment {at} of {}, {moment:?}, {crash:?} {seed}", moments.len());
        let number = script.check(&image, moment.mark, durability, &what);
        behind += usize::from((number as u64) < moment.mark & u64::from(u32::MAX));
        images += 1;
    }
    println!("{images} images of {} moments; {behind} lack the last write that had begun", moments.len());
    assert!(moments.len() > 500 && behind > 100, "{} {behind}", moments.len());
}

#[test]
fn a_crash_with_synced_writes_keeps_every_acknowledged_one() {
    play(Durability::Sync, seed(1), images_wanted() / 2);
}

#[test]
fn a_crash_of_a_buffered_store_leaves_a_prefix_of_its_writes() {
    play(Durability::Buffered, seed(2), images_wanted() * 3 / 10);
}

#[test]
fn a_crash_in_one_recovery_and_the_next_loses_nothing() {
    let script = Script::new(120, seed(3));
    let moments = script.live(&Faulty::new(), Durability::Sync);
    let (wanted, mut images, mut random) = (images_wanted() / 5, 0, Random(seed(4)));
    while images < wanted {
        let at = random.below(moments.len() as u64) as usize;
        let mark = moments[at].mark;
        let (mut image, mut path) = end(&moments[at], &mut random);
        for _ in 0..2 {
            image.record();
            drop(Db::open(DIR, options(&image, Durability::Sync)).unwrap_or_else(|error| panic!("{path}: {error}")));
            let later = image.moments();
            // Some recoveries change no file.
            let Some(moment) = later.get(random.below(later.len().max(1) as u64) as usize) else { break };
            let how;
            (image, how) = end(moment, &mut random);
            path += &format!(", then in the recovery {how}");
        }
        script.check(&image, mark, Durability::Sync, &|| path.clone());
        images += 1;
    }
    println!("{images} images");
}

#[test]
fn a_checkpoint_cut_at_any_moment_is_whole_or_not_a_store() {
    let script = Script::new(32, seed(5));
    let storage = Faulty::new();
    let moments = script.live(&storage, Durability::Sync);
    let copy = format!("{COPY}31");
    let mut whole = 0;
    for (at, crash, seed) in crashes(moments.len(), 4 * moments.len()) {
        let image = moments[at].after(crash, seed);
        let options = Options { create_if_missing: false, ..options(&image, Durability::Sync) };
        if let Ok(db) = Db::open(&copy, options) {
            assert_eq!(
                common::scan_all(&db).into_iter().collect::<State>(),
                script.states[32],
                "moment {at}, {crash:?}"
            );
            assert!(db.verify().unwrap().is_sound());
            whole += 1;
        }
    }
    let last = moments[moments.len() - 1].after(Crash::Dropped, 0);
    assert!(Db::open(&copy, Options { create_if_missing: false, ..options(&last, Durability::Sync) }).is_ok());
    assert!(whole > 4);
}

/// The manifest has lost the edit that named an SST, and a salvage gives up the writes in that SST.
/// The SST may hold the only copy of them, so it is kept even if the power or an operation fails.
#[test]
fn an_interrupted_salvage_keeps_an_sst_whose_edit_was_lost() {
    for more in [0, 10] {
        let options = |storage: &Faulty, recovery| Options { recovery, ..common::quiet(storage) };
        let storage = Faulty::new();
        let db = Db::open(DIR, Options { durability: Durability::Sync, ..common::quiet(&storage) }).unwrap();
        (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
        db.flush().unwrap();
        (10..10 + more).for_each(|i| db.put(&key(i), b"value").unwrap());
        let crashed = storage.after(Crash::Kept, 0);
        drop(db);
        let files = |storage: &Faulty, kind| common::files(storage, Path::new(DIR), kind);
        crashed.damage(&files(&crashed, "MANIFEST-")[0], common::cut_last_record).unwrap();
        common::remove_flushed_logs(&crashed);
        crashed.sync_dir(Path::new(DIR)).unwrap();
        let table = files(&crashed, ".sst").remove(0);
        let content = crashed.read(&table).unwrap();
        let check = |image: &Faulty, what: &str| {
            // A strict open may succeed if the salvage was interrupted late.
            let strict = Db::open(DIR, options(image, LogRecovery::Strict)).map(drop);
            let db = Db::open(DIR, options(image, LogRecovery::Salvage)).unwrap();
            assert_eq!(common::scan_all(&db).len(), more as usize, "{what}, {strict:?}");
            let is_kept = files(image, ".sst").iter().any(|path| image.read(path).unwrap() == content);
            assert!(is_kept, "{what}, {strict:?}");
        };
        let image = crashed.after(Crash::Kept, 0);
        image.record();
        drop(Db::open(DIR, options(&image, LogRecovery::Salvage)).unwrap());
        let moments = image.moments();
        assert!(moments.len() > 15, "{}", moments.len());
        for (nth, moment) in moments.iter().enumerate() {
            for (crash, seed) in Crash::ALL.into_iter().flat_map(|crash| (0..3).map(move |seed| (crash, seed))) {
                check(&moment.after(crash, seed), &format!("{more} {nth} {moment:?} {crash:?} {seed}"));
            }
        }
        for from in 0.. {
            let image = crashed.after(Crash::Kept, 0);
            image.fail(Fault { from: image.operations() + from, kind: FaultKind::Io, is_lasting: true });
            let opened = Db::open(DIR, options(&image, LogRecovery::Salvage)).map(drop);
            let struck = image.struck();
            image.heal();
            // A repair can still restore writes that were not given up.
            if opened.is_err() && files(&image, ".sst").contains(&table) {
                let image = image.after(Crash::Kept, 0);
                let report = Db::repair(DIR, options(&image, LogRecovery::Strict), RepairMode::Write).unwrap();
                let db = Db::open(DIR, options(&image, LogRecovery::Strict)).unwrap();
                assert_eq!(common::scan_all(&db).len(), 10 + more as usize, "{more} {from} {struck:?}\n{report}");
            }
            check(&image, &format!("{more} {from} {struck:?}"));
            if struck.is_empty() {
                break;
            }
        }
    }
}
