//! Tests the readers of other engines' files, with any bytes and with tables that are assembled
//! from edited parts and have valid checksums.

use filterblock_foreign::{leveldb, rocksdb};
use filterblock_parquet as parquet;

use crate::Input;
use crate::bytes::Edit;

use filterblock_testkit::foreign::forge::{self, Forge, Handle, block, internal};

const MAX_KEYS: usize = 60;
const MAX_EDITS: usize = 4;

/// Opens any bytes as a file of each engine, or checks a table that the input describes. No call
/// may panic. See [`check_forged`] for the keys of the table.
pub fn foreign_table(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 4 {
        0 | 1 => check_any(input.0),
        2 => check_forged(Parts::take(&mut input), &mut input, Parts::leveldb, |bytes, keys| {
            let Ok(table) = leveldb::LevelDbTable::open(bytes) else { return None };
            Some(keys.iter().all(|key| table.may_contain(key)))
        }),
        _ => check_forged(Parts::take(&mut input), &mut input, Parts::rocksdb, |bytes, keys| {
            let Ok(table) = rocksdb::RocksDbTable::open(bytes) else { return None };
            Some(keys.iter().all(|key| table.may_contain(key)))
        }),
    }
}

const ASKED: [&[u8]; 4] = [b"", b"k00007", b"key-00000007", &[0xff; 20]];

fn check_any(bytes: &[u8]) {
    if let Ok(table) = leveldb::LevelDbTable::open(bytes) {
        let _ = (ASKED.map(|key| table.may_contain(key)), table.filters().count(), table.verify());
        // Reading all keys may return any result, but must not panic.
        let _ = table.for_each_key(|_| Ok(()));
    }
    if let Ok(table) = rocksdb::RocksDbTable::open(bytes) {
        let _ = (ASKED.map(|key| table.may_contain(key)), ASKED.map(|key| table.prefix_may_match(key)), table.verify());
        table.for_each_filter(|place| {
            assert!(table.filter(&place).is_some(), "a filter lies outside the file");
            true
        });
    }
    if let Ok(file) = parquet::ParquetFile::open(bytes) {
        let _ = file.verify();
        for chunk in file.column_chunks() {
            let answers = ASKED.map(|value| file.may_contain(chunk, value));
            assert!(
                file.filter(chunk).is_ok_and(|filter| filter.is_some()) || answers == [true; 4],
                "a filter with an error denies a value"
            );
        }
    }
}

/// The parts of a table.
#[derive(Debug, Clone)]
struct Parts {
    /// The user keys of each data block.
    keys: Vec<Vec<Vec<u8>>>,
    data: Vec<Vec<u8>>,
    data_edits: Vec<(usize, Edit)>,
    compression: Vec<u8>,
    filter_edits: Vec<Edit>,
    index_edits: Vec<Edit>,
    /// Changes of handles in the index and the partition index: the handle's number, and the
    /// numbers that are added to its offset and length.
    handle_edits: Vec<(usize, i8, i8)>,
    index_compression: u8,
    is_partitioned: bool,
}

impl Parts {
    fn take(input: &mut Input<'_>) -> Self {
        let (num_keys, per_block, how) = (input.below(MAX_KEYS), usize::from(input.byte() % 8) + 1, input.byte());
        let all: Vec<Vec<u8>> = (0..num_keys).map(|i| format!("k{:05}", i * 7).into_bytes()).collect();
        let keys: Vec<Vec<Vec<u8>>> = all.chunks(per_block).map(<[_]>::to_vec).collect();
        let mut parts = Self {
            data: keys.iter().map(|keys| entries(keys)).collect(),
            compression: vec![0; keys.len()],
            keys,
            data_edits: Vec::new(),
            filter_edits: Vec::new(),
            index_edits: Vec::new(),
            handle_edits: Vec::new(),
            index_compression: 0,
            is_partitioned: how % 2 == 1,
        };
        for _ in 0..MAX_EDITS {
            match input.byte() % 8 {
                _ if input.is_empty() => {}
                0..=2 => parts.data_edits.push((input.below(parts.data.len()), Edit::take(input))),
                3 => {
                    let at = input.below(parts.compression.len());
                    let compression = input.byte() % 10;
                    parts.compression.get_mut(at).into_iter().for_each(|found| *found = compression);
                }
                4 => parts.filter_edits.push(Edit::take(input)),
                5 => parts.index_edits.push(Edit::take(input)),
                6 => {
                    let edit = (input.below(parts.data.len()), input.byte().cast_signed(), input.byte().cast_signed());
                    parts.handle_edits.push(edit);
                }
                _ => parts.index_compression = input.byte() % 10,
            }
        }
        parts
    }

    /// Returns the keys of untouched blocks. Returns no keys if the first block is touched, or if
    /// an edit of another part may change the answers.
    fn untouched_keys(&self) -> Vec<Vec<u8>> {
        let is_touched = |at: usize| self.compression[at] != 0 || self.data_edits.iter().any(|(other, _)| *other == at);
        let is_sound = self.filter_edits.is_empty() && self.index_edits.is_empty() && self.handle_edits.is_empty();
        // The reader of LevelDB tables detects the form of keys from the first block.
        if !is_sound || self.keys.is_empty() || is_touched(0) {
            return Vec::new();
        }
        (0..self.keys.len()).filter(|&at| !is_touched(at)).flat_map(|at| self.keys[at].clone()).collect()
    }

    fn put_data(&self, forge: &mut Forge) -> Vec<Handle> {
        let mut handles = Vec::new();
        for (at, content) in self.data.iter().enumerate() {
            let mut content = content.clone();
            self.data_edits.iter().filter(|(other, _)| *other == at).for_each(|(_, edit)| edit.apply(&mut content));
            handles.push(forge.block(&content, self.compression[at]));
        }
        handles
    }

    fn put_index(&self, forge: &mut Forge, handles: &[Handle], is_internal: bool) -> Handle {
        let mut handles = handles.to_vec();
        for &(at, offset, len) in &self.handle_edits {
            if let Some(handle) = handles.get_mut(at) {
                handle.offset = handle.offset.wrapping_add_signed(offset.into());
                handle.len = handle.len.wrapping_add_signed(len.into());
            }
        }
        let last = |keys: &Vec<Vec<u8>>| {
            if is_internal { internal(&keys[keys.len() - 1], 5) } else { keys[keys.len() - 1].clone() }
        };
        let entries: Vec<_> = self.keys.iter().map(last).zip(handles.iter().map(|handle| handle.bytes())).collect();
        let mut content = block(&entries);
        self.index_edits.iter().for_each(|edit| edit.apply(&mut content));
        forge.block(&content, self.index_compression)
    }

    fn edited_filter(&self, mut filter: Vec<u8>) -> Vec<u8> {
        self.filter_edits.iter().for_each(|edit| edit.apply(&mut filter));
        filter
    }

    fn leveldb(&self) -> Vec<u8> {
        let mut forge = Forge::default();
        let handles = self.put_data(&mut forge);
        let mut builder = leveldb::LevelDbFilterBlockBuilder::new(10);
        for (keys, handle) in self.keys.iter().zip(&handles) {
            builder.start_block(handle.offset).unwrap();
            keys.iter().for_each(|key| builder.add(key));
        }
        let filter = forge.block(&self.edited_filter(builder.finish().unwrap()), 0);
        let metaindex = forge.block(&block(&[(forge::LEVELDB_FILTER, filter.bytes())]), 0);
        let index = self.put_index(&mut forge, &handles, true);
        forge.leveldb(metaindex, index)
    }

    fn rocksdb(&self) -> Vec<u8> {
        let mut forge = Forge::default();
        let handles = self.put_data(&mut forge);
        let filter = |keys: &mut dyn Iterator<Item = &Vec<u8>>| {
            let mut builder = rocksdb::RocksDbFilterBuilder::new(rocksdb::RocksDbFilterOptions::default());
            keys.for_each(|key| builder.add(key));
            builder.finish()
        };
        let (name, place) = if self.is_partitioned {
            // A filter partition for each data block. Edits change the first partition.
            let mut partitions = Vec::new();
            for (at, keys) in self.keys.iter().enumerate() {
                let partition = filter(&mut keys.iter());
                partitions.push(forge.block(&if at == 0 { self.edited_filter(partition) } else { partition }, 0));
            }
            (forge::PARTITIONED_FILTER, self.put_index(&mut forge, &partitions, false))
        } else {
            let filter = self.edited_filter(filter(&mut self.keys.iter().flatten()));
            (forge::FULL_FILTER, forge.block(&filter, 0))
        };
        let index = self.put_index(&mut forge, &handles, false);
        let metaindex = forge.rocksdb_metaindex(0, Some((name, place)));
        forge.rocksdb(5, metaindex, index)
    }
}

fn entries(keys: &[Vec<u8>]) -> Vec<u8> {
    let entries: Vec<_> = keys.iter().map(|key| (internal(key, 5), b"value")).collect();
    block(&entries)
}

/// Assembles the table, and asserts that it denies none of [`Parts::untouched_keys`]. If input is
/// left, damages the table and asserts the same again.
fn check_forged(
    parts: Parts,
    input: &mut Input<'_>,
    assemble: impl Fn(&Parts) -> Vec<u8>,
    holds_all: impl Fn(&[u8], &[Vec<u8>]) -> Option<bool>,
) {
    let mut bytes = assemble(&parts);
    let keys = parts.untouched_keys();
    assert_ne!(holds_all(&bytes, &keys), Some(false), "a key is denied: {parts:?}");
    check_any(&bytes);
    if !input.is_empty() {
        Edit::take_damage(input).apply(&mut bytes);
        assert_ne!(holds_all(&bytes, &keys), Some(false), "a key is denied after damage: {parts:?}");
        check_any(&bytes);
    }
}
