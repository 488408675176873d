//! Tests indexes over many files, with any bytes and with an index that is built, updated and then
//! damaged or edited.

use std::collections::BTreeMap;
use std::io::Cursor;

use filterblock_parquet::index::{
    Answer, DistinctHashes, FileIdentity, HEADER_LEN_BYTES, InMemory, IndexBuilder, IndexReader, KeyType, Settings,
    SourceKind, hash,
};

use crate::Input;
use crate::bytes::Edit;

const MAX_FILES: usize = 9;
const MAX_EDITS: usize = 4;

/// The files of an index and the numbers that are their keys.
type Model = BTreeMap<String, Vec<u32>>;

/// Opens any bytes as an index, or builds an index and changes its bytes. No call may panic. A
/// damaged index must fail to open, or must not deny a key of any of its files.
pub fn index_file(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 4 {
        0 => {
            let _ = check(input.0, &Model::new());
        }
        1 => {
            // Edits under valid checksums may change what the index says, so no key is checked.
            let (mut bytes, _) = built(&mut input);
            edits(&mut input, &mut bytes, Edit::take);
            repair(&mut bytes);
            let _ = check(&bytes, &Model::new());
        }
        _ => {
            let (mut bytes, model) = built(&mut input);
            assert_eq!(check(&bytes, &model), Some(0), "a sound index is refused");
            edits(&mut input, &mut bytes, Edit::take_damage);
            let _ = check(&bytes, &model);
        }
    }
}

fn key_hash(key: u32) -> u64 {
    hash(&key.to_le_bytes())
}

/// Builds an index, and updates it up to three times.
fn built(input: &mut Input<'_>) -> (Vec<u8>, Model) {
    let fpr = [0.01, 0.3, 1e-4, 0.9][usize::from(input.byte() % 4)];
    let settings = Settings { column: String::new(), logical_type: String::new(), key_type: KeyType::Bytes, fpr };
    let builder = || IndexBuilder::new(settings.clone(), Cursor::new(Vec::new())).unwrap();
    let mut model = Model::new();
    let mut first = builder();
    let new = files(input);
    add(&mut first, &new);
    let mut bytes = first.build().unwrap().bytes;
    model.extend(new);
    for _ in 0..input.byte() % 4 {
        let old = IndexReader::open(InMemory(&bytes)).unwrap();
        let removed = input.byte();
        let new = files(input);
        let path_of = |number: usize| old.files()[number].identity.path.to_str().unwrap().to_owned();
        let is_removed = |number: usize| removed >> (number % 8) & 1 == 1 || new.contains_key(&path_of(number));
        let mut next = builder();
        add(&mut next, &new);
        let gone: Vec<String> = (0..old.files().len()).filter(|&number| is_removed(number)).map(path_of).collect();
        let updated = next.build_onto(&old, is_removed).unwrap().bytes;
        gone.iter().for_each(|path| drop(model.remove(path)));
        model.extend(new);
        bytes = updated;
    }
    (bytes, model)
}

fn files(input: &mut Input<'_>) -> Model {
    let count = usize::from(input.byte()) % MAX_FILES;
    let file = |_| {
        let (name, first, keys) = (input.byte() % 16, input.number(2) as u32, u32::from(input.byte()));
        // A few files are much larger than the others.
        let keys = if keys > 250 { keys * 8 } else { keys % 64 };
        (format!("file-{name}"), (first..first + keys).collect())
    };
    (0..count).map(file).collect()
}

fn add(builder: &mut IndexBuilder<Cursor<Vec<u8>>>, files: &Model) {
    for (path, keys) in files {
        let mut hashes = DistinctHashes::new();
        keys.iter().for_each(|&key| hashes.add(key_hash(key)));
        builder.add_hashes(FileIdentity::of_path(path, SourceKind::KeyList), hashes).unwrap();
    }
}

fn edits(input: &mut Input<'_>, bytes: &mut Vec<u8>, take: fn(&mut Input<'_>) -> Edit) {
    input.steps(MAX_EDITS, |input| take(input).apply(bytes));
}

/// Writes valid checksums of the header and, if the table length is valid, of the file table.
fn repair(bytes: &mut [u8]) {
    let Some(header) = bytes.first_chunk::<HEADER_LEN_BYTES>() else { return };
    let len = u64::from_le_bytes(header[28..36].try_into().unwrap());
    let table = usize::try_from(len).ok().and_then(|len| bytes.get(HEADER_LEN_BYTES..)?.get(..len));
    if let Some(table) = table {
        let checksum = crc32fast::hash(table).to_le_bytes();
        bytes[56..60].copy_from_slice(&checksum);
    }
    let checksum = crc32fast::hash(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&checksum);
}

/// Asserts that an index denies no key of the model, and that single queries and a batch agree.
/// Returns how many queries for keys of the model met damage, or `None` if the index does not open.
fn check(bytes: &[u8], model: &Model) -> Option<u64> {
    let mut index = IndexReader::open(InMemory(bytes)).ok()?;
    assert!(!index.files().is_empty() || model.is_empty() || model.values().all(Vec::is_empty));
    let (mut buffer, mut files) = (Vec::new(), Vec::new());
    for (path, keys) in model {
        for &key in keys {
            index.candidates(key_hash(key), &mut buffer, &mut files);
            let holds = |&file: &usize| index.files()[file].identity.path.to_str() == Some(path);
            assert!(files.iter().any(holds), "{path} denies the key {key}");
        }
    }
    let damaged = index.counts().damaged;
    let hashes: Vec<u64> = (0..40).map(|key| key_hash(key * 1_000)).chain([0, u64::MAX, 1 << 32]).collect();
    index.candidates_of_many(&hashes, |position, many, answer| {
        let single = index.candidates(hashes[position], &mut buffer, &mut files);
        assert!(answer == single && many == files, "a batch and single queries give different answers");
        assert!(answer == Answer::Sound || files.len() == index.files().len(), "damage denies a key");
    });
    let mut rows = 0;
    index.verify(|_, error| rows += u64::from(error.is_some()));
    assert!(index.measure().iter().all(|rate| (0.0..=1.0).contains(rate)));
    if !index.files().is_empty() {
        index.distrust(0);
        index.candidates(7, &mut buffer, &mut files);
        assert_eq!(files.first(), Some(&0));
    }
    assert!(rows > 0 || damaged == 0);
    Some(damaged)
}
