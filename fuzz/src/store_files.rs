//! Builds the files of a store: the manifest, `CURRENT` and the logs by docs/STORE_FORMAT.md alone,
//! and the SSTs with the store's writer. Repairs the checksums of manifests and logs after an edit.

use std::collections::BTreeMap;
use std::path::Path;

use filterblock::{HashSeed, KeyHasher};
use filterblock_store::sstable::{TableOptions, TableSummary, TableWriter};
use filterblock_store::storage::{Memory, Storage};

use crate::bytes::{put_bytes, put_varint};

/// The id of the stores that this module builds.
pub const STORE_ID: [u8; 16] = *b"a store to fuzz.";
/// The hash seed of the stores that this module builds.
pub const HASH_SEED: u64 = 7;
const HEADER_LEN: usize = 48;
const RECORD_HEADER_LEN: usize = 24;

/// The names and contents of files.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A key and its value, or a tombstone (`None`).
pub type Write = (Vec<u8>, Option<Vec<u8>>);

/// A log or manifest under construction.
pub struct Log {
    /// The bytes of the file so far.
    pub bytes: Vec<u8>,
    /// Whether each record states that all records before it were durable.
    pub is_synced: bool,
}

impl Log {
    /// Creates a file without records.
    pub fn new(magic: &[u8; 8], number: u64, store_id: [u8; 16], first_sequence: u64, is_synced: bool) -> Self {
        let mut bytes = magic.to_vec();
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&store_id);
        bytes.extend_from_slice(&first_sequence.to_le_bytes());
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Self { bytes, is_synced }
    }

    /// Appends a record.
    pub fn append(&mut self, sequence: u64, payload: &[u8]) {
        let synced = if self.is_synced { self.bytes.len() as u64 } else { HEADER_LEN as u64 };
        append_record(&mut self.bytes, sequence, synced, payload);
    }
}

/// Appends a record to a log or manifest. The record is valid only if the file has a complete
/// header.
pub fn append_record(log: &mut Vec<u8>, sequence: u64, synced: u64, payload: &[u8]) {
    let mut header = (payload.len() as u32).to_le_bytes().to_vec();
    header.extend_from_slice(&sequence.to_le_bytes());
    header.extend_from_slice(&synced.to_le_bytes());
    let id = log.get(..36).unwrap_or_default();
    let checksum = crc32fast::hash(&[id, &header, payload].concat());
    header.extend_from_slice(&checksum.to_le_bytes());
    log.extend_from_slice(&header);
    log.extend_from_slice(payload);
}

/// Repairs the checksum of the header, and the checksums of all records that the record lengths
/// lead to.
pub fn repair_log(log: &mut [u8]) {
    if log.len() < HEADER_LEN {
        return;
    }
    let checksum = crc32fast::hash(&log[..44]);
    log[44..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    let mut at = HEADER_LEN;
    while let Some(header) = log.get(at..at + RECORD_HEADER_LEN) {
        let len = u32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
        let Some(payload) = log.get(at + RECORD_HEADER_LEN..at + RECORD_HEADER_LEN + len) else { return };
        let checksum = crc32fast::hash(&[&log[..36], &header[..20], payload].concat());
        log[at + 20..at + RECORD_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
        at += RECORD_HEADER_LEN + len;
    }
}

/// Returns the content of `CURRENT`: a line and its checksum.
pub fn current(line: &[u8]) -> Vec<u8> {
    let line = [line, b"\n"].concat();
    let checksum = format!("{:08x}\n", crc32fast::hash(&line));
    [line, checksum.into_bytes()].concat()
}

/// Returns the payload of a log record.
pub fn batch(writes: &[Write]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in writes {
        out.push(if value.is_some() { 1 } else { 2 });
        put_bytes(&mut out, key);
        if let Some(value) = value {
            put_bytes(&mut out, value);
        }
    }
    out
}

/// Returns the fields at the start of a manifest's first edit.
pub fn first_edit() -> Vec<u8> {
    [&[1], STORE_ID.as_slice(), &[2], &HASH_SEED.to_le_bytes()].concat()
}

/// Appends three numbers to an edit: the number of the oldest log, the next file number, and the
/// last sequence number in SST files.
pub fn put_numbers(edit: &mut Vec<u8>, log_number: u64, next_file_number: u64, last_sequence: u64) {
    for (tag, number) in [(3, log_number), (4, next_file_number), (5, last_sequence)] {
        put_varint(edit, tag);
        put_varint(edit, number);
    }
}

/// Appends a field to an edit. The field adds an SST file to the store.
pub fn put_added_table(edit: &mut Vec<u8>, level: u8, number: u64, table: &TableSummary, sequences: (u64, u64)) {
    put_varint(edit, 6);
    edit.push(level);
    [number, table.len_bytes, table.num_entries, table.num_tombstones].iter().for_each(|&n| put_varint(edit, n));
    put_bytes(edit, &table.smallest);
    put_bytes(edit, &table.largest);
    put_varint(edit, sequences.0);
    put_varint(edit, sequences.1);
}

/// Builds the SST that a store would write for some entries.
pub fn table_of(number: u64, entries: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> (TableSummary, Vec<u8>) {
    let (storage, path) = (Memory::new(), Path::new("/table.sst"));
    let mut table_id = STORE_ID;
    table_id[8..].copy_from_slice(&number.to_le_bytes());
    let options = TableOptions {
        block_size_bytes: 256,
        hasher: KeyHasher::xxh3(HashSeed(HASH_SEED)),
        table_id,
        ..TableOptions::default()
    };
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    entries.iter().for_each(|(key, value)| writer.add(key, value.as_deref()).unwrap());
    (writer.finish().unwrap(), storage.read(path).unwrap())
}

/// Returns a file system with these files in `dir`.
pub fn storage_of(files: &Files, dir: &str) -> Memory {
    let storage = Memory::new();
    storage.create_dir_all(Path::new(dir)).unwrap();
    for (name, bytes) in files {
        storage.create(&Path::new(dir).join(name)).unwrap().write_all(bytes).unwrap();
    }
    storage
}
