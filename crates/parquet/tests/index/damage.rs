//! Tests that damage of an index never makes it deny a key that it holds.

use std::io;

use filterblock_parquet::index::{Answer, InMemory, IndexReader, ReadAt};

use crate::support::{ask, builder, distinct, hash_of, identity, index_of, open};

const FILES: u64 = 3;
const KEYS: u64 = 40;

/// Asserts that `bytes` do not open as an index, or that the index never denies a key. File `i` has
/// `KEYS` keys from `i * KEYS` on. Returns whether the index opened, and the number of keys whose
/// row was damaged.
fn denies_nothing(bytes: &[u8], context: impl std::fmt::Display) -> (bool, u64) {
    let Ok(index) = IndexReader::open(InMemory(bytes)) else { return (false, 0) };
    let (mut buffer, mut files) = (Vec::new(), Vec::new());
    for key in 0..FILES * KEYS {
        index.candidates(hash_of(key), &mut buffer, &mut files);
        let path = format!("file-{:05}", key / KEYS);
        let holds = |&file: &usize| index.files()[file].identity.path.to_str() == Some(path.as_str());
        assert!(files.iter().any(holds), "{context}: the key {key} is denied");
    }
    (true, index.counts().damaged)
}

#[test]
fn no_damaged_byte_denies_a_key() {
    let sound = index_of(FILES, KEYS, 0.01).bytes;
    assert_eq!(denies_nothing(&sound, "sound"), (true, 0));
    let rows_offset = sound.len() - open(&sound).rows() as usize * (32 * FILES as usize + 4);
    for at in 0..sound.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = sound.clone();
            bytes[at] ^= change;
            let (opened, damaged) = denies_nothing(&bytes, format_args!("byte {at} xor {change}"));
            // Opening detects damage of the header and of the file table. A query detects damage of
            // its row.
            assert_eq!(opened, at >= rows_offset, "byte {at}");
            if opened {
                let mut rows = Vec::new();
                open(&bytes).verify(|row, error| rows.extend(error.map(|_| row)));
                let row = (at - rows_offset) / (32 * FILES as usize + 4);
                assert_eq!(rows, [row as u32], "byte {at}");
                assert!(damaged < FILES * KEYS, "damage of one row reaches all keys");
            }
        }
    }
}

#[test]
fn rows_that_changed_places_deny_no_key() {
    let sound = index_of(FILES, KEYS, 0.01).bytes;
    let (rows, len) = (open(&sound).rows() as usize, 32 * FILES as usize + 4);
    let first = sound.len() - rows * len;
    for one in 0..rows {
        for other in 0..one {
            let mut bytes = sound.clone();
            let (a, b) = (first + one * len, first + other * len);
            bytes.copy_within(b..b + len, a);
            bytes[b..b + len].copy_from_slice(&sound[a..a + len]);
            let (opened, damaged) = denies_nothing(&bytes, format_args!("rows {one} and {other}"));
            assert!(opened && damaged > 0);
        }
    }
}

#[test]
fn torn_and_mixed_updates_deny_no_key() {
    // The old index has two of the files. The update adds the third.
    let old = index_of(FILES - 1, KEYS, 0.01).bytes;
    let mut more = builder(0.01);
    more.add_hashes(identity("file-00002"), distinct((FILES - 1) * KEYS..FILES * KEYS)).unwrap();
    let new = more.build_onto(&open(&old), |_| false).unwrap().bytes;
    assert_eq!(denies_nothing(&new, "new"), (true, 0));
    for cut in 0..new.len() {
        // After a crash, an unsynced file may lack its end, or have zeros or old bytes there.
        assert!(!denies_nothing(&new[..cut], format_args!("cut at {cut}")).0);
        let mut zeros = new.clone();
        zeros[cut..].fill(0);
        denies_nothing(&zeros, format_args!("zeros from {cut}"));
        let mut mixed = new.clone();
        let end = old.len().min(new.len());
        if cut < end {
            mixed[cut..end].copy_from_slice(&old[cut..end]);
        }
        denies_nothing(&mixed, format_args!("old bytes from {cut}"));
        let mut front = new.clone();
        front[..cut.min(end)].copy_from_slice(&old[..cut.min(end)]);
        if let Ok(index) = IndexReader::open(InMemory(&front)) {
            assert!(index.files().len() == 2 || index.files().len() == 3, "old bytes up to {cut}");
        }
    }
}

#[test]
fn rows_of_an_older_generation_deny_no_key() {
    // The file is replaced: the same path and stamp, but other keys.
    let mut first = builder(0.01);
    first.add_hashes(identity("file-00000"), distinct(1_000..1_000 + KEYS)).unwrap();
    let old = first.build().unwrap().bytes;
    let mut second = builder(0.01);
    second.add_hashes(identity("file-00000"), distinct(0..KEYS)).unwrap();
    let new = second.build_onto(&open(&old), |_| true).unwrap().bytes;
    assert_eq!(old.len(), new.len());
    let len = 32 + 4;
    let first_row = new.len() - open(&new).rows() as usize * len;
    for row in (first_row..new.len()).step_by(len) {
        let mut bytes = new.clone();
        bytes[row..row + len].copy_from_slice(&old[row..row + len]);
        let index = open(&bytes);
        let (mut buffer, mut files) = (Vec::new(), Vec::new());
        for key in 0..KEYS {
            index.candidates(hash_of(key), &mut buffer, &mut files);
            assert_eq!(files, [0], "the key {key} is denied");
        }
    }
}

/// A reader that fails at and after an offset.
struct Failing<'a>(&'a [u8], u64);

impl ReadAt for Failing<'_> {
    fn read_at<'a>(&'a self, offset: u64, len: usize, _: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if offset >= self.1 {
            return Err(io::Error::other("a failing disk"));
        }
        Ok(&self.0[offset as usize..offset as usize + len])
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[test]
fn unreadable_rows_make_all_files_candidates() {
    let bytes = index_of(FILES, KEYS, 0.01).bytes;
    let row_len = 32 * FILES as usize + 4;
    let rows_offset = bytes.len() - open(&bytes).rows() as usize * row_len;
    let index = IndexReader::open(Failing(&bytes, rows_offset as u64)).unwrap();
    let (mut buffer, mut files) = (Vec::new(), Vec::new());
    for key in 0..100 {
        assert_eq!(index.candidates(hash_of(key), &mut buffer, &mut files), Answer::Degraded);
        assert_eq!(files, [0, 1, 2]);
    }
    let counts = index.counts();
    assert_eq!((counts.unreadable, counts.damaged), (100, 0));
    assert!(IndexReader::open(Failing(&bytes, 0)).is_err());
}

#[test]
fn a_damaged_index_is_not_updated() {
    let mut bytes = index_of(FILES, KEYS, 0.01).bytes;
    *bytes.last_mut().unwrap() ^= 1;
    let error = builder(0.01).build_onto(&open(&bytes), |_| false).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("row"), "{error}");
}

#[test]
fn a_refused_filter_is_named_and_its_file_stays_addable() {
    let sound = [0xff; 32];
    let mut torn = sound;
    torn[..4].fill(0);
    let mut builder = builder(0.01);
    for (damaged, fault) in [(&torn[..], "damaged: block 0"), (&sound[..31], "31 bytes long, not one")] {
        let refused = builder.add_filters(identity("file"), 80, &[&sound, damaged]).unwrap_err().to_string();
        assert!(refused.contains(&format!("number 2 of 2 is {fault}")), "{refused}");
    }
    builder.add_hashes(identity("file"), distinct(0..KEYS)).unwrap();
    assert!(builder.add_hashes(identity("file"), distinct(0..KEYS)).unwrap_err().to_string().contains("given twice"));
    assert_eq!(ask(&open(&builder.build().unwrap().bytes), 7), [0]);
}
