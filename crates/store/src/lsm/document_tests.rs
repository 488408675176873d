//! Compares docs/STORE_FORMAT.md with the code, except for SST files.

use std::path::Path;

use super::files::{FileName, parse};
use super::manifest::edit::{MAX_NUMBER, NUM_LEVELS, TableMeta, VersionEdit};
use super::wal::batch::{MAX_BATCH_LEN_BYTES, MAX_BATCH_WRITES, MAX_KEY_LEN_BYTES, MAX_VALUE_LEN_BYTES, WriteBatch};
use super::wal::{HEADER_LEN_BYTES, LOG_VERSION, LogId, LogKind, LogWriter, RECORD_HEADER_LEN_BYTES};
use crate::codec::{put_bytes, put_u32, put_varint, u64_bytes};
use crate::storage::{Memory, Storage};
use filterblock::{Fingerprint, HashKind};

const DOCUMENT: &str = include_str!("../../../../docs/STORE_FORMAT.md");

/// Returns the body rows of the table in `section` that has the header row `header`.
fn table(section: &str, header: &str) -> Vec<Vec<&'static str>> {
    let start =
        DOCUMENT.find(&format!("# {section}\n")).unwrap_or_else(|| panic!("the document has no section {section}"));
    let lines = DOCUMENT[start..].lines().skip_while(|line| *line != header).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn u32_bytes(number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_u32(&mut bytes, number);
    bytes
}

const LAYOUT: &str = "| Offset | Size | Field | Meaning |";

/// Checks that the documented fields are contiguous, and that each has the name and the content in
/// `expected`.
fn assert_layout(section: &str, bytes: &[u8], expected: &[(&str, Vec<u8>)]) {
    let rows = table(section, LAYOUT);
    assert_eq!(rows.len(), expected.len(), "{section}");
    let mut at = 0;
    for (row, (name, content)) in rows.iter().zip(expected) {
        assert_eq!((row[0], row[2]), (at.to_string().as_str(), *name), "{section}");
        if let Ok(size) = row[1].parse::<usize>() {
            assert_eq!(size, content.len(), "{section}: {name}");
        }
        assert_eq!(bytes[at..at + content.len()], *content, "{section}: {name}");
        at += content.len();
    }
    assert_eq!(at, bytes.len(), "{section}");
}

fn log_of(id: LogId) -> Vec<u8> {
    let (memory, path) = (Memory::new(), Path::new("log"));
    let mut log = LogWriter::create(&memory, path, id, 0x1112_1314_1516_1718).unwrap();
    // Sync first, so that the synced length in the record is not 0.
    log.sync().unwrap();
    log.append(0x1112_1314_1516_1718, &[b"payload"]).unwrap();
    log.flush().unwrap();
    memory.read(path).unwrap()
}

#[test]
fn logs_match_the_document() {
    for kind in [LogKind::WriteAhead, LogKind::Manifest] {
        let id = LogId { kind, store_id: *b"0123456789abcdef", number: 0x0102_0304_0506_0708 };
        let log = log_of(id);
        let (header, record) = log.split_at(HEADER_LEN_BYTES);
        let sequence = u64_bytes(0x1112_1314_1516_1718).to_vec();
        let checksum = |parts: &[&[u8]]| u32_bytes(crc32fast::hash(&parts.concat()));
        let fields = [
            ("magic", kind.magic().to_vec()),
            ("format version", u32_bytes(1)),
            ("file number", u64_bytes(id.number).to_vec()),
            ("store id", id.store_id.to_vec()),
            ("first sequence number", sequence.clone()),
            ("checksum", checksum(&[&header[..44]])),
        ];
        assert_layout("Log header", header, &fields);
        let magic = String::from_utf8(kind.magic().to_vec()).unwrap().escape_default().to_string();
        assert!(table("Log header", LAYOUT)[0][3].contains(&format!("`{magic}`")));

        let fields = [
            ("payload length", u32_bytes(7)),
            ("sequence number", sequence),
            ("synced length", u64_bytes(48).to_vec()),
            ("checksum", checksum(&[&header[..36], &record[..20], b"payload"])),
            ("payload", b"payload".to_vec()),
        ];
        assert_layout("Log record", record, &fields);
    }
    assert_eq!(table("Log header", LAYOUT)[1][3], LOG_VERSION.to_string());
    assert!(DOCUMENT.contains(&format!("| header ({HEADER_LEN_BYTES}) | record: {RECORD_HEADER_LEN_BYTES} + payload")));
}

#[test]
fn batches_match_the_document() {
    let fields: Vec<_> =
        table("Write batch", "| Field | Size | Meaning |").iter().map(|row| (row[0], row[1])).collect();
    let documented = [
        ("operation", "1"),
        ("key length", "varint"),
        ("key", "key length"),
        ("value length", "varint"),
        ("value", "value length"),
    ];
    assert_eq!(fields, documented);
    assert!(DOCUMENT.contains("| 1: put, 2: delete; anything else is an error |"));
    let mut batch = WriteBatch::new();
    batch.put(b"key", &[b'v'; 200]).unwrap();
    batch.delete(b"gone").unwrap();
    let expected = [b"\x01\x03key\xc8\x01".as_slice(), &[b'v'; 200], b"\x02\x04gone"].concat();
    assert_eq!(batch.encoded(), expected);
}

#[test]
fn version_edits_match_the_document() {
    let meta = TableMeta {
        number: 301,
        len_bytes: 302,
        num_entries: 303,
        num_tombstones: 304,
        smallest: b"small".to_vec(),
        largest: b"large".to_vec(),
        smallest_sequence: 305,
        largest_sequence: 306,
    };
    let none = VersionEdit::default;
    let fingerprint = Fingerprint::from_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
    let edits = [
        ("store id", VersionEdit { store_id: Some([5; 16]), ..none() }),
        ("hash seed", VersionEdit { hash_seed: Some(300), ..none() }),
        ("log number", VersionEdit { log_number: Some(300), ..none() }),
        ("next file number", VersionEdit { next_file_number: Some(300), ..none() }),
        ("last sequence number", VersionEdit { last_sequence: Some(300), ..none() }),
        ("added table", VersionEdit { added: vec![(6, meta.clone())], ..none() }),
        ("removed table", VersionEdit { removed: vec![(6, 300)], ..none() }),
        ("keyed hash", VersionEdit { keyed_hash: Some((HashKind::SipHash13, fingerprint)), ..none() }),
        ("prefix extractor", VersionEdit { prefix_extractor: Some("fixed:8".to_owned()), ..none() }),
    ];
    let mut number = Vec::new();
    put_varint(&mut number, 300);
    let mut added = vec![6];
    [301, 302, 303, 304].into_iter().for_each(|number| put_varint(&mut added, number));
    put_bytes(&mut added, b"small");
    put_bytes(&mut added, b"large");
    [305, 306].into_iter().for_each(|number| put_varint(&mut added, number));
    let values = [
        vec![5; 16],
        u64_bytes(300).to_vec(),
        number.clone(),
        number.clone(),
        number.clone(),
        added,
        [&[6], number.as_slice()].concat(),
        vec![3, 1, 2, 3, 4, 5, 6, 7, 8],
        [&[7], b"fixed:8".as_slice()].concat(),
    ];
    let rows = table("Version edit", "| Tag (varint) | Field | Value |");
    assert_eq!(rows.len(), edits.len());
    for ((row, (name, edit)), value) in rows.iter().zip(edits).zip(values) {
        assert_eq!(row[1], name);
        let tag: u8 = row[0].parse().unwrap();
        assert_eq!(edit.encode(), [&[tag], value.as_slice()].concat(), "{name}");
    }
    let fields: Vec<_> = table("Version edit", "| Field of a table | Size |").iter().map(|row| row[0]).collect();
    let documented = [
        "file number, file length, entries, tombstones",
        "smallest key, largest key",
        "smallest sequence number, largest sequence number",
    ];
    assert_eq!(fields, documented);
}

#[test]
fn file_names_match_the_document() {
    let documented: Vec<&str> = table("Directory", "| Name | Holds |").iter().map(|row| row[0]).collect();
    let files = [
        ("`NNNNNN.sst`", FileName::Table(42)),
        ("`NNNNNN.log`", FileName::Log(42)),
        ("`MANIFEST-NNNNNN`", FileName::Manifest(42)),
        ("`CURRENT`", FileName::Current),
        ("`LOCK`", FileName::Lock),
        ("`NNNNNN.sst.tmp`, `CURRENT.tmp`", FileName::Temporary),
    ];
    assert_eq!(documented, files.map(|(name, _)| name));
    for (names, file) in files {
        for name in names.split(", ") {
            assert_eq!(parse(&name.trim_matches('`').replace("NNNNNN", "000042")), Some(file), "{name}");
        }
    }
    // An SST that was set aside no longer belongs to the store.
    assert!(DOCUMENT.contains("`unnamed-NNNNNN.sst`"));
    assert_eq!(parse("unnamed-000042.sst"), None);
}

#[test]
fn limits_match_the_document() {
    let rows = table("Limits", "| What | Limit |");
    let number = |text: &str| text.trim_end_matches(" bytes").replace(',', "").parse::<u64>().unwrap();
    let documented: Vec<_> = rows.iter().map(|row| (row[0], number(row[1]))).collect();
    let expected = [
        ("levels", NUM_LEVELS as u64),
        ("length of a key", MAX_KEY_LEN_BYTES as u64),
        ("length of a value", MAX_VALUE_LEN_BYTES as u64),
        ("length of a write batch", MAX_BATCH_LEN_BYTES as u64),
        ("writes in a write batch", MAX_BATCH_WRITES as u64),
        ("file number, sequence number", MAX_NUMBER),
    ];
    assert_eq!(documented, expected);
}
