//! Tests that damaged SST files are noticed, and that damage never makes a filter deny a present
//! key.

use super::denies;
use crate::common::{filter_range, footer_number};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use filterblock::{HashSeed, Verify};
use filterblock_store::Error;
use filterblock_store::sstable::{
    Compression, FOOTER_LEN_BYTES, Lookup, Table, TableOptions, TableReadOptions, TableWriter,
};
use filterblock_store::storage::{Memory, Storage};

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

const PATH: &str = "t.sst";

fn model(count: u32, text: &str) -> Model {
    let value = |i: u32| (i % 7 != 3).then(|| format!("{text} {i} {}", "=".repeat(i as usize % 50)).into_bytes());
    (0..count).map(|i| (format!("key{:04}", i * 3).into_bytes(), value(i))).collect()
}

fn options(compression: Compression, filter: &str) -> TableOptions {
    TableOptions {
        block_size_bytes: 200,
        restart_interval: 4,
        compression,
        filter: (!filter.is_empty()).then(|| filter.parse().unwrap()),
        hasher: HashSeed(42).into(),
        table_id: *b"the first table!",
        ..TableOptions::default()
    }
}

fn bytes_of(options: TableOptions, model: &Model) -> Vec<u8> {
    let storage = Memory::new();
    let mut writer = TableWriter::create(&storage, Path::new(PATH), options).unwrap();
    for (key, value) in model {
        writer.add(key, value.as_deref()).unwrap();
    }
    writer.finish().unwrap();
    storage.read(Path::new(PATH)).unwrap()
}

fn stored(bytes: &[u8]) -> Memory {
    let storage = Memory::new();
    storage.create(Path::new(PATH)).unwrap().write_all(bytes).unwrap();
    storage
}

fn open(bytes: &[u8], options: TableReadOptions) -> filterblock_store::Result<Arc<Table>> {
    Table::open(&stored(bytes), Path::new(PATH), options).map(Arc::new)
}

fn right(model: &Model, key: &[u8], found: &Lookup) -> bool {
    match (model.get(key), found) {
        (Some(Some(value)), Lookup::Value(found)) => value == found,
        (Some(None), Lookup::Tombstone) | (None, Lookup::NotFound) => true,
        _ => false,
    }
}

/// Gets all keys, and scans in both directions until a read of a scan fails. Asserts that every
/// answer is right. Returns whether a read failed.
fn read_all(table: &Arc<Table>, model: &Model) -> bool {
    let mut failed = false;
    let absent = model.keys().map(|key| [key.as_slice(), b"-"].concat());
    for key in model.keys().cloned().chain(absent) {
        match table.get(&key) {
            Ok(found) => assert!(right(model, &key, &found), "{key:?}: {found:?}"),
            Err(error) => failed |= is_named_damage(&error),
        }
        assert!(!model.contains_key(&key) || !denies(table, &key));
    }
    let mut wanted = model.iter();
    for entry in table.iter() {
        match entry {
            Ok((key, value)) => assert_eq!(Some((&key, &value)), wanted.next()),
            Err(error) => return is_named_damage(&error),
        }
    }
    assert_eq!(wanted.next(), None);
    let mut cursor = table.cursor(None);
    for (key, value) in model.iter().rev() {
        let moved = if cursor.valid() { cursor.prev() } else { cursor.seek_for_prev(key) };
        match moved {
            Ok(()) => assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_deref())),
            Err(error) => return is_named_damage(&error),
        }
    }
    failed
}

fn is_named_damage(error: &Error) -> bool {
    assert!(error.is_damage() && error.to_string().starts_with(PATH), "{error}");
    true
}

/// Opens and reads damaged bytes with both values of [`Verify`]. Returns whether the open or
/// `Table::verify` noticed the damage in both cases.
fn survive(bytes: &[u8], model: &Model) -> bool {
    let mut noticed = true;
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let lenient = TableReadOptions { verify, ..TableReadOptions::default() };
        match open(bytes, lenient) {
            Err(error) => noticed &= is_named_damage(&error),
            Ok(table) => {
                read_all(&table, model);
                noticed &= !table.verify().unwrap().is_sound();
            }
        }
    }
    noticed
}

fn sound_files() -> Vec<(Vec<u8>, Model)> {
    let model = model(40, "value");
    [(Compression::None, "blocked-bloom:10"), (Compression::Lz4, "bloom:10"), (Compression::None, "")]
        .map(|(compression, filter)| (bytes_of(options(compression, filter), &model), model.clone()))
        .into()
}

#[test]
fn every_flipped_bit_is_noticed_and_denies_no_key() {
    for (bytes, model) in sound_files() {
        assert!(!survive(&bytes, &model));
        // Many zeros lie before the filter. To save time, the test changes only the first 64 and
        // the last 64 of them.
        let zeros = bytes.windows(256).position(|window| window.iter().all(|&byte| byte == 0));
        let skip = zeros.map_or(0..0, |start| start + 64..4096 - 64);
        for at in (0..bytes.len()).filter(|at| !skip.contains(at)) {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(survive(&bad, &model), "bit {bit} of byte {at} of {}", bytes.len());
            }
        }
    }
}

#[test]
fn every_cut_and_every_extension_is_refused_at_open() {
    for (bytes, _) in sound_files() {
        for len in 0..bytes.len() {
            assert!(open(&bytes[..len], TableReadOptions::default()).unwrap_err().is_damage(), "{len}");
        }
        for tail in
            [vec![0], vec![0; 4096], vec![0xff; 7], bytes.clone(), bytes[bytes.len() - FOOTER_LEN_BYTES..].to_vec()]
        {
            let longer = [bytes.as_slice(), &tail].concat();
            assert!(open(&longer, TableReadOptions::default()).unwrap_err().is_damage());
        }
        // A suffix of the file is not a valid file either.
        for start in 1..bytes.len() {
            assert!(open(&bytes[start..], TableReadOptions::default()).unwrap_err().is_damage());
        }
    }
    assert!(open(&[0; 8192], TableReadOptions::default()).is_err());
}

/// Returns `to` with the filter of `from`, which has the same length.
fn with_filter_of(to: &[u8], from: &[u8]) -> Vec<u8> {
    let range = filter_range(to);
    let mut mixed = to.to_vec();
    mixed[range.clone()].copy_from_slice(&from[range]);
    assert_ne!(mixed, to);
    mixed
}

#[test]
fn a_filter_of_another_table_or_an_older_file_is_noticed() {
    let ours = model(40, "value");
    let theirs: Model = (0..40).map(|i| (format!("abc{i:04}").into_bytes(), None)).collect();
    let own = options(Compression::None, "bloom:10");
    let bytes = bytes_of(own.clone(), &ours);
    let other_table = bytes_of(TableOptions { table_id: *b"another table...", ..own.clone() }, &theirs);
    let older = bytes_of(own, &theirs);
    for foreign in [other_table, older] {
        let mixed = with_filter_of(&bytes, &foreign);
        for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
            let lenient = TableReadOptions { verify, ..TableReadOptions::default() };
            let table = open(&mixed, lenient.clone()).unwrap();
            assert!(reason(&table).unwrap().is_damage());
            assert!(!read_all(&table, &ours), "a read without the filter failed");
            assert!(!table.verify().unwrap().is_sound());
            let error = open(&mixed, TableReadOptions { strict: true, ..lenient }).unwrap_err();
            assert!(is_named_damage(&error));
        }
    }
}

/// Returns the reason why the filter is not used.
fn reason(table: &Table) -> Option<&Error> {
    table.filter().reason().and_then(|error| error.downcast_ref())
}

#[test]
fn a_damaged_index_is_an_error_with_file_field_and_offset() {
    let (bytes, _) = sound_files().remove(2);
    let index_at = footer_number(&bytes, 40);
    let mut bad = bytes.clone();
    bad[index_at + 5] ^= 1;
    let table = open(&bad, TableReadOptions::default()).unwrap();
    for _ in 0..2 {
        let error = table.get(b"key0003").unwrap_err();
        let expected_start = format!("{PATH}: damaged: wrong checksum of index block at offset {index_at}");
        assert!(error.to_string().starts_with(&expected_start), "{error}");
    }
}
