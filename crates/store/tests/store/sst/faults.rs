//! Tests SST files on failing storage, and forged files with valid checksums.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{footer_number, seal_footer};
use filterblock_store::sstable::{FOOTER_LEN_BYTES, Table, TableOptions, TableReadOptions, TableSummary, TableWriter};
use filterblock_store::storage::faulty::{Fault, FaultKind, Faulty};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Error, Result};
use proptest::prelude::*;

const PATH: &str = "/t.sst";

fn key(i: u32) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

fn write(storage: &dyn Storage, count: u32) -> Result<TableSummary> {
    let mut writer = TableWriter::create(storage, Path::new(PATH), TableOptions::default())?;
    for i in 0..count {
        writer.add(&key(i), (i % 9 != 0).then_some([b'v'; 300].as_slice()))?;
    }
    writer.finish()
}

#[test]
fn a_failing_operation_leaves_no_partial_or_temporary_file() {
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::Interrupted] {
        for from in 0.. {
            let storage = Faulty::new();
            storage.fail(Fault { from, kind, is_lasting: false });
            let outcome = write(&storage, 3_000);
            storage.heal();
            let names = storage.list(Path::new("/")).unwrap();
            let Err(error) = outcome else {
                assert!(
                    from >= 6,
                    "expected at least six operations: create, writes, sync, rename, sync of the directory"
                );
                assert_eq!(names, ["t.sst"]);
                break;
            };
            assert!(error.to_string().contains("a fault injected by the test"), "{error}");
            match names.as_slice() {
                [] => {}
                // The rename succeeded, and the sync of the directory failed.
                [name] if name == "t.sst" => {
                    let table = Table::open(&storage, Path::new(PATH), TableReadOptions::default()).unwrap();
                    assert!(table.verify().unwrap().is_sound());
                }
                other => panic!("{:?} left these files: {other:?}", storage.struck()),
            }
        }
    }
}

#[test]
fn a_writer_refuses_all_calls_after_an_error_of_its_file() {
    let storage = Faulty::new();
    storage.fail(Fault { from: 1, kind: FaultKind::NoSpace, is_lasting: false });
    let mut writer = TableWriter::create(&storage, Path::new(PATH), TableOptions::default()).unwrap();
    let failed = (0..3_000).find(|&i| writer.add(&key(i), Some(&[0; 300])).is_err()).unwrap();
    let error = writer.add(&key(failed + 1), None).unwrap_err();
    assert!(matches!(error.root(), Error::Poisoned { .. }) && error.to_string().starts_with(PATH), "{error}");
    assert!(matches!(writer.finish().unwrap_err().root(), Error::Poisoned { .. }));
    assert!(storage.list(Path::new("/")).unwrap().is_empty());
}

/// Recomputes the checksums of index, properties and footer, as a forger would.
fn repair(bytes: &mut [u8]) {
    let footer = bytes.len() - FOOTER_LEN_BYTES;
    for (offset_at, checksum_at) in [(40, 84), (56, 88)] {
        let (offset, len) = (footer_number(bytes, offset_at), footer_number(bytes, offset_at + 8));
        let Some(part) = offset.checked_add(len).and_then(|end| bytes.get(offset..end)) else { continue };
        let checksum = crc32fast::hash(part);
        bytes[footer + checksum_at..footer + checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    seal_footer(bytes);
}

fn read_everything(bytes: &[u8]) {
    let storage = Memory::new();
    let path = PathBuf::from(PATH);
    storage.create(&path).unwrap().write_all(bytes).unwrap();
    let Ok(table) = Table::open(&storage, &path, TableReadOptions::default()) else { return };
    let table = Arc::new(table);
    for i in 0..60 {
        let _ = (table.get(&key(i)), table.find(&key(i), None, &mut Default::default()));
    }
    let _ = table.iter().take(1_000).count();
    let mut cursor = table.cursor(None);
    let _ = cursor.seek_to_last();
    for _ in 0..1_000 {
        let _ = cursor.prev();
    }
    let _ = cursor.seek(&key(7)).and_then(|()| cursor.seek_for_prev(&key(9)));
    let _ = table.verify();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn forged_parts_with_valid_checksums_cause_no_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        footer_too in any::<bool>(),
    ) {
        thread_local! {
            static SOUND: Vec<u8> = {
                let storage = Memory::new();
                write(&storage, 50).unwrap();
                storage.read(Path::new(PATH)).unwrap()
            };
        }
        let mut bytes = SOUND.with(Clone::clone);
        let footer = bytes.len() - FOOTER_LEN_BYTES;
        let from = footer_number(&bytes, 40);
        let to = if footer_too { bytes.len() - 12 } else { footer };
        for (place, byte) in edits {
            let at = from + place.index(to - from);
            bytes[at] = byte;
        }
        repair(&mut bytes);
        read_everything(&bytes);
    }
}
