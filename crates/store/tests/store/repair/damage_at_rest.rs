//! Changes bits, bytes, lengths and pages of the files of a closed and of an open store.
//!
//! `FILTERBLOCK_EVERY_DAMAGE=1` tries every bit, byte and length of every file. By default the
//! tests try all of them for `CURRENT`, at least one bit of every byte of logs and manifests, and
//! some of them for SSTs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{self, DIR, Random, key, store_files, synced};
use filterblock::Verify;
use filterblock_store::storage::Storage;
use filterblock_store::storage::faulty::{Crash, Faulty};
use filterblock_store::{Db, Error, Options};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;
type Edit<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;

const KEYS: u64 = 150;
const PAGE: usize = 4096;

/// Returns a storage, an open store in it, and the content of the store. The store has two SSTs of
/// several pages, and a manifest and a log of more than one page each.
fn store() -> (Faulty, Db, Content) {
    let storage = Faulty::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    (0..KEYS).for_each(|i| db.put(&key(i), &[b'a'; 40]).unwrap());
    db.flush().unwrap();
    // This loop only makes the manifest longer.
    for _ in 0..40 {
        db.put(&key(0), &[b'b'; 40]).unwrap();
        db.flush().unwrap();
        db.compact_range(..).unwrap();
    }
    (40..115).for_each(|i| db.put(&key(i), &[b'b'; 40]).unwrap());
    db.flush().unwrap();
    (0..KEYS).step_by(2).for_each(|i| db.put(&key(i), &[b'c'; 40]).unwrap());
    db.delete(&key(7)).unwrap();
    common::remove_flushed_logs(&storage);
    let content = common::scan_all(&db).into_iter().collect();
    (storage, db, content)
}

fn is_kind(path: &Path, kind: &str) -> bool {
    path.to_str().unwrap().contains(kind)
}

/// Returns the names and functions of all changes that are tried on a file. `others` are the
/// contents of the other files of its kind.
fn edits(path: &Path, sound: &[u8], others: &[Vec<u8>]) -> Vec<(String, Edit<'static>)> {
    let is_all = std::env::var_os("FILTERBLOCK_EVERY_DAMAGE").is_some();
    let (bit_step, step) = match is_kind(path, ".sst") {
        _ if is_all || is_kind(path, "CURRENT") => (1, 1),
        true => (193, 83),
        false => (7, 7),
    };
    let mut edits: Vec<(String, Edit<'static>)> = Vec::new();
    for bit in (0..sound.len() * 8).step_by(bit_step) {
        edits.push((format!("bit {bit}"), Box::new(move |bytes| bytes[bit / 8] ^= 1 << (bit % 8))));
    }
    for at in (0..sound.len()).step_by(step) {
        edits.push((format!("byte {at} to 00"), Box::new(move |bytes| bytes[at] = 0)));
        edits.push((format!("byte {at} to ff"), Box::new(move |bytes| bytes[at] = 0xff)));
        edits.push((format!("cut at {at}"), Box::new(move |bytes| bytes.truncate(at))));
    }
    edits.push(("all zeros".into(), Box::new(|bytes| bytes.fill(0))));
    let pages = sound.len().div_ceil(PAGE);
    for page in 0..pages {
        let range = move |bytes: &Vec<u8>, page: usize| page * PAGE..bytes.len().min((page + 1) * PAGE);
        edits.push((
            format!("page {page} zeroed"),
            Box::new(move |bytes| {
                let range = range(bytes, page);
                bytes[range].fill(0);
            }),
        ));
        for other in (0..pages).filter(|&other| other != page) {
            edits.push((
                format!("page {other} also as {page}"),
                Box::new(move |bytes| {
                    let (from, to) = (range(bytes, other), range(bytes, page));
                    let len = from.len().min(to.len());
                    bytes.copy_within(from.start..from.start + len, to.start);
                }),
            ));
            edits.push((
                format!("pages {page} and {other} swapped"),
                Box::new(move |bytes| {
                    let len = range(bytes, page).len().min(range(bytes, other).len());
                    for i in 0..len {
                        bytes.swap(page * PAGE + i, other * PAGE + i);
                    }
                }),
            ));
        }
        for other in others {
            let other = other.clone();
            edits.push((
                format!("page {page} of another file"),
                Box::new(move |bytes| {
                    let range = range(bytes, page);
                    let theirs = other.get(range.start..other.len().min(range.end)).unwrap_or_default();
                    bytes[range.start..range.start + theirs.len()].copy_from_slice(theirs);
                }),
            ));
        }
    }
    edits
}

/// Returns changes that append to a file. An open store does not notice them, because it knows the
/// lengths of its files.
fn extensions() -> Vec<(String, Edit<'static>)> {
    vec![
        ("an extra zero byte".into(), Box::new(|bytes| bytes.push(0))),
        ("an extra sector of zeros".into(), Box::new(|bytes| bytes.extend([0; 512]))),
        ("noise at the end".into(), Box::new(|bytes| bytes.extend((0..300).map(|i| Random(i).next() as u8)))),
        ("its own bytes twice".into(), Box::new(|bytes| bytes.extend_from_within(..))),
    ]
}

/// Returns an iterator over the damaged versions of a file, each with a description of the damage.
/// With `FILTERBLOCK_EVERY_DAMAGE=1`, a list of all versions would take gigabytes.
fn damaged_versions(
    storage: &Faulty,
    path: &Path,
    more: Vec<(String, Edit<'static>)>,
) -> impl Iterator<Item = (String, Vec<u8>)> {
    let sound = storage.read(path).unwrap();
    let kind = path.extension().map_or("none", |end| end.to_str().unwrap()).to_owned();
    let alike = store_files(storage).into_iter().filter(|other| other != path && is_kind(other, &kind));
    let others: Vec<Vec<u8>> = alike.map(|other| storage.read(&other).unwrap()).collect();
    edits(path, &sound, &others).into_iter().chain(more).filter_map(move |(what, edit)| {
        let mut bytes = sound.clone();
        edit(&mut bytes);
        (bytes != sound).then_some((what, bytes))
    })
}

/// Returns whether `bytes` is the log `sound`, cut at the end of the header or of a record.
fn is_prefix_of_records(path: &Path, sound: &[u8], bytes: &[u8]) -> bool {
    let mut at = 48;
    while at < bytes.len() && at + 4 <= sound.len() {
        at += 24 + u32::from_le_bytes(sound[at..at + 4].try_into().unwrap()) as usize;
    }
    is_kind(path, ".log") && at == bytes.len() && sound.starts_with(bytes)
}

fn names(error: &Error, path: &Path) -> bool {
    error.to_string().starts_with(path.to_str().unwrap())
}

/// Reads all keys and asserts that every answer is right. Returns whether a read failed.
fn read_all(db: &Db, content: &Content, what: &dyn Fn() -> String) -> bool {
    let mut failed = false;
    for i in 0..KEYS {
        match db.get(&key(i)) {
            Ok(value) => assert_eq!(value.as_ref(), content.get(&key(i)), "{}, key {i}", what()),
            Err(error) => {
                assert!(error.is_damage(), "{}: {error}", what());
                failed = true;
            }
        }
    }
    failed
}

#[test]
fn damage_while_the_store_is_closed_is_found() {
    let (storage, db, content) = store();
    let image = storage.after(Crash::Kept, 0);
    drop(db);
    let mut tried = 0;
    for path in store_files(&image) {
        let sound = image.read(&path).unwrap();
        for (nth, (what, bytes)) in damaged_versions(&image, &path, extensions()).enumerate() {
            let what = || format!("{}: {what}", path.display());
            let copy = image.after(Crash::Kept, 0);
            copy.damage(&path, |old| *old = bytes.clone()).unwrap();
            let verify = if nth % 2 == 0 { Verify::AtOpen } else { Verify::OnFirstTouch };
            tried += 1;
            let db = match Db::open(DIR, Options { verify, ..synced(&copy) }) {
                Ok(db) => db,
                Err(error) => {
                    // A manifest without its last edits may name removed SSTs or a removed log.
                    let is_manifest = is_kind(&path, "MANIFEST");
                    assert!(names(&error, &path) || is_manifest, "{}: {error}", what());
                    assert!(error.is_damage() || is_manifest, "{}: {error}", what());
                    continue;
                }
            };
            let is_told = db.stats().reports.iter().any(|report| report.starts_with(path.to_str().unwrap()));
            if is_kind(&path, ".log") {
                // A cut may look like a crash. The store reports the loss of the tail, except if
                // the cut is at the end of the header or of a record.
                assert!(is_told || is_prefix_of_records(&path, &sound, &bytes), "{}", what());
                continue;
            }
            read_all(&db, &content, &what);
            let verified = db.verify().unwrap();
            assert_eq!(verified.filter_false_negatives, 0);
            let is_found = verified.damage.iter().any(|error| names(error, &path));
            // The store reports what follows the last edit of a manifest, and makes a new manifest.
            let is_longer = bytes.len() > sound.len() && is_kind(&path, "MANIFEST");
            assert!(is_found || is_longer && is_told, "{}: {verified:?}", what());
        }
    }
    println!("{tried} damaged files");
    assert!(tried > 500, "{tried}");
}

#[test]
fn damage_while_the_store_is_open_is_found_by_verify() {
    let (storage, db, content) = store();
    assert!(db.verify().unwrap().is_sound());
    let mut tried = 0;
    for path in store_files(&storage) {
        let sound = storage.read(&path).unwrap();
        for (what, bytes) in damaged_versions(&storage, &path, Vec::new()) {
            let what = || format!("{}: {what}", path.display());
            storage.damage(&path, |old| *old = bytes.clone()).unwrap();
            let verified = db.verify().unwrap_or_else(|error| panic!("{}: {error}", what()));
            assert!(verified.damage.iter().any(|error| names(error, &path)), "{}: {verified:?}", what());
            assert!(verified.damage.iter().all(Error::is_damage), "{}: {verified:?}", what());
            tried += 1;
            if tried % 50 == 0 {
                read_all(&db, &content, &what);
            }
            storage.damage(&path, |old| *old = sound.clone()).unwrap();
        }
        storage.rename(&path, Path::new("/aside")).unwrap();
        let verified = db.verify().unwrap();
        assert!(verified.damage.iter().any(|error| names(error, &path)), "{} is missing: {verified:?}", path.display());
        storage.rename(Path::new("/aside"), &path).unwrap();
    }
    println!("{tried} damaged files");
    assert!(db.verify().unwrap().is_sound());
    assert!(!read_all(&db, &content, &|| "healed".into()));
    db.close().unwrap();
}
