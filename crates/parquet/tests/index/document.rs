//! Compares docs/INDEX_FORMAT.md with the code, by a reader written from the document alone and by
//! a golden file.

use std::path::{Path, PathBuf};

use filterblock_parquet::index::{
    FileIdentity, IndexBuilder, KeyType, MAGIC, Settings, SourceKind, Stamp, TAIL_LEN_BYTES, hash,
};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder, PhysicalType};

use crate::support::{ask, distinct, hash_of, open};

const DOCUMENT: &str = include_str!("../../../../docs/INDEX_FORMAT.md");

/// Finds the first table after `heading` with a header row that begins with `header`. Returns the
/// rows below the header row as lists of cells.
fn table(heading: &str, header: &str) -> Vec<Vec<String>> {
    let lines = DOCUMENT.lines().skip_while(|line| *line != heading).skip_while(|line| !line.starts_with(header));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Returns offset and size of a field of the header or of a record.
fn place(heading: &str, name: &str) -> (usize, usize) {
    let rows = table(heading, "| Offset |");
    let row = rows.iter().find(|row| row[2] == name).unwrap_or_else(|| panic!("no field {name}"));
    (row[0].parse().unwrap(), row[1].parse().unwrap())
}

fn integer(bytes: &[u8], heading: &str, name: &str) -> u64 {
    let (offset, size) = place(heading, name);
    bytes[offset..offset + size].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

const HEADER: &str = "## 2. Header";
const RECORD: &str = "## 3. File table";

/// Returns the CRC-32 of IEEE 802.3, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// A reader that is written from the document alone.
struct Stranger {
    bytes: Vec<u8>,
    rows: u64,
    cells: u64,
    first_row: usize,
    files: Vec<(String, Vec<u64>)>,
}

impl Stranger {
    fn open(bytes: &[u8]) -> Self {
        let number = |name| integer(bytes, HEADER, name);
        let magic = &table(HEADER, "| Offset |")[0][3];
        let written: Vec<u8> = magic[1..24].split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        assert_eq!((&bytes[..8], MAGIC.as_slice()), (&written[..], &written[..]));
        assert_eq!((number("version"), number("hash function"), number("reserved")), (1, 1, 0));
        assert_eq!(number("header checksum"), u64::from(crc32(&bytes[..60])));
        let (rows, cells, table_len) = (number("rows"), number("cells"), number("table length") as usize);
        assert_eq!(bytes.len() as u64, 64 + table_len as u64 + rows * (32 * cells + 4));
        let table = &bytes[64..64 + table_len];
        assert_eq!(number("table checksum"), u64::from(crc32(table)));
        let column_len = usize::from(table[0]) + 256 * usize::from(table[1]);
        let table_rest = &table[2 + column_len..];
        let type_len = usize::from(table_rest[0]) + 256 * usize::from(table_rest[1]);
        let mut rest = &table_rest[2 + type_len..];
        let mut files = Vec::new();
        for _ in 0..number("files") {
            let field = |name| integer(rest, RECORD, name) as usize;
            let (path_len, filters) = (field("path length"), field("filters"));
            let path = String::from_utf8(rest[40..40 + path_len].to_vec()).unwrap();
            let cells = &rest[40 + path_len..40 + path_len + 4 * filters];
            let cells = cells.chunks(4).map(|cell| u64::from(u32::from_le_bytes(cell.try_into().unwrap())));
            files.push((path, cells.collect()));
            rest = &rest[40 + path_len + 4 * filters..];
        }
        assert!(rest.is_empty());
        Self { bytes: bytes.to_vec(), rows, cells, first_row: 64 + table_len, files }
    }

    fn row(&self, row: u64) -> &[u8] {
        let len = (32 * self.cells + 4) as usize;
        let all = &self.bytes[self.first_row + row as usize * len..][..len];
        let (cells, checksum) = all.split_at(len - 4);
        let covered = [&self.bytes[60..64], &(row as u32).to_le_bytes(), cells].concat();
        assert_eq!(checksum, crc32(&covered).to_le_bytes(), "row {row}");
        cells
    }

    fn ask(&self, h: u64) -> Vec<usize> {
        let salts = DOCUMENT.split("SALT = ").nth(1).unwrap().split_whitespace().take(8);
        let salts: Vec<u64> = salts.map(|salt| u64::from_str_radix(&salt[2..], 16).unwrap()).collect();
        let row = self.row(((h >> 32) * self.rows) >> 32);
        let (mut first, mut found) = (0, Vec::new());
        for (number, (_, filters)) in self.files.iter().enumerate() {
            let mut is_candidate = false;
            for &c in filters {
                let block = ((h >> 32) * (c * self.rows)) >> 32;
                assert_eq!(block / c, ((h >> 32) * self.rows) >> 32);
                let cell = &row[32 * (first + block % c) as usize..][..32];
                is_candidate |= (0..8).all(|i| {
                    let bit = ((h % (1 << 32)) * salts[i] % (1 << 32)) >> 27;
                    let lane = u32::from_le_bytes(cell[4 * i..4 * i + 4].try_into().unwrap());
                    lane >> bit & 1 == 1
                });
                first += c;
            }
            if is_candidate {
                found.push(number);
            }
        }
        found
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-four-files.index")
}

/// Builds the index of the golden file. The index has four files: one with one cell, one with
/// several cells, one with two filters, and one without keys.
fn built() -> Vec<u8> {
    let key_type = KeyType::Parquet { physical_type: PhysicalType::Int64, type_len_bytes: 0 };
    let settings = Settings { column: "user.id".into(), logical_type: "uint64".into(), key_type, fpr: 0.01 };
    let mut builder = IndexBuilder::new(settings, std::io::Cursor::new(Vec::new())).unwrap();
    let identity = |path: &str, source| {
        let stamp = Stamp { len_bytes: 1_234, modified_seconds: -5, modified_nanos: 6, tail_checksum: 0x0123_4567 };
        FileIdentity { path: path.into(), source, stamp }
    };
    builder.add_hashes(identity("a.parquet", SourceKind::ParquetValues), distinct(0..40)).unwrap();
    builder.add_hashes(identity("b.parquet", SourceKind::ParquetValues), distinct(100..600)).unwrap();
    let filters: Vec<Vec<u8>> = [600u64..640, 640..680]
        .into_iter()
        .map(|keys| {
            let mut filter = ParquetBloomBuilder::with_blocks(4).unwrap();
            keys.for_each(|key| filter.add(&key.to_le_bytes()));
            filter.finish()
        })
        .collect();
    let bits: Vec<&[u8]> = filters.iter().map(|bytes| ParquetBloom::parse(bytes).unwrap().bits()).collect();
    builder.add_filters(identity("c.parquet", SourceKind::ParquetFilters), 80, &bits).unwrap();
    builder.add_hashes(identity("empty", SourceKind::ParquetValues), distinct([])).unwrap();
    builder.build().unwrap().bytes
}

#[test]
fn a_reader_written_from_the_document_agrees() {
    let bytes = built();
    let (stranger, index) = (Stranger::open(&bytes), open(&bytes));
    let cells: Vec<usize> = stranger.files.iter().map(|(_, cells)| cells.len()).collect();
    assert_eq!(cells, [1, 1, 2, 0]);
    assert!(stranger.files[1].1[0] > 1, "{:?}", stranger.files);
    for key in 0..20_000 {
        assert_eq!(stranger.ask(hash_of(key)), ask(&index, key), "{key}");
    }
    assert!((0..40).all(|key| stranger.ask(hash_of(key)).contains(&0)));
    assert!((100..600).all(|key| stranger.ask(hash_of(key)).contains(&1)));
    assert!((600..680).all(|key| stranger.ask(hash_of(key)).contains(&2)));
}

#[test]
fn the_golden_file_is_built_and_read_alike() {
    let bytes = std::fs::read(golden()).unwrap();
    assert!(bytes == built(), "the bytes of an index have changed; this needs another format version");
    assert!((100..600).all(|key| ask(&open(&bytes), key).contains(&1)));
}

#[test]
#[ignore = "writes the golden file"]
fn write_the_golden_file() {
    std::fs::create_dir_all(golden().parent().unwrap()).unwrap();
    std::fs::write(golden(), built()).unwrap();
}

#[test]
fn tags_and_constants_of_the_document_are_those_of_the_code() {
    assert_eq!(hash(b""), 0xef46_db37_51d8_e999);
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert!(DOCUMENT.contains("0xef46db3751d8e999") && DOCUMENT.contains("0xCBF43926"));
    assert_eq!(TAIL_LEN_BYTES, 4_096);
    for row in table("## 4. Keys", "| Tag |") {
        let bytes = built();
        let mut header: Vec<u8> = bytes[..64].to_vec();
        header[place(HEADER, "key type").0] = row[0].parse().unwrap();
        let end = crc32(&header[..60]).to_le_bytes();
        header[60..].copy_from_slice(&end);
        let changed = [&header, &bytes[64..]].concat();
        assert_eq!(open(&changed).settings().key_type.to_string(), row[1]);
    }
    let sources = table(RECORD, "| Source |");
    assert_eq!(sources.len(), 6);
    for (row, name) in sources.iter().zip(["key", "sst", "leveldb", "rocksdb", "parquet-values", "parquet-filters"]) {
        let mut bytes = built();
        let (column, logical) = ("user.id".len(), "uint64".len());
        bytes[64 + 2 + column + 2 + logical] = row[0].parse().unwrap();
        let table_len = integer(&bytes, HEADER, "table length") as usize;
        let checksum = crc32(&bytes[64..64 + table_len]).to_le_bytes();
        bytes[56..60].copy_from_slice(&checksum);
        let end = crc32(&bytes[..60]).to_le_bytes();
        bytes[60..64].copy_from_slice(&end);
        assert!(open(&bytes).files()[0].identity.source.name().starts_with(name));
    }
}
