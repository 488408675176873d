//! Runs operations on a store with a failing file system, and compares the store with a model.

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use filterblock::{FilterSpec, Verify};
use filterblock_store::lsm::{Durability, Snapshot, WriteBatch};
use filterblock_store::sstable::Compression;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty};
use filterblock_store::{Db, Error, Options, Result};

use crate::Input;
use crate::model::{Model, State};
use crate::store_files::Write;

const DIR: &str = "/store";
const MAX_OPS: usize = 160;
const MAX_SNAPSHOTS: usize = 3;
const MAX_CHECKPOINTS: usize = 4;

/// Runs operations from the input. Every answer must be right or an error, and errors occur only
/// after a fault. No durably acknowledged put or deletion is lost.
pub fn store_ops(data: &[u8]) {
    let mut input = Input(data);
    let mut run = Run::new(&mut input);
    input.steps(MAX_OPS, |input| run.step(input));
    run.end();
}

struct Run {
    storage: Faulty,
    /// The open store, or `None` while it is closed.
    db: Option<Db>,
    model: Model,
    durability: Durability,
    config: [u8; 3],
    snapshots: Vec<(Snapshot, State)>,
    /// The directory and the state of each checkpoint, and whether the checkpoint was acknowledged.
    checkpoints: Vec<(String, State, bool)>,
    /// The number of operations that faults had hit before the store was opened.
    struck_before: usize,
    /// Whether reads may have returned wrong bytes since the store was opened.
    is_silent: bool,
}

impl Run {
    fn new(input: &mut Input<'_>) -> Self {
        let config = [(); 3].map(|()| input.byte());
        let durability = if config[0].is_multiple_of(3) { Durability::Buffered } else { Durability::Sync };
        let mut run = Self {
            storage: Faulty::new(),
            db: None,
            model: Model::new(),
            durability,
            config,
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            struck_before: 0,
            is_silent: false,
        };
        run.open();
        run
    }

    fn options(&self) -> Options {
        let [first, second, third] = self.config;
        // The bytes that choose the extractor and the range filter also choose other options. With
        // an additional byte, stored inputs would change their meaning.
        let extractors = ["none", "fixed:3", "fixed:5", "capped:4", "delimiter: ", "row-column:0x20", "delimiter:0"];
        let extractor = extractors[(usize::from(first) + usize::from(third)) % extractors.len()];
        let ranges = ["", "", "grafite:fpr=0.01", "grafite:L=16:9"][usize::from(third ^ second >> 1) % 4];
        let ranges = (!ranges.is_empty()).then(|| Arc::new(ranges.parse::<FilterSpec>().unwrap()) as _);
        let spec: FilterSpec =
            ["blocked-bloom:10", "bloom:2", "ribbon:7", "always-maybe"][usize::from(first / 3 % 4)].parse().unwrap();
        Options {
            storage: Arc::new(self.storage.clone()),
            durability: self.durability,
            hash_seed: Some(first.into()),
            prefix_extractor: extractor.parse().unwrap(),
            range_filter: ranges,
            filter: (second & 1 == 0).then(|| Arc::new(spec) as _),
            verify: if second & 2 == 0 { Verify::OnFirstTouch } else { Verify::AtOpen },
            compression: if second & 4 == 0 { Compression::None } else { Compression::Lz4 },
            block_cache_bytes: if second & 8 == 0 { 0 } else { 2_000 },
            auto_compaction: second & 16 == 0,
            block_size_bytes: 64 << (second >> 5),
            write_buffer_bytes: 300 << (third % 4),
            table_size_bytes: 300 << (third / 4 % 4),
            level_base_bytes: 1_000 << (third / 16 % 4),
            l0_compaction_trigger: 2 + usize::from(third / 64),
            ..Options::default()
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Asserts that a fault since the last open explains the error.
    fn may_fail(&self, error: &Error) {
        assert!(self.storage.struck().len() > self.struck_before, "an operation failed without a fault: {error:?}");
        let is_refusal = matches!(error.root(), Error::Poisoned { .. } | Error::BackgroundFails { .. });
        let is_io = is_refusal || matches!(error.root(), Error::Io(_));
        assert!(is_io || self.is_silent && error.is_damage(), "{error:?}");
        assert!(matches!(error, Error::InFile { .. }) || is_refusal, "the error names no file: {error:?}");
    }

    fn check<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.may_fail(&error)).ok()
    }

    /// Opens the store, and asserts that the model allows its content. If a fault makes the first
    /// attempt fail, heals the file system and opens again. Background work of a successful open
    /// may also meet the fault, until the file system is healed.
    fn open(&mut self) {
        let options = self.options();
        self.struck_before = self.storage.struck().len();
        let db = match Db::open(DIR, options.clone()) {
            Ok(db) => db,
            Err(error) => {
                self.may_fail(&error);
                self.storage.heal();
                self.struck_before = self.storage.struck().len();
                Db::open(DIR, options).unwrap()
            }
        };
        self.storage.heal();
        let found: Result<State> = db.scan(..).collect();
        self.model.opened(found.unwrap());
        self.db = Some(db);
        self.is_silent = false;
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let op = input.byte();
        match op % 32 {
            0..=9 => {
                let write = (key(input), Some(value(input)));
                self.write(&[write], self.durability);
            }
            10..=12 => {
                let write = (key(input), None);
                self.write(&[write], self.durability);
            }
            13 | 14 => {
                let writes: Vec<Write> = (0..input.byte() % 8).map(|_| take_write(input)).collect();
                let durability = if op >= 128 { Durability::Sync } else { Durability::Buffered };
                self.write(&writes, durability);
            }
            15 | 16 => {
                if self.check(self.db().flush()).is_some() {
                    self.model.synced();
                }
            }
            17 | 18 => self.compact(input),
            19 => self.take_snapshot(),
            20 | 21 => self.scan(input),
            22 => self.multi_get(input),
            23 => self.checkpoint(),
            24 => self.reopen(op >= 128),
            25 | 26 => self.crash(input),
            27 | 28 => self.arm(input),
            29 => self.storage.heal(),
            30 => self.verify(),
            _ => self.get(&key(input)),
        }
        // Without this wait, background work may run at any time, and findings are hard to
        // reproduce.
        if self.config[0] < 192 {
            let _ = self.check(self.db().wait_idle());
        }
    }

    fn write(&mut self, writes: &[Write], durability: Durability) {
        let mut batch = WriteBatch::new();
        for (key, value) in writes {
            match value {
                Some(value) => batch.put(key, value).unwrap(),
                None => batch.delete(key).unwrap(),
            }
        }
        match self.db().write_with(batch, durability) {
            Ok(()) if writes.is_empty() => {}
            Ok(()) => {
                self.model.written(writes);
                if durability == Durability::Sync {
                    self.model.synced();
                }
            }
            Err(error) => {
                self.may_fail(&error);
                // With these errors, the store rejects the write before it reaches the log. After
                // any other error, the write may be in the log.
                if !matches!(error.root(), Error::Poisoned { .. } | Error::BackgroundFails { .. }) {
                    self.model.failed(writes);
                }
            }
        }
        writes.iter().for_each(|(key, _)| self.get(key));
    }

    fn get(&self, key: &[u8]) {
        if let Some(found) = self.check(self.db().get(key)) {
            assert_eq!(found.as_ref(), self.model.state().get(key), "{key:?}");
        }
    }

    fn multi_get(&self, input: &mut Input<'_>) {
        let keys: Vec<Vec<u8>> = (0..input.byte() % 70).map(|i| numbered(input.byte().wrapping_add(i))).collect();
        if let Some(found) = self.check(self.db().multi_get(&keys)) {
            assert!(found.iter().map(Option::as_ref).eq(keys.iter().map(|key| self.model.state().get(key))));
        }
    }

    fn compact(&mut self, input: &mut Input<'_>) {
        let bounds = bounds(input);
        if self.check(self.db().compact_range(slices(&bounds))).is_some() {
            self.model.synced();
        }
    }

    /// Reads entries from the front and from the back, in an order that the input chooses. Asserts
    /// that the entries equal those of the model.
    fn scan(&self, input: &mut Input<'_>) {
        let (bounds, mut turns) = (bounds(input), input.number(2));
        let mut scan = self.db().scan(slices(&bounds));
        let mut wanted = self.model.state().iter().filter(|(key, _)| bounds.contains::<Vec<u8>>(*key));
        loop {
            let is_front = turns & 1 == 0;
            turns = turns.rotate_right(1);
            let (found, wanted) =
                if is_front { (scan.next(), wanted.next()) } else { (scan.next_back(), wanted.next_back()) };
            match found.transpose() {
                Ok(found) => {
                    assert_eq!(found.as_ref().map(|(key, value)| (key, value)), wanted);
                    if found.is_none() {
                        return;
                    }
                }
                Err(error) => return self.may_fail(&error),
            }
        }
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() == MAX_SNAPSHOTS {
            let (snapshot, state) = self.snapshots.remove(0);
            self.check_snapshot(&snapshot, &state);
        }
        let state = self.model.state().clone();
        self.snapshots.push((self.db().snapshot(), state));
    }

    fn check_snapshot(&self, snapshot: &Snapshot, state: &State) {
        if let Some(found) = self.check(snapshot.scan(..).collect::<Result<State>>()) {
            assert_eq!(found, *state, "a snapshot changed");
        }
        for key in (0..48).map(numbered) {
            if let Some(found) = self.check(snapshot.get(&key)) {
                assert_eq!(found.as_ref(), state.get(&key), "a snapshot changed");
            }
        }
    }

    fn check_snapshots(&mut self) {
        for (snapshot, state) in std::mem::take(&mut self.snapshots) {
            self.check_snapshot(&snapshot, &state);
        }
    }

    fn checkpoint(&mut self) {
        if self.checkpoints.len() == MAX_CHECKPOINTS {
            return;
        }
        let dir = format!("/copy{}", self.checkpoints.len());
        let is_made = self.check(self.db().checkpoint(&dir)).is_some();
        if is_made {
            self.model.synced();
        }
        self.checkpoints.push((dir, self.model.state().clone(), is_made));
    }

    fn verify(&self) {
        let before = self.storage.struck().len();
        let report = self.db().verify();
        if self.storage.struck().len() == before {
            let report = report.unwrap();
            // If a write failed before, a manifest or a log may end with a torn record until the
            // store is reopened.
            let is_unfinished = |error: &Error| {
                let Error::InFile { path, .. } = error else { return false };
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("MANIFEST-") || name.ends_with(".log")
            };
            let is_expected =
                before > 0 && report.filter_false_negatives == 0 && report.damage.iter().all(is_unfinished);
            assert!(report.is_sound() || is_expected, "{report:?}");
        }
    }

    /// Heals the file system if reads may return wrong bytes. A recovery could take wrong bytes for
    /// a torn log.
    fn heal_silent(&mut self) {
        if self.is_silent {
            self.storage.heal();
        }
    }

    fn reopen(&mut self, closes: bool) {
        self.check_snapshots();
        self.heal_silent();
        let db = self.db.take().unwrap();
        if closes {
            if self.check(db.close()).is_some() {
                self.model.synced();
            }
        } else {
            drop(db);
        }
        self.open();
    }

    /// Simulates a power failure. Writes that were not durably acknowledged may be present or not.
    fn crash(&mut self, input: &mut Input<'_>) {
        let (crash, seed) = (Crash::ALL[usize::from(input.byte() % 4)], input.number(2));
        self.check_snapshots();
        self.heal_silent();
        let image = self.storage.after(crash, seed);
        drop(self.db.take());
        self.storage = image;
        self.open();
    }

    fn arm(&mut self, input: &mut Input<'_>) {
        const KINDS: [FaultKind; 7] = [
            FaultKind::Io,
            FaultKind::NoSpace,
            FaultKind::Interrupted,
            FaultKind::Late,
            FaultKind::ShortRead,
            FaultKind::BitRot,
            FaultKind::Misdirected,
        ];
        let (choice, after) = (input.byte(), u64::from(input.byte()));
        let kind = KINDS[usize::from(choice % 7)];
        self.is_silent |= matches!(kind, FaultKind::BitRot | FaultKind::Misdirected);
        self.storage.fail(Fault { from: self.storage.operations() + after, kind, is_lasting: choice >= 192 });
    }

    /// Checks the reopened store, its checkpoints and another write, without faults.
    fn end(mut self) {
        self.storage.heal();
        self.check_snapshots();
        self.reopen(self.config[1] >= 128);
        self.write(&[(b"last".to_vec(), Some(b"write".to_vec()))], Durability::Sync);
        self.check(self.db().flush()).unwrap();
        self.verify();
        let mut backward: Vec<_> = self.db().scan(..).rev().map(Result::unwrap).collect();
        backward.reverse();
        assert!(backward.iter().map(|(key, value)| (key, value)).eq(self.model.state()));
        for (dir, state, is_made) in &self.checkpoints {
            let options = Options { create_if_missing: false, ..self.options() };
            match Db::open(Path::new(dir), options) {
                Ok(db) => {
                    let found = db.scan(..).collect::<Result<State>>().unwrap();
                    assert_eq!(found, *state, "a checkpoint differs from the state of the store when it was made");
                    assert!(db.verify().unwrap().is_sound());
                }
                Err(error) => assert!(!is_made, "a checkpoint is lost: {error}"),
            }
        }
    }
}

fn numbered(number: u8) -> Vec<u8> {
    match number % 48 {
        0 => Vec::new(),
        number @ 1..32 => format!("key{number:02}").into_bytes(),
        number => format!("a common front of many keys {number}").into_bytes(),
    }
}

fn key(input: &mut Input<'_>) -> Vec<u8> {
    numbered(input.byte())
}

/// Reads a value, whose bytes are all equal.
fn value(input: &mut Input<'_>) -> Vec<u8> {
    let (len, fill) = (input.byte(), input.byte());
    vec![fill; if len >= 250 { 700 } else { usize::from(len % 80) }]
}

fn take_write(input: &mut Input<'_>) -> Write {
    let key = key(input);
    let is_put = !input.byte().is_multiple_of(4);
    (key, is_put.then(|| value(input)))
}

/// Reads a range. A range that ends before it starts is empty.
fn bounds(input: &mut Input<'_>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (kinds, from, to) = (input.byte(), key(input), key(input));
    let bound = |kind: u8, key| match kind % 3 {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    (bound(kinds, from), bound(kinds / 3, to))
}

fn slices(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}
