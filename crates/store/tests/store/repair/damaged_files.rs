//! Tests stores with files that were cut, extended, zeroed, changed or removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{DIR, Random, assert_names, change, files, image, key, quiet, scan_all};
use filterblock::Verify;
use filterblock_store::lsm::{Durability, LogRecovery};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns a crashed store and its content. The store has two SSTs of small blocks, and a log with
/// eleven writes.
fn crashed_store() -> (Memory, Content) {
    let storage = Memory::new();
    let options = Options { durability: Durability::Sync, block_size_bytes: 256, ..quiet(&storage) };
    let db = Db::open(DIR, options).unwrap();
    for i in 0..60 {
        db.put(&key(i), &[b'a'; 20]).unwrap();
    }
    db.flush().unwrap();
    for i in 30..90 {
        db.put(&key(i), &[b'b'; 20]).unwrap();
    }
    db.flush().unwrap();
    for i in 0..10 {
        db.put(&key(i * 10), b"log").unwrap();
    }
    db.delete(&key(0)).unwrap();
    // The store removes a flushed log shortly after the flush.
    while files(&storage, Path::new(DIR), ".log").len() > 1 {
        std::thread::yield_now();
    }
    let content = scan_all(&db).into_iter().collect();
    (image(&storage), content)
}

/// The result of opening and reading a damaged store.
#[derive(Debug, PartialEq)]
enum Outcome {
    Whole,
    Reported(Vec<String>),
    Failed(String),
    Lost,
}

fn look(storage: &Memory, options: Options, content: &Content) -> Outcome {
    let db = match Db::open(DIR, options) {
        Ok(db) => db,
        Err(error) => return failed(storage, &error),
    };
    let mut is_whole = true;
    for i in 0..100 {
        match db.get(&key(i)) {
            Ok(value) => {
                // An older value of a key, or none, is a loss. No write has a value that is not in
                // `known`.
                let known = [&[b'a'; 20][..], &[b'b'; 20], b"log"];
                assert!(value.as_deref().is_none_or(|value| known.contains(&value)), "{value:?}");
                is_whole &= value.as_ref() == content.get(&key(i));
            }
            Err(error) => return failed(storage, &error),
        }
    }
    let scanned: Result<Content, Error> = db.scan(..).collect();
    match scanned {
        Ok(found) => is_whole &= found == *content,
        Err(error) => return failed(storage, &error),
    }
    match db.stats().reports {
        reports if !reports.is_empty() => Outcome::Reported(reports),
        _ if is_whole => Outcome::Whole,
        _ => Outcome::Lost,
    }
}

fn failed(storage: &Memory, error: &Error) -> Outcome {
    let message = error.to_string();
    // The message begins with a file of the store, which may be missing.
    let (file, _) = message.split_once(": ").unwrap();
    assert!(file.starts_with(DIR) && file.len() > DIR.len(), "the message names no file: {message}");
    assert!(error.is_damage() || !storage.exists(Path::new(file)).unwrap(), "{error:?}");
    Outcome::Failed(message)
}

fn is_about(outcome: &Outcome, path: &Path) -> bool {
    let path = path.to_str().unwrap();
    match outcome {
        Outcome::Whole => true,
        Outcome::Reported(reports) => reports.iter().any(|report| report.starts_with(path)),
        Outcome::Failed(message) => message.starts_with(path),
        Outcome::Lost => false,
    }
}

fn store_files(storage: &Memory) -> Vec<PathBuf> {
    [".sst", ".log", "MANIFEST-", "CURRENT"].iter().flat_map(|kind| files(storage, Path::new(DIR), kind)).collect()
}

#[test]
fn a_bit_flipped_in_any_file_is_an_error_or_report_about_it() {
    let (sound, content) = crashed_store();
    for path in store_files(&sound) {
        let len = sound.read(&path).unwrap().len();
        // Other tests flip every bit of an SST.
        let step = if path.extension().is_some_and(|end| end == "sst") { 7 } else { 1 };
        let (mut whole, mut seen) = (0, 0);
        for at in (0..len).step_by(step) {
            let storage = image(&sound);
            change(&storage, &path, |bytes| bytes[at] ^= 1 << (at % 8));
            let verify = if at % 2 == 0 { Verify::AtOpen } else { Verify::OnFirstTouch };
            let outcome = look(&storage, Options { verify, ..quiet(&storage) }, &content);
            // Damage in the last edit of a manifest looks like a torn tail, and the edit is cut
            // off. The number of the log then shows that the edit is missing.
            let is_manifest = path.to_str().unwrap().contains("MANIFEST");
            assert!(
                is_about(&outcome, &path) || is_manifest && outcome != Outcome::Lost,
                "{path:?}, {at}: {outcome:?}"
            );
            whole += u64::from(outcome == Outcome::Whole);
            seen += 1;
        }
        // Only damage of the zeros before a filter has no effect, because no read looks at them.
        let may_hide = path.extension().is_some_and(|end| end == "sst");
        assert!(whole == 0 || may_hide, "{path:?}: {whole} of {seen} flips were not noticed");
        println!("{}: {seen} flips, {whole} of them without effect", path.display());
    }
}

#[test]
fn a_file_cut_at_any_length_is_an_error_or_a_report() {
    let (sound, content) = crashed_store();
    for path in store_files(&sound) {
        let len = sound.read(&path).unwrap().len();
        let is_log = path.extension().is_some_and(|end| end == "log");
        let step = if path.extension().is_some_and(|end| end == "sst") { 13 } else { 1 };
        let mut lost = Vec::new();
        for cut in (0..len).step_by(step) {
            let storage = image(&sound);
            change(&storage, &path, |bytes| bytes.truncate(cut));
            let outcome = look(&storage, quiet(&storage), &content);
            if outcome == Outcome::Lost {
                lost.push(cut);
            } else {
                assert_ne!(outcome, Outcome::Whole, "{path:?} cut at {cut}");
            }
        }
        // A log cut at the end of a record looks like a shorter log. Every other cut is noticed.
        let record_ends = if is_log { 12 + 1 } else { 0 };
        assert!(lost.len() <= record_ends, "{path:?} cut at {lost:?}");
    }
}

#[test]
fn extended_and_zeroed_files_are_noticed() {
    let (sound, content) = crashed_store();
    let mut random = Random(5);
    type Edit = fn(&mut Vec<u8>, &mut Random);
    let edits: [(&str, Edit); 6] = [
        ("an extra zero byte", |bytes, _| bytes.push(0)),
        ("an extra sector of zeros", |bytes, _| bytes.extend([0; 512])),
        ("noise at the end", |bytes, random| bytes.extend((0..300).map(|_| random.next() as u8))),
        ("all zeros", |bytes, _| bytes.fill(0)),
        ("all noise", |bytes, random| bytes.iter_mut().for_each(|byte| *byte = random.next() as u8)),
        ("its own bytes twice", |bytes, _| bytes.extend_from_within(..)),
    ];
    for path in store_files(&sound) {
        for (name, edit) in edits {
            let storage = image(&sound);
            change(&storage, &path, |bytes| edit(bytes, &mut random));
            let outcome = look(&storage, quiet(&storage), &content);
            println!("{}, {name}: {outcome:?}", path.display());
            assert!(!matches!(outcome, Outcome::Whole | Outcome::Lost), "{path:?}, {name}");
            assert!(is_about(&outcome, &path), "{path:?}, {name}: {outcome:?}");
        }
    }
}

#[test]
fn a_missing_file_is_named_and_nothing_else_is_touched() {
    let (sound, _) = crashed_store();
    for path in store_files(&sound) {
        let storage = image(&sound);
        storage.remove(&path).unwrap();
        let before = storage.list(Path::new(DIR)).unwrap();
        let error = Db::open(DIR, quiet(&storage)).unwrap_err();
        println!("{} removed: {error}", path.display());
        assert_names(&error, if path.ends_with("CURRENT") { Path::new(DIR) } else { &path });
        let after = storage.list(Path::new(DIR)).unwrap();
        assert!(before.iter().all(|name| after.contains(name)), "{after:?}");
    }
}

/// Cuts the manifest of a cleanly closed store at every length above the header, including the ends
/// of edits, where the cut leaves no trace.
#[test]
fn lost_manifest_edits_are_noticed_and_tables_are_kept() {
    let storage = Memory::new();
    for round in 0..4 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        (0..10).for_each(|i| db.put(&key(round * 10 + i), b"value").unwrap());
        db.close().unwrap();
    }
    let sound = image(&storage);
    let manifest = files(&sound, Path::new(DIR), "MANIFEST-").remove(0);
    let tables = files(&sound, Path::new(DIR), ".sst");
    assert_eq!(tables.len(), 4);
    for cut in 49..sound.read(&manifest).unwrap().len() {
        let storage = image(&sound);
        change(&storage, &manifest, |bytes| bytes.truncate(cut));
        for _ in 0..2 {
            let error = Db::open(DIR, quiet(&storage)).unwrap_err();
            assert!(error.is_damage(), "cut at {cut}: {error}");
        }
        let kept = |storage: &Memory| files(storage, Path::new(DIR), ".sst").len();
        assert_eq!(kept(&storage), 4, "cut at {cut}: {:?}", storage.list(Path::new(DIR)));
        // A salvage sets unnamed SSTs aside instead of removing them.
        let salvage = Options { recovery: LogRecovery::Salvage, ..quiet(&storage) };
        if let Ok(db) = Db::open(DIR, salvage) {
            assert!(!db.stats().reports.is_empty(), "cut at {cut}");
            assert_eq!(scan_all(&db).len() % 10, 0);
            db.put(b"more", b"").unwrap();
            db.close().unwrap();
            assert_eq!(kept(&storage), 4 + 1, "cut at {cut}: {:?}", storage.list(Path::new(DIR)));
            let db = Db::open(DIR, quiet(&storage)).unwrap();
            assert_eq!(db.stats().reports, Vec::<String>::new());
        }
    }
}
