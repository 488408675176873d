//! Tests version edits and the manifest.

use super::edit::{TableMeta, first_overlap};
use super::*;
use crate::storage::Memory;
use crate::storage::faulty::{Crash, Fault, FaultKind, Faulty};
use filterblock::{Fingerprint, HashIdentity, HashKind, HashSeed, KeyHasher};

fn table(number: u64) -> TableMeta {
    let key = |prefix: char| format!("{prefix}{number:03}").into_bytes();
    TableMeta {
        number,
        len_bytes: 1 << 40,
        num_entries: 300,
        num_tombstones: 5,
        smallest: key('a'),
        largest: key('z'),
        smallest_sequence: number * 10,
        largest_sequence: u64::MAX,
    }
}

fn first_edit() -> VersionEdit {
    let hash = KeyHasher::xxh3(HashSeed(42)).identity();
    StoreState {
        store_id: [9; 16],
        hash,
        prefix_extractor: Some("fixed:8".to_owned()),
        next_file_number: 2,
        ..StoreState::default()
    }
    .snapshot()
}

fn edits() -> Vec<VersionEdit> {
    let add = VersionEdit {
        log_number: Some(5),
        next_file_number: Some(u64::MAX),
        last_sequence: Some(77),
        keyed_hash: Some((HashKind::SipHash13, FINGERPRINT)),
        added: vec![(0, table(3)), (0, table(4))],
        ..VersionEdit::default()
    };
    let deepen = VersionEdit { removed: vec![(0, 3)], added: vec![(6, table(3))], ..VersionEdit::default() };
    let remove = VersionEdit { removed: vec![(0, 4)], added: vec![(1, table(8))], ..VersionEdit::default() };
    vec![first_edit(), add, deepen, remove]
}

const FINGERPRINT: Fingerprint = Fingerprint::from_bytes([7; 8]);

fn state_after(edits: &[VersionEdit]) -> StoreState {
    let mut state = StoreState::default();
    edits.iter().for_each(|edit| state.apply(edit, 0).unwrap());
    state
}

fn store() -> (Memory, &'static Path) {
    let memory = Memory::new();
    memory.create_dir_all(Path::new("/db")).unwrap();
    (memory, Path::new("/db"))
}

fn written() -> (Memory, &'static Path) {
    let (memory, dir, _) = open();
    (memory, dir)
}

/// Returns a store with several edits in its manifest, and the manifest, which is still open.
fn open() -> (Memory, &'static Path, Manifest) {
    let (memory, dir) = store();
    let manifest = write_edits(&memory, dir);
    (memory, dir, manifest)
}

fn write_edits(storage: &dyn Storage, dir: &Path) -> Manifest {
    let mut manifest = Manifest::create(storage, dir, 1, &first_edit()).unwrap();
    edits()[1..].iter().for_each(|edit| manifest.append(edit).unwrap());
    manifest
}

fn overwrite(memory: &Memory, path: &Path, bytes: &[u8]) {
    memory.remove(path).unwrap();
    memory.create(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_keyed_hash_function_is_never_taken_for_another() {
    let keyed = |kind, fill| VersionEdit {
        keyed_hash: Some((kind, Fingerprint::from_bytes([fill; 8]))),
        ..VersionEdit::default()
    };
    let mut state = state_after(&edits());
    let expected = HashIdentity::new(HashKind::SipHash13, HashSeed(42), Some(FINGERPRINT));
    assert_eq!(Some(state.hash), expected);
    assert_eq!(state_after(&[state.snapshot()]), state);
    state.apply(&keyed(HashKind::SipHash13, 7), 0).unwrap();
    for other in [keyed(HashKind::SipHash13, 8), keyed(HashKind::Xxh3Secret, 7)] {
        let error = state.clone().apply(&other, 5).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::HashId, offset: 5 }), "{error}");
    }
    for id in 0..=255 {
        let bytes = [&[8, id][..], &[7; 8]].concat();
        match (id, VersionEdit::decode(&bytes, 0)) {
            (2 | 3, edit) => assert!(edit.unwrap().keyed_hash.is_some()),
            (1, error) => assert!(matches!(error, Err(Error::Corrupt { field: Field::HashId, .. })), "{error:?}"),
            (_, error) => assert!(matches!(error, Err(Error::Unsupported { field: Field::HashId, .. })), "{error:?}"),
        }
    }
}

#[test]
fn edits_survive_encoding_and_cuts_are_errors_or_prefixes() {
    for edit in edits() {
        let bytes = edit.encode();
        assert_eq!(VersionEdit::decode(&bytes, 0).unwrap(), edit);
        for len in 0..bytes.len() {
            match VersionEdit::decode(&bytes[..len], 100) {
                Ok(shorter) => assert_eq!(shorter.encode(), bytes[..len]),
                Err(Error::Corrupt { offset, .. }) => assert!(offset >= 100),
                Err(error) => panic!("{error}"),
            }
        }
    }
    let error = VersionEdit::decode(&[99], 0).unwrap_err();
    assert!(matches!(error, Error::Unsupported { field: Field::ManifestTag, found: 99 }), "{error}");
    // Names of extractors: empty, too long, and not UTF-8.
    for name in [vec![0], [&[101], [b'n'; 101].as_slice()].concat(), vec![1, 0xff]] {
        let error = VersionEdit::decode(&[&[9], name.as_slice()].concat(), 0).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::ManifestRecord, .. }), "{name:?}: {error}");
    }
    let twice = VersionEdit { log_number: Some(1), ..VersionEdit::default() }.encode().repeat(2);
    let error = VersionEdit::decode(&twice, 0).unwrap_err();
    assert!(matches!(error, Error::Corrupt { field: Field::ManifestRecord, offset: 2 }), "{error}");
}

#[test]
fn a_snapshot_equals_the_sum_of_all_edits() {
    let state = state_after(&edits());
    assert_eq!((state.store_id, state.hash.seed, state.log_number), ([9; 16], HashSeed(42), 5));
    assert_eq!((state.next_file_number, state.last_sequence), (u64::MAX, 77));
    let numbers: Vec<Vec<u64>> = state.levels.iter().map(|level| level.iter().map(|t| t.number).collect()).collect();
    assert_eq!(numbers, [vec![], vec![8], vec![], vec![], vec![], vec![], vec![3]]);
    assert_eq!(state_after(&[state.snapshot()]), state);
}

#[test]
fn an_impossible_edit_is_damage() {
    let with = |level: u8, table: TableMeta| VersionEdit { added: vec![(level, table)], ..VersionEdit::default() };
    let without = |level: u8, number: u64| VersionEdit { removed: vec![(level, number)], ..VersionEdit::default() };
    let swapped = TableMeta { smallest: b"b".to_vec(), largest: b"a".to_vec(), ..table(20) };
    let cases = [
        (with(7, table(20)), Field::Level),
        (with(255, table(20)), Field::Level),
        (without(7, 8), Field::Level),
        (without(0, 8), Field::FileNumber),
        (without(1, 9), Field::FileNumber),
        (with(2, table(8)), Field::FileNumber),
        (with(2, swapped), Field::Key),
        (with(2, TableMeta { smallest_sequence: 2, largest_sequence: 1, ..table(20) }), Field::LogSequence),
        (with(2, TableMeta { num_tombstones: 301, ..table(20) }), Field::ManifestRecord),
        (VersionEdit { store_id: Some([1; 16]), ..VersionEdit::default() }, Field::StoreId),
    ];
    for (edit, expected) in cases {
        let error = state_after(&edits()).apply(&edit, 55).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field, offset: 55 } if field == expected), "{edit:?}: {error}");
        let (memory, dir, mut manifest) = open();
        manifest.append(&edit).unwrap();
        for files in [None, Some(BTreeSet::from([3, 8])), Some(BTreeSet::from([3]))] {
            let error = Manifest::recover(&memory, dir, files.as_ref()).unwrap_err();
            assert!(error.is_damage() && error.to_string().starts_with("/db/MANIFEST-000001: "), "{error}");
        }
    }
}

#[test]
fn a_new_manifest_takes_over_and_overwrites_no_existing_one() {
    let (memory, dir) = written();
    let state = Manifest::recover(&memory, dir, None).unwrap().state;
    memory.create(&dir.join(CURRENT_TEMPORARY)).unwrap().write_all(b"left by a crash").unwrap();
    assert!(Manifest::create(&memory, dir, 1, &state.snapshot()).is_err());
    Manifest::create(&memory, dir, 2, &state.snapshot()).unwrap();
    assert_eq!(memory.list(dir).unwrap(), ["CURRENT", "MANIFEST-000001", "MANIFEST-000002"]);
    memory.remove(&dir.join("MANIFEST-000001")).unwrap();
    let recovered = Manifest::recover(&memory, dir, None).unwrap();
    assert_eq!((recovered.number, recovered.state), (2, state));
}

#[test]
fn an_sst_without_a_file_keeps_its_number_until_it_is_removed() {
    let (memory, dir) = written();
    // The edits add the SSTs 3, 4 and 8, and remove 4 at the end.
    for (files, missing) in [(vec![3, 8], None), (vec![3, 4, 8, 9], None), (vec![3, 4], Some(8)), (vec![8], Some(3))] {
        let files = files.into_iter().collect();
        let recovered = Manifest::recover(&memory, dir, Some(&files)).unwrap();
        assert_eq!(recovered.missing, missing, "{files:?}");
        let mut state = state_after(&edits());
        state.levels.iter_mut().for_each(|tables| tables.retain(|table| files.contains(&table.number)));
        assert_eq!(recovered.state, state, "{files:?}");
    }
    for edit in [vec![(6, 8)], vec![(1, 4)], vec![(7, 8)], vec![(1, 8), (1, 8)]] {
        let (memory, dir, mut manifest) = open();
        manifest.append(&VersionEdit { removed: edit.clone(), ..VersionEdit::default() }).unwrap();
        for files in [BTreeSet::new(), BTreeSet::from([3, 8])] {
            let error = Manifest::recover(&memory, dir, Some(&files)).unwrap_err();
            assert!(error.is_damage(), "{edit:?} {files:?} {error}");
        }
    }
}

#[test]
fn every_change_to_current_is_detected() {
    let (memory, dir) = written();
    let path = dir.join(CURRENT);
    let sound = memory.read(&path).unwrap();
    let mut changed: Vec<Vec<u8>> = (0..sound.len()).map(|len| sound[..len].to_vec()).collect();
    changed.extend((0..sound.len() * 8).map(|bit| {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    }));
    changed.extend([[&sound[..], b"\n"].concat(), vec![0; 25], current_content("000001.log").into_bytes()]);
    for bytes in changed {
        overwrite(&memory, &path, &bytes);
        let error = Manifest::recover(&memory, dir, None).unwrap_err();
        assert!(matches!(error.root(), Error::Corrupt { field: Field::CurrentFile, offset: 0 }), "{error}");
        assert!(error.to_string().starts_with("/db/CURRENT: "), "{error}");
    }
}

#[test]
fn a_damaged_manifest_is_an_error_except_for_a_torn_tail() {
    let (memory, dir) = written();
    let path = dir.join("MANIFEST-000001");
    let sound = memory.read(&path).unwrap();
    let ends: Vec<usize> = edits().iter().fold(vec![48], |mut ends, edit| {
        ends.push(ends.last().unwrap() + 24 + edit.encode().len());
        ends
    });
    assert_eq!(ends[4], sound.len());
    for len in 0..sound.len() {
        overwrite(&memory, &path, &sound[..len]);
        let recovered = Manifest::recover(&memory, dir, None);
        match ends[1..].iter().filter(|&&end| end <= len).count() {
            0 => assert!(recovered.unwrap_err().is_damage()),
            whole => {
                let recovered = recovered.unwrap();
                assert_eq!(recovered.state, state_after(&edits()[..whole]));
                assert_eq!(recovered.end.is_clean(), ends.contains(&len), "{len}");
            }
        }
    }
    for bit in 0..ends[3] * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        overwrite(&memory, &path, &bytes);
        let error = Manifest::recover(&memory, dir, None).unwrap_err();
        assert!(error.is_damage() && error.to_string().starts_with("/db/MANIFEST-000001: "), "{bit} {error}");
    }
}

#[test]
fn a_first_edit_that_is_not_a_snapshot_is_damage() {
    let (memory, dir) = store();
    Manifest::create(&memory, dir, 1, &VersionEdit { log_number: Some(1), ..VersionEdit::default() }).unwrap();
    let error = Manifest::recover(&memory, dir, None).unwrap_err();
    assert!(matches!(error.root(), Error::Corrupt { field: Field::StoreId, offset: 72 }), "{error}");
}

#[test]
fn an_edit_without_changes_is_refused_and_harms_nothing() {
    let (memory, dir, mut manifest) = open();
    assert!(matches!(manifest.append(&VersionEdit::default()).unwrap_err(), Error::InvalidArgument { .. }));
    manifest.append(&VersionEdit { log_number: Some(6), ..VersionEdit::default() }).unwrap();
    assert_eq!(Manifest::recover(&memory, dir, None).unwrap().state.log_number, 6);
}

/// Returns a store with a manifest, and the number of the storage's next operation.
fn faulty() -> (Faulty, &'static Path, Manifest, u64) {
    let (storage, dir) = (Faulty::new(), Path::new("/db"));
    storage.create_dir_all(dir).unwrap();
    storage.sync_dir(Path::new("/")).unwrap();
    let manifest = write_edits(&storage, dir);
    let next = storage.operations();
    (storage, dir, manifest, next)
}

#[test]
fn a_failed_change_of_manifests_leaves_the_old_or_the_new_one() {
    let expected = state_after(&edits());
    for (kind, failures) in [(FaultKind::Io, 10), (FaultKind::NoSpace, 9), (FaultKind::Late, 10)] {
        let mut failed = 0;
        for more in 0.. {
            let (storage, dir, _, next) = faulty();
            storage.fail(Fault { from: next + more, kind, is_lasting: true });
            let result = Manifest::create(&storage, dir, 2, &expected.snapshot());
            for crash in Crash::ALL {
                let found = Manifest::recover(&storage.after(crash, more), dir, None).unwrap();
                assert_eq!(found.state, expected, "{more} {kind:?} {crash:?}");
            }
            storage.heal();
            assert_eq!(Manifest::recover(&storage, dir, None).unwrap().state, expected, "{more}");
            match result {
                Ok(_) => break,
                Err(error) => assert!(matches!(error.root(), Error::Io(_)), "{error}"),
            }
            failed += 1;
        }
        // The first operations are create, write and sync of the manifest, a check for an old
        // `CURRENT.tmp`, and create, write and sync of `CURRENT.tmp`. Then come a sync of the
        // directory, the rename, and a second sync. On a full disk, the second sync does not fail.
        assert_eq!(failed, failures, "{kind:?}");
    }
}

#[test]
fn a_manifest_refuses_edits_after_failure_but_recovers() {
    // A write without space leaves half a record. A failed sync leaves a whole record.
    for (more, kind, expected) in [(0, FaultKind::NoSpace, 5), (1, FaultKind::Io, 66)] {
        let (storage, dir, mut manifest, next) = faulty();
        storage.fail(Fault { from: next + more, kind, is_lasting: false });
        let edit = VersionEdit { log_number: Some(66), ..VersionEdit::default() };
        assert!(matches!(manifest.append(&edit).unwrap_err().root(), Error::Io(_)));
        assert!(matches!(manifest.append(&edit).unwrap_err().root(), Error::Poisoned { .. }));
        assert_eq!(Manifest::recover(&storage, dir, None).unwrap().state.log_number, expected);
        let after = Manifest::recover(&storage.after(Crash::Dropped, 0), dir, None).unwrap();
        assert_eq!(after.state.log_number, 5);
    }
}

#[test]
fn overlapping_ssts_of_a_level_are_found_in_any_order() {
    let table = |number, smallest: &[u8], largest: &[u8]| TableMeta {
        number,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        ..TableMeta::default()
    };
    let sound = [table(1, b"m", b"p"), table(2, b"a", b"c"), table(3, b"d", b"l")];
    assert_eq!(first_overlap(sound.iter()), None);
    let shared = [table(1, b"m", b"p"), table(2, b"a", b"d"), table(3, b"d", b"l")];
    assert_eq!(first_overlap(shared.iter()).map(|table| table.number), Some(3));
}

#[test]
fn an_sst_newer_than_all_writes_is_refused() {
    let (memory, dir) = store();
    let add = VersionEdit { last_sequence: Some(77), added: vec![(0, table(3))], ..VersionEdit::default() };
    Manifest::create(&memory, dir, 1, &first_edit()).unwrap().append(&add).unwrap();
    memory.create(&dir.join("000003.sst")).unwrap();
    let options = crate::Options { storage: std::sync::Arc::new(memory), ..crate::Options::default() };
    let error = crate::Db::open(dir, options).unwrap_err();
    assert!(matches!(error.root(), Error::Corrupt { field: Field::LogSequence, .. }), "{error}");
    assert!(error.to_string().starts_with("/db/MANIFEST-000001: "), "{error}");
}
