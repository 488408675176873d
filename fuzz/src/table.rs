//! Tests SST files, with any bytes and with sound files whose parts are changed and whose checksums
//! are repaired.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use filterblock::{HashSeed, KeyHasher, Verify};
use filterblock_store::Error;
use filterblock_store::sstable::{
    BlockCache, BlockReads, Compression, Lookup, Table, TableFilter, TableOptions, TableReadOptions, TableWriter,
};
use filterblock_store::storage::{Memory, Storage};

use crate::Input;
use crate::bytes::Edit;
use crate::table_parts::{Forged, Parts};
use filterblock_testkit::blocks::{SEED, TABLE};

const PATH: &str = "/table.sst";
const MAX_KEYS: usize = 160;
const MAX_EDITS: usize = 6;

/// The maximum number of entries of a walk. An index may name one block many times, so a full walk
/// may take time quadratic in the file's length.
const MAX_STEPS: usize = 4_000;

type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
type Entry = (Vec<u8>, Option<Vec<u8>>);

/// Opens any bytes as an SST file, or builds an SST file that the input describes and edits. See
/// [`check_any`] and [`check_keys`].
pub fn table(data: &[u8]) {
    let mut input = Input(data);
    if input.byte().is_multiple_of(4) {
        check_any(input.0);
        return;
    }
    let entries = entries(&mut input);
    let sound = write(&entries, &mut input);
    let mut parts = Parts::of(&sound);
    assert_eq!(parts.assemble(), sound, "the file does not follow docs/STORE_FORMAT.md");
    let blocks: BTreeMap<&[u8], Option<Vec<u8>>> =
        entries.keys().map(|key| (key.as_slice(), parts.block_of(key))).collect();
    let mut damage = Vec::new();
    for _ in 0..MAX_EDITS {
        match input.byte() {
            _ if input.is_empty() => {}
            byte if byte % 4 == 3 => damage.push(Edit::take_damage(&mut input)),
            _ => parts.forge(&mut input),
        }
    }
    let mut file = parts.assemble();
    damage.iter().for_each(|edit| edit.apply(&mut file));
    check_any(&file);
    check_keys(&file, &entries, &parts.forged, |key| blocks.get(key).cloned().flatten());
}

fn entries(input: &mut Input<'_>) -> Entries {
    let (counted, shape, value_len) = (input.below(MAX_KEYS), input.byte(), usize::from(input.byte()));
    let prefix = "p".repeat(usize::from(shape % 40));
    let mut entries: Entries = (0..counted)
        .map(|i| {
            let value = vec![i as u8; (i * 37) % (value_len + 1)];
            (format!("{prefix}{:03}", i * 3).into_bytes(), (i % 7 != usize::from(shape / 40)).then_some(value))
        })
        .collect();
    for _ in 0..input.byte() % 8 {
        let len = usize::from(input.byte() % 20);
        entries.insert(input.take(len).to_vec(), (len % 5 != 1).then(|| vec![b'v'; len]));
    }
    entries
}

fn write(entries: &Entries, input: &mut Input<'_>) -> Vec<u8> {
    let (storage, how) = (Memory::new(), input.byte());
    let options = TableOptions {
        block_size_bytes: 32 << (how % 6),
        restart_interval: 1 + usize::from(how / 6 % 5) * 4,
        compression: if how < 128 { Compression::None } else { Compression::Lz4 },
        filter: (!how.is_multiple_of(11)).then(|| input.spec()),
        hasher: KeyHasher::xxh3(SEED),
        table_id: TABLE,
        ..TableOptions::default()
    };
    let mut writer = TableWriter::create(&storage, Path::new(PATH), options).unwrap();
    entries.iter().for_each(|(key, value)| writer.add(key, value.as_deref()).unwrap());
    writer.finish().unwrap();
    storage.read(Path::new(PATH)).unwrap()
}

fn storage_of(file: &[u8]) -> Memory {
    let storage = Memory::new();
    storage.create(Path::new(PATH)).unwrap().write_all(file).unwrap();
    storage
}

fn open(storage: &Memory, verify: Verify, strict: bool, hasher: Option<KeyHasher>) -> Option<Arc<Table>> {
    let options = TableReadOptions { verify, strict, hasher, ..TableReadOptions::default() };
    ok(Table::open(storage, Path::new(PATH), options)).map(Arc::new)
}

/// Asserts that an error names the file, and is damage, an unsupported version or feature, or a
/// missing or wrong secret. Returns the value, or `None` after an error.
fn ok<T>(result: filterblock_store::Result<T>) -> Option<T> {
    let error = result.as_ref().err();
    let is_fine = error.is_none_or(|error| {
        (error.is_damage() || error.is_unsupported() || error.is_secret_mismatch())
            && matches!(error, Error::InFile { path, .. } if path == Path::new(PATH))
    });
    assert!(is_fine, "{error:?}");
    result.ok()
}

/// Checks an SST file of any bytes. The file must open with both ways of verification, or with
/// neither. If `verify` finds the file sound, walks in both directions must give the same entries
/// in order, and a search for each key must find its entry. Files with more than [`MAX_STEPS`]
/// entries are not compared.
fn check_any(file: &[u8]) {
    let storage = storage_of(file);
    let [checked, lazy] = [Verify::AtOpen, Verify::OnFirstTouch].map(|verify| open(&storage, verify, false, None));
    assert_eq!(checked.is_some(), lazy.is_some(), "AtOpen and OnFirstTouch differ");
    if let Some(strict) = open(&storage, Verify::AtOpen, true, None) {
        assert!(!matches!(strict.filter(), TableFilter::Degraded(_)), "a strict reader accepts a damaged filter");
    }
    // With the hasher of another store, the filter cannot be used.
    let other = open(&storage, Verify::OnFirstTouch, false, Some(KeyHasher::xxh3(HashSeed(77))));
    for table in [checked, lazy, other].into_iter().flatten() {
        let forward = walk(&table, false);
        let mut backward = walk(&table, true);
        for key in [b"".as_slice(), b"p", b"key-1", &[0xff; 70], table.smallest(), table.largest()] {
            let _ = (ok(table.get(key)), denies(&table, key));
            let mut cursor = table.cursor(None);
            let _ = (ok(cursor.seek(key)), cursor.value().is_some(), ok(cursor.prev()), ok(cursor.next()));
            let _ = (ok(cursor.seek_for_prev(key)), cursor.key().len(), ok(cursor.next()));
        }
        let check = table.verify().unwrap();
        let is_sound = check.is_sound();
        check.damage.into_iter().for_each(|error| assert!(ok::<()>(Err(error)).is_none()));
        let (true, Some(forward)) = (is_sound, &forward) else {
            assert!(!is_sound || check.entries as usize >= MAX_STEPS, "a sound file cannot be read");
            continue;
        };
        if let Some(backward) = &mut backward {
            backward.reverse();
            assert_eq!(backward, forward, "the two directions differ");
        }
        assert!(forward.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        assert_eq!(forward.len() as u64, check.entries);
        assert_eq!((table.properties().num_entries, backward.is_some()), (check.entries, true));
        for (key, value) in forward {
            assert_eq!(&table.get(key).unwrap(), &lookup(value), "{key:?}");
            let mut cursor = table.cursor(None);
            cursor.seek(key).unwrap();
            assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_deref()));
            cursor.seek_for_prev(key).unwrap();
            assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_deref()));
        }
    }
}

fn lookup(value: &Option<Vec<u8>>) -> Lookup {
    value.as_ref().map_or(Lookup::Tombstone, |value| Lookup::Value(value.clone()))
}

/// Returns all entries. Returns `None` after an error, or if there are more than [`MAX_STEPS`]
/// entries.
fn walk(table: &Arc<Table>, backward: bool) -> Option<Vec<Entry>> {
    let mut cursor = table.cursor(None);
    let mut entries = Vec::new();
    ok(if backward { cursor.seek_to_last() } else { cursor.seek_to_first() })?;
    while cursor.valid() && entries.len() < MAX_STEPS {
        entries.push((cursor.key().to_vec(), cursor.value().map(<[u8]>::to_vec)));
        ok(if backward { cursor.prev() } else { cursor.next() })?;
    }
    (!cursor.valid()).then_some(entries)
}

/// Checks a file with known entries. For any damage, each entry must be found or give an error. The
/// only exceptions are forged parts, whose checksums are valid:
/// * An entry of a forged data block may be missing or have any value. If the index is forged, too,
///   this applies to all entries.
/// * With a forged index, entries may be missing.
/// * A forged key range in the properties, or a forged filter, may deny a key. `find` asks neither
///   of the two.
///
/// A filter that was only damaged denies no key.
fn check_keys(file: &[u8], entries: &Entries, forged: &Forged, block_of: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let storage = storage_of(file);
    let cache = BlockCache::new(1 << 14);
    for (verify, cache) in [(Verify::AtOpen, None), (Verify::OnFirstTouch, Some(&cache))] {
        let Some(table) = open(&storage, verify, false, Some(KeyHasher::xxh3(SEED))) else { continue };
        for (key, value) in entries {
            // With a forged index, a search for any key may end in a forged block.
            let in_forged_block = forged.index && !forged.blocks.is_empty()
                || block_of(key).is_some_and(|block| forged.blocks.contains(&block));
            let is_right = |found: &Lookup, may_be_missing: bool| {
                in_forged_block || *found == lookup(value) || may_be_missing && *found == Lookup::NotFound
            };
            let found = ok(table.find(key, cache, &mut BlockReads::default()));
            assert!(found.is_none_or(|found| is_right(&found, forged.index)), "find({key:?}) is wrong, {forged:?}");
            let got = ok(table.get(key));
            let may_be_missing = forged.index || forged.filter || forged.properties;
            assert!(got.is_none_or(|got| is_right(&got, may_be_missing)), "get({key:?}) is wrong, {forged:?}");
            let is_denied = denies(&table, key);
            assert!(!is_denied || forged.filter, "the filter denies {key:?}, {forged:?}");
        }
    }
}

/// Returns whether the filter of the SST denies the key.
fn denies(table: &Table, key: &[u8]) -> bool {
    table.filter().ready().is_some_and(|filter| !filter.may_contain(filter.hasher().key(key)))
}
