//! Compares docs/STORE_FORMAT.md and the golden files with the code.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filterblock::HashSeed;
use filterblock_store::sstable::{
    BLOCK_TRAILER_LEN_BYTES, Compression, FOOTER_FIELDS, FOOTER_LEN_BYTES, Lookup, MAGIC, PROPERTY_TAGS, Table,
    TableOptions, TableReadOptions, TableWriter, VERSION,
};
use filterblock_store::storage::{Disk, Memory, Storage};

const DOCUMENT: &str = include_str!("../../../../../docs/STORE_FORMAT.md");

fn write(options: TableOptions, entries: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<u8> {
    let (storage, path) = (Memory::new(), Path::new("t.sst"));
    let mut writer = TableWriter::create(&storage, path, options).unwrap();
    for (key, value) in entries {
        writer.add(key, value.as_deref()).unwrap();
    }
    writer.finish().unwrap();
    storage.read(path).unwrap()
}

/// Returns the SST file with the three keys of the document.
fn tiny() -> Vec<u8> {
    let options = TableOptions {
        table_id: *b"the 3-key table.",
        hasher: HashSeed(42).into(),
        filter: Some("blocked-bloom:10".parse().unwrap()),
        created_by: "filterblock".to_owned(),
        ..TableOptions::default()
    };
    let entry = |key: &str, value: Option<&str>| (key.into(), value.map(Into::into));
    write(options, &[entry("apple", Some("red")), entry("apricot", None), entry("banana", Some(""))])
}

fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    let last = bytes.len().saturating_sub(1) / 16;
    let mut previous: &[u8] = &[];
    for (i, line) in bytes.chunks(16).enumerate() {
        if line == previous && i < last {
            if !out.ends_with("*\n") {
                out.push_str("*\n");
            }
            continue;
        }
        previous = line;
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = line.iter().map(|&b| if (32..127).contains(&b) { char::from(b) } else { '.' }).collect();
        writeln!(out, "{}", format!("{:04x}  {:47}  {text}", i * 16, hex.join(" ")).trim_end()).unwrap();
    }
    out
}

/// Returns the rows of the first table under the heading `section`, without its header row.
fn table(section: &str) -> Vec<Vec<&'static str>> {
    let body = &DOCUMENT[DOCUMENT.find(&format!("\n### {section}\n")).unwrap()..];
    let rows = body.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_footer_matches_the_document() {
    let rows = table("Footer");
    assert_eq!(rows.len(), FOOTER_FIELDS.len());
    for (row, (name, offset, len)) in rows.iter().zip(FOOTER_FIELDS) {
        assert_eq!(row[..3], [offset.to_string().as_str(), len.to_string().as_str(), name]);
    }
    let magic: Vec<String> = MAGIC.iter().map(|byte| format!("{byte:02X}")).collect();
    assert!(rows[15][3].contains(&magic.join(" ")));
    assert_eq!(rows[13][3], VERSION.to_string());
    assert!(DOCUMENT.contains(&format!("footer, {FOOTER_LEN_BYTES} bytes")));
}

#[test]
fn properties_and_block_trailers_match_the_document() {
    let documented: Vec<(u64, &str)> =
        table("Properties").into_iter().map(|row| (row[0].parse().unwrap(), row[1])).collect();
    assert_eq!(documented, PROPERTY_TAGS);
    let sizes: usize = table("Data block")[1..].iter().map(|row| row[1].parse::<usize>().unwrap()).sum();
    assert_eq!(sizes, BLOCK_TRAILER_LEN_BYTES);
    let compression = table("Data block")[1][3];
    assert!(compression.contains(&format!("{}: none; {}: LZ4", Compression::None as u8, Compression::Lz4 as u8)));
}

#[test]
fn the_dump_in_the_document_matches_the_writer() {
    let dump = dump(&tiny());
    assert!(DOCUMENT.contains(&format!("```text\n{dump}```\n")), "docs/STORE_FORMAT.md must have:\n{dump}");
}

#[test]
fn the_dump_explanation_covers_every_byte() {
    let bytes = tiny();
    let start = DOCUMENT.find("| Offset | Bytes | Meaning |").unwrap();
    let rows = DOCUMENT[start..].lines().take_while(|line| line.starts_with('|')).skip(2);
    let mut at = 0;
    let mut open_end = false;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let offset = usize::from_str_radix(cells[0], 16).unwrap();
        assert!(offset == at || open_end && offset > at, "{row}");
        at = offset;
        for item in cells[1].split('`').map(str::trim).filter(|item| !item.is_empty() && *item != "..") {
            let wanted: Vec<u8> = match item.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                Some(text) => text.into(),
                None => item.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect(),
            };
            assert_eq!(bytes[at..at + wanted.len()], wanted, "{row}");
            at += wanted.len();
        }
        open_end = cells[1].ends_with("..");
    }
    assert_eq!(at, bytes.len());
}

fn golden_entries() -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let value =
        |i: u32| (!i.is_multiple_of(5)).then(|| format!("value {i} {}", "-".repeat((i % 13) as usize)).into_bytes());
    let mut entries: Vec<_> = (0..200u32).map(|i| (format!("golden/{:05}", i * 7).into_bytes(), value(i))).collect();
    entries.insert(0, (Vec::new(), Some(Vec::new())));
    entries.push((vec![0xff; 300], Some(vec![0xfe; 300])));
    entries
}

fn golden_options(compression: Compression) -> TableOptions {
    TableOptions {
        block_size_bytes: 1024,
        compression,
        table_id: *b"golden, sorted 1",
        hasher: HashSeed(0x0123_4567_89ab_cdef).into(),
        filter: Some("bloom:10".parse().unwrap()),
        created_by: "filterblock".to_owned(),
        ..TableOptions::default()
    }
}

const GOLDEN: [(&str, Compression); 2] =
    [("v1-sorted.sst", Compression::None), ("v1-sorted-lz4.sst", Compression::Lz4)];

fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn files_of_version_1_are_read() {
    for (name, _) in GOLDEN {
        let options = TableReadOptions { strict: true, ..TableReadOptions::default() };
        let table = Arc::new(Table::open(&Disk, &golden_path(name), options).unwrap());
        let entries: Vec<_> = table.iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(entries, golden_entries());
        for (key, value) in entries {
            assert_eq!(table.get(&key).unwrap(), value.map_or(Lookup::Tombstone, Lookup::Value));
        }
        assert_eq!(table.get(b"golden/00001").unwrap(), Lookup::NotFound);
        assert!(table.verify().unwrap().is_sound());
    }
}

#[test]
fn the_same_entries_give_the_golden_bytes() {
    // For compressed files only the content is guaranteed, because another LZ4 encoder may compress
    // differently.
    let (name, compression) = GOLDEN[0];
    assert_eq!(write(golden_options(compression), &golden_entries()), std::fs::read(golden_path(name)).unwrap());
}

#[test]
#[ignore = "writes a golden file that is missing; those that exist are never replaced"]
fn write_missing_golden_files() {
    for (name, compression) in GOLDEN.into_iter().filter(|(name, _)| !golden_path(name).exists()) {
        std::fs::write(golden_path(name), write(golden_options(compression), &golden_entries())).unwrap();
    }
}
