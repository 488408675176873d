//! Tests recovery, with a directory whose files are in the input, or with a sound directory that
//! the input describes and then edits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use filterblock_store::lsm::LogRecovery;
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Error, Options};

use crate::Input;
use crate::bytes::Edit;
use crate::model::{State, after};
use crate::store_files::{
    Files, HASH_SEED, Log, STORE_ID, Write, append_record, batch, current, first_edit, put_added_table, put_numbers,
    repair_log, storage_of, table_of,
};

const DIR: &str = "/store";
const MAX_EDITS: usize = 6;
const MAX_ENTRIES: usize = 3_000;

/// The names that files of the input can have.
const NAMES: [&str; 12] = [
    "CURRENT",
    "MANIFEST-000001",
    "MANIFEST-000002",
    "000003.log",
    "000004.log",
    "000005.log",
    "000006.log",
    "000002.sst",
    "000003.sst",
    "000007.sst.tmp",
    "CURRENT.tmp",
    "notes",
];

/// Opens a directory with each recovery mode. The result must be an error or a working store: see
/// [`check_any`] and [`check_damaged`].
pub fn log_and_manifest(data: &[u8]) {
    let mut input = Input(data);
    let compacts = input.byte();
    if compacts.is_multiple_of(4) {
        check_any(&raw_files(&mut input), compacts >= 128);
        return;
    }
    let sound = Sound::take(&mut input);
    let mut files = sound.files.clone();
    let mut marks = Marks::default();
    input.steps(MAX_EDITS, |input| edit(&mut files, input, &mut marks));
    if !marks.is_forged {
        check_damaged(&files, &sound, marks.is_damaged);
    }
    check_any(&files, compacts >= 128);
}

/// Reads files from the input: a name, a length and bytes for each. If the input asks for it, the
/// checksums of a file are repaired like the checksums of a log.
fn raw_files(input: &mut Input<'_>) -> Files {
    let mut files = Files::new();
    while !input.is_empty() {
        let (choice, len) = (usize::from(input.byte()), input.number(2) as usize);
        let mut bytes = input.take(len).to_vec();
        if choice >= 128 {
            repair_log(&mut bytes);
        }
        files.insert(NAMES[choice % NAMES.len()].to_owned(), bytes);
    }
    // Without `CURRENT`, an open skips the recovery.
    files.entry("CURRENT".to_owned()).or_insert_with(|| current(b"MANIFEST-000001"));
    files
}

/// The effects of the edits on the files.
#[derive(Default)]
struct Marks {
    is_damaged: bool,
    /// Whether files with valid checksums may contain bytes that the store did not write.
    is_forged: bool,
}

/// A store with SSTs and logs, as a crash could leave it.
struct Sound {
    files: Files,
    /// The empty state, and the state after each batch.
    states: Vec<State>,
    /// The number of batches in SSTs. Recovery must not drop them as a torn tail.
    in_tables: usize,
    /// All values that each key ever had.
    history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

impl Sound {
    fn take(input: &mut Input<'_>) -> Self {
        let style = input.byte();
        let batches: Vec<Vec<Write>> = (0..input.byte() % 20).map(|i| take_batch(input, i)).collect();
        let mut sound =
            Self { files: Files::new(), states: vec![State::new()], in_tables: 0, history: BTreeMap::new() };
        for batch in &batches {
            sound.states.push(after(&sound.states[sound.states.len() - 1], batch));
            for (key, value) in batch {
                sound.history.entry(key.clone()).or_default().extend(value.clone());
            }
        }
        let tables = usize::from(input.byte() % 4).min(batches.len());
        let per_table = batches.len().checked_div(tables).map_or(0, |most| input.below(most) + 1);
        sound.in_tables = per_table * tables;
        let num_logs = 1 + u64::from(input.byte() % 3);
        sound.write_files(&batches, tables, num_logs, style);
        sound
    }

    /// Writes the SSTs, the manifest, `CURRENT` and the logs. SSTs have numbers from 10 on, their
    /// deleted logs from 20 on, and the current logs from 30 on.
    fn write_files(&mut self, batches: &[Vec<Write>], tables: usize, num_logs: u64, style: u8) {
        let mut manifest = Log::new(b"fb-man\r\n", 1, [0; 16], 0, true);
        let mut edit = first_edit();
        let mut edits = 0;
        let (mut sequence, mut rest) = (1, batches);
        if style.is_multiple_of(2) {
            put_numbers(&mut edit, if tables == 0 { 30 } else { 20 }, 40, 0);
            manifest.append(0, &std::mem::take(&mut edit));
            edits = 1;
        }
        for number in 0..tables as u64 {
            let (front, behind) = rest.split_at(self.in_tables / tables);
            rest = behind;
            let entries: BTreeMap<_, _> = front.iter().flatten().cloned().collect();
            let first = sequence;
            sequence += front.iter().map(Vec::len).sum::<usize>() as u64;
            let (summary, bytes) = table_of(10 + number, &entries);
            self.files.insert(format!("{:06}.sst", 10 + number), bytes);
            // Compactions may have moved the oldest SST to a deeper level.
            let level = if number == 0 { style / 2 % 7 } else { 0 };
            put_added_table(&mut edit, level, 10 + number, &summary, (first, sequence - 1));
            if edits > 0 {
                let is_last = number + 1 == tables as u64;
                put_numbers(&mut edit, if is_last { 30 } else { 21 + number }, 40, sequence - 1);
                manifest.append(edits, &std::mem::take(&mut edit));
                edits += 1;
            }
        }
        if edits == 0 {
            put_numbers(&mut edit, 30, 40, sequence - 1);
            manifest.append(0, &edit);
        }
        self.files.insert("MANIFEST-000001".to_owned(), manifest.bytes);
        self.files.insert("CURRENT".to_owned(), current(b"MANIFEST-000001"));
        for number in 0..num_logs {
            let len = rest.len().div_ceil((num_logs - number) as usize);
            let (front, behind) = rest.split_at(len);
            rest = behind;
            let mut log = Log::new(b"fb-log\r\n", 30 + number, STORE_ID, sequence, style < 128);
            for writes in front {
                log.append(sequence, &batch(writes));
                sequence += writes.len() as u64;
            }
            self.files.insert(format!("{:06}.log", 30 + number), log.bytes);
        }
    }
}

fn take_batch(input: &mut Input<'_>, number: u8) -> Vec<Write> {
    let take_write = |input: &mut Input<'_>| {
        let (key, value) = (input.byte(), input.byte());
        // A long value of zeros looks like a lost sector.
        let len = if value >= 240 { 1_100 } else { usize::from(value) };
        let fill = if value % 3 == 0 { 0 } else { number + 1 };
        (format!("key{:02}", key % 32).into_bytes(), (key < 200).then(|| vec![fill; len]))
    };
    (0..1 + input.byte() % 4).map(|_| take_write(input)).collect()
}

/// Edits or removes one file, or moves it over another file.
fn edit(files: &mut Files, input: &mut Input<'_>, marks: &mut Marks) {
    let (action, place) = (input.byte(), input.below(files.len()));
    let Some(name) = files.keys().nth(place).cloned() else { return };
    let is_log = name.starts_with("MANIFEST") || name.ends_with(".log");
    marks.is_damaged = true;
    let Some(bytes) = files.get_mut(&name) else { return };
    match action % 8 {
        0 | 1 => Edit::take_damage(input).apply(bytes),
        2 | 3 if is_log => {
            marks.is_forged = true;
            Edit::take(input).apply(bytes);
            repair_log(bytes);
        }
        // Appends a record with any content, to test the decoders of batches and version edits.
        4 if is_log => {
            marks.is_forged = true;
            let (sequence, len) = (input.number(2), usize::from(input.byte()));
            let end = bytes.len() as u64;
            append_record(bytes, sequence, end, input.take(len));
        }
        // Changes the first sequence number in the header, which may become very large.
        5 if is_log && bytes.len() >= 48 => {
            marks.is_forged = true;
            bytes[36..44].copy_from_slice(&input.number(8).to_le_bytes());
            repair_log(bytes);
        }
        6 => {
            let bytes = files.remove(&name).unwrap_or_default();
            if action >= 128 {
                let place = input.below(files.len());
                let other = files.keys().nth(place).cloned().unwrap_or(name);
                files.insert(other, bytes);
            }
        }
        7 if name == "CURRENT" => {
            marks.is_forged = true;
            let len = usize::from(input.byte() % 24);
            *bytes = current(input.take(len));
        }
        _ => {
            marks.is_forged = true;
            Edit::take(input).apply(bytes);
        }
    }
}

fn options(storage: &Memory, recovery: LogRecovery, compacts: bool) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        recovery,
        hash_seed: Some(HASH_SEED),
        auto_compaction: compacts,
        l0_compaction_trigger: 1,
        write_buffer_bytes: 4_000,
        ..Options::default()
    }
}

/// Checks a store whose files were not forged. The store must return no value that its key never
/// had. With `Strict`, all values that can be read must belong to one state, and the batches in
/// SSTs must not be missing from this state. Without damage, this is the last state, and the store
/// reports nothing.
fn check_damaged(files: &Files, sound: &Sound, is_damaged: bool) {
    for recovery in [LogRecovery::Strict, LogRecovery::Salvage] {
        let storage = storage_of(files, DIR);
        // If files are missing, an open could create a new store.
        let options = Options { create_if_missing: false, ..options(&storage, recovery, false) };
        let db = match Db::open(DIR, options) {
            Ok(db) => db,
            Err(error) => {
                assert!(is_damaged, "a sound store does not open: {error}");
                continue;
            }
        };
        let found: Vec<(&[u8], Option<Vec<u8>>)> =
            sound.history.keys().filter_map(|key| Some((key.as_slice(), db.get(key).ok()?))).collect();
        let is_state = |state: &State| found.iter().all(|(key, value)| state.get(*key) == value.as_ref());
        if recovery == LogRecovery::Strict {
            let first = if is_damaged { sound.in_tables } else { sound.states.len() - 1 };
            let mut states = sound.states.iter().skip(first);
            assert!(states.any(is_state), "the store never had this state: {found:?}");
        }
        for (key, value) in &found {
            let is_known = value.as_ref().is_none_or(|value| sound.history[*key].contains(value));
            assert!(is_known, "{key:?} was never {value:?}");
        }
        assert!(is_damaged || found.len() == sound.history.len() && db.stats().reports.is_empty());
        let scan: Result<State, _> = db.scan(..).collect();
        if let Ok(scan) = scan {
            assert!(found.iter().all(|(key, value)| scan.get(*key) == value.as_ref()), "get and scan differ");
        }
    }
}

/// Checks a store with any files. If the open fails, the error must be about the files. Otherwise
/// the store must take a write, unless its sequence numbers or file numbers are exhausted. The
/// store must still have the write after the next open.
fn check_any(files: &Files, compacts: bool) {
    for recovery in [LogRecovery::Strict, LogRecovery::Salvage] {
        let storage = storage_of(files, DIR);
        let db = match Db::open(DIR, options(&storage, recovery, compacts)) {
            Ok(db) => db,
            Err(error) => {
                check_error(&error);
                continue;
            }
        };
        let steps = db.scan(..).take(MAX_ENTRIES).chain(db.scan(..).rev().take(MAX_ENTRIES));
        steps.filter_map(Result::err).for_each(|error| check_error(&error));
        for key in ["", "key01", "key31"] {
            let _ = db.get(key.as_bytes()).map_err(|error| check_error(&error));
        }
        // The SSTs that the input describes may hold this key. No SST may count as newer than this
        // write.
        let takes_writes = match db.put(b"key01", b"new") {
            Ok(()) => true,
            // The sequence numbers or file numbers are exhausted. The store does not change, and it
            // opens again.
            Err(error) => {
                assert!(matches!(error.root(), Error::OutOfNumbers { .. }), "{error}");
                false
            }
        };
        let check_put = |db: &Db| {
            assert!(!takes_writes || db.get(b"key01").unwrap().as_deref() == Some(b"new".as_slice()));
        };
        if compacts {
            let _ = db.compact_range(..).map_err(|error| check_error(&error));
        }
        check_put(&db);
        let _ = db.verify().map_err(|error| check_error(&error));
        db.close().unwrap();
        check_put(&Db::open(DIR, options(&storage, LogRecovery::Strict, compacts)).unwrap());
    }
}

fn check_error(error: &Error) {
    let is_missing = matches!(error.root(), Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound);
    let is_refused = matches!(error.root(), Error::NotAStore | Error::ForeignFile { .. });
    let is_fine = error.is_damage() || error.is_unsupported() || error.is_secret_mismatch() || is_missing || is_refused;
    assert!(is_fine && matches!(error, Error::InFile { .. }), "{error:?}");
}
