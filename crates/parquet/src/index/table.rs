//! Encodes and decodes the file table of an index: the name and logical type of the column, and one
//! record for each indexed file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::layout::{HEADER_LEN_BYTES, Header, KeyType};
use super::stamp::Stamp;
use crate::error::{Error, Result, WRONG_CHECKSUM};
use filterblock::internals::codec::{Corrupt, Cursor};

/// The maximum length in bytes of a path, of a column's name, and of the text of a logical type.
pub const MAX_PATH_LEN_BYTES: usize = u16::MAX as usize;
/// The length in bytes of a record without its path and its numbers of cells.
const RECORD_LEN_BYTES: usize = 40;
/// The offset of the number of filters in a record.
const FILTERS_OFFSET: u64 = 4;
/// The maximum number of blocks of a filter. Block numbers are scaled from the 32 high bits of a
/// hash.
const MAX_BLOCKS: u64 = 1 << 32;

/// The settings that all files of an index share.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name of the column, empty for key lists and SST files.
    pub column: String,
    /// The logical type of the column, such as `uuid` or `timestamp(ms,utc)`. The text is empty if
    /// the column has none, and for key lists and SST files. See `ParquetColumn::logical_type`.
    pub logical_type: String,
    /// The type of the keys.
    pub key_type: KeyType,
    /// The maximum FPR, above 0 and below 1, of a file that is added by the hashes of its keys. A
    /// file that is added by its existing filters may have a higher FPR. In an open index, `fpr` is
    /// the setting of the latest build.
    pub fpr: f64,
}

impl Settings {
    /// Returns the reason why keys of these types do not belong in the index, or `None` if they do.
    #[must_use]
    pub fn refuses(&self, key_type: KeyType, logical_type: &str) -> Option<String> {
        if key_type != self.key_type {
            return Some(format!(
                "the keys have the type {key_type}, but the keys of the index have the type {}; build another index for \
                 this file",
                self.key_type
            ));
        }
        (logical_type != self.logical_type).then(|| {
            format!(
                "the column has the logical type {}, but the column of the index has {}; equal bytes may mean different \
                 values, so build another index for this file",
                logical_name(logical_type),
                logical_name(&self.logical_type)
            )
        })
    }
}

impl Settings {
    /// Returns a description of the keys, for messages and for comparisons. All files of an index
    /// have the same description.
    pub(super) fn keys(&self) -> String {
        let Self { column, logical_type, key_type, .. } = self;
        format!("keys of column {column:?}, type {key_type} and logical type {}", logical_name(logical_type))
    }
}

/// Returns the name of a logical type for messages. Returns "none" for the empty text, which stands
/// for no logical type or for a signed integer.
#[must_use]
fn logical_name(logical_type: &str) -> &str {
    if logical_type.is_empty() { "none" } else { logical_type }
}

/// The source of the keys of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// A list of keys.
    KeyList,
    /// An SST file of filterblock's own format.
    Sst,
    /// A table of LevelDB.
    LevelDb,
    /// A block-based table of RocksDB.
    RocksDb,
    /// The values of a column of a Parquet file.
    ParquetValues,
    /// The filters of a column of a Parquet file.
    ParquetFilters,
}

impl SourceKind {
    const TAGS: [(u8, Self, &'static str); 6] = [
        (1, Self::KeyList, "key-list"),
        (2, Self::Sst, "sst"),
        (3, Self::LevelDb, "leveldb-table"),
        (4, Self::RocksDb, "rocksdb-table"),
        (5, Self::ParquetValues, "parquet-values"),
        (6, Self::ParquetFilters, "parquet-filters"),
    ];

    fn tag(self) -> u8 {
        Self::TAGS.iter().find(|(_, kind, _)| *kind == self).map_or(0, |(tag, ..)| *tag)
    }

    /// Returns the name for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TAGS.iter().find(|(_, kind, _)| *kind == self).map_or("unknown", |(.., name)| name)
    }
}

/// The identity of a file: its path, its source and its stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    /// The path as the user gave it. A relative path is not resolved.
    pub path: PathBuf,
    /// The source of the keys.
    pub source: SourceKind,
    /// The state of the file when its keys were read.
    pub stamp: Stamp,
}

impl FileIdentity {
    /// Returns the identity of a file that has no stamp, for example an object in a remote store.
    #[must_use]
    pub fn of_path(path: impl Into<PathBuf>, source: SourceKind) -> Self {
        Self { path: path.into(), source, stamp: Stamp::default() }
    }
}

/// A file of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// The path, the source and the stamp.
    pub identity: FileIdentity,
    /// The number of distinct keys. For [`SourceKind::ParquetFilters`], the number of values in the
    /// row groups whose filters are in the index, nulls included.
    pub num_keys: u64,
    /// For each filter of the file, the number of cells that it has in each row. A file without
    /// keys may have no filter.
    pub cells: Vec<u32>,
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Option<&[u8]> {
    use std::os::unix::ffi::OsStrExt;
    Some(path.as_os_str().as_bytes())
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Option<&[u8]> {
    path.to_str().map(str::as_bytes)
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(std::ffi::OsStr::from_bytes(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Returns an error if the table cannot hold this path. A path that is not valid UTF-8 can be
/// stored on Unix only.
pub(super) fn check_path(path: &Path) -> Result<()> {
    match path_bytes(path) {
        Some(bytes) if (1..=MAX_PATH_LEN_BYTES).contains(&bytes.len()) => Ok(()),
        _ => Err(Error::invalid(
            "path",
            format!("{}: not a path of 1 to 65,535 bytes (UTF-8 except on Unix); use another path", path.display()),
        )),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileTable {
    pub column: String,
    pub logical_type: String,
    pub files: Vec<IndexedFile>,
}

impl FileTable {
    pub fn encode(&self) -> Result<Vec<u8>> {
        let len16 = |bytes: &[u8], what| {
            let too_long = |_| Error::invalid(what, format!("{} bytes, more than 65,535; shorten it", bytes.len()));
            u16::try_from(bytes.len()).map_err(too_long)
        };
        let mut out = Vec::new();
        for (text, what) in [(&self.column, "the name of the column"), (&self.logical_type, "the logical type")] {
            out.extend_from_slice(&len16(text.as_bytes(), what)?.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        for file in &self.files {
            let path = path_bytes(&file.identity.path).ok_or(Error::TooLarge { what: "a path" })?;
            let filters = u32::try_from(file.cells.len()).map_err(|_| Error::TooLarge { what: "a file" })?;
            let stamp = file.identity.stamp;
            out.extend_from_slice(&[file.identity.source.tag(), 0]);
            out.extend_from_slice(&len16(path, "a path")?.to_le_bytes());
            out.extend_from_slice(&filters.to_le_bytes());
            out.extend_from_slice(&file.num_keys.to_le_bytes());
            out.extend_from_slice(&stamp.len_bytes.to_le_bytes());
            out.extend_from_slice(&stamp.modified_seconds.to_le_bytes());
            out.extend_from_slice(&stamp.modified_nanos.to_le_bytes());
            out.extend_from_slice(&stamp.tail_checksum.to_le_bytes());
            out.extend_from_slice(path);
            file.cells.iter().for_each(|cells| out.extend_from_slice(&cells.to_le_bytes()));
        }
        Ok(out)
    }

    /// Checks and decodes the table. Lengths are checked against the bytes before any allocation.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<Self> {
        if crc32fast::hash(bytes) != header.table_checksum {
            return Err(Error::damaged_index("file table", HEADER_LEN_BYTES as u64, WRONG_CHECKSUM));
        }
        let mut input = Cursor::new(bytes, HEADER_LEN_BYTES as u64);
        let column = text(&mut input)?;
        let logical_type = text(&mut input)?;
        // Every record has at least `RECORD_LEN_BYTES` bytes, so the length of the table bounds the
        // allocation.
        if u64::from(header.files) > (bytes.len() / RECORD_LEN_BYTES) as u64 {
            return Err(corrupt(input.offset(), "the header has more files than the table has room for"));
        }
        let mut files: Vec<IndexedFile> = Vec::with_capacity(header.files as usize);
        let mut starts = Vec::with_capacity(header.files as usize);
        let mut cells_left = u64::from(header.cells);
        for _ in 0..header.files {
            starts.push(input.offset());
            let file = record(&mut input)?;
            let first_cell = input.offset() - 4 * file.cells.len() as u64;
            for (offset, &cells) in (first_cell..).step_by(4).zip(&file.cells) {
                let blocks = u64::from(cells) * u64::from(header.rows);
                if cells == 0 || blocks > MAX_BLOCKS {
                    return Err(corrupt(offset, "a filter has no blocks, or more than 2^32"));
                }
                cells_left = cells_left.checked_sub(cells.into()).ok_or_else(|| corrupt(offset, WRONG_SUM))?;
            }
            files.push(file);
        }
        if cells_left > 0 {
            return Err(corrupt(input.offset(), WRONG_SUM));
        }
        if !input.is_empty() {
            return Err(corrupt(input.offset(), "bytes follow the last record"));
        }
        let mut paths = HashSet::with_capacity(files.len());
        let mut records = starts.into_iter().zip(&files);
        if let Some((start, _)) = records.find(|(_, file)| !paths.insert(file.identity.path.as_path())) {
            return Err(corrupt(start, "two records have the same path"));
        }
        Ok(Self { column, logical_type, files })
    }
}

const EARLY_END: &str = "the table ends early";
const WRONG_SUM: &str = "the sum of the files' cells is not the number of cells in a row";

fn record(input: &mut Cursor<'_>) -> Result<IndexedFile> {
    let start = input.offset();
    let [tag, reserved] = input.take_array(EARLY_END)?;
    let path_len = u16::from_le_bytes(input.take_array(EARLY_END)?);
    let filters = input.take_u32(EARLY_END)?;
    let num_keys = input.take_u64(EARLY_END)?;
    let stamp = Stamp {
        len_bytes: input.take_u64(EARLY_END)?,
        modified_seconds: input.take_u64(EARLY_END)?.cast_signed(),
        modified_nanos: input.take_u32(EARLY_END)?,
        tail_checksum: input.take_u32(EARLY_END)?,
    };
    let Some(&(_, source, _)) = SourceKind::TAGS.iter().find(|(known, ..)| *known == tag) else {
        return Err(corrupt(start, "unknown source of keys"));
    };
    if reserved != 0 {
        return Err(corrupt(start + 1, "a reserved byte is not zero"));
    }
    let path = input.take(path_len.into(), EARLY_END)?;
    let path = path_of(path).filter(|_| !path.is_empty());
    let why = "a path is empty (or, except on Unix, not UTF-8)";
    let path = path.ok_or_else(|| corrupt(start + RECORD_LEN_BYTES as u64, why))?;
    let cells = input.take(usize::try_from(u64::from(filters) * 4).unwrap_or(usize::MAX), EARLY_END)?;
    let cells: Vec<u32> = cells.as_chunks().0.iter().map(|&cells| u32::from_le_bytes(cells)).collect();
    if cells.is_empty() && num_keys > 0 {
        return Err(corrupt(start + FILTERS_OFFSET, "a file with keys has no filter"));
    }
    Ok(IndexedFile { identity: FileIdentity { path, source, stamp }, num_keys, cells })
}

fn text(input: &mut Cursor<'_>) -> Result<String> {
    let len = u16::from_le_bytes(input.take_array(EARLY_END)?);
    let start = input.offset();
    let text = std::str::from_utf8(input.take(len.into(), EARLY_END)?);
    let invalid = |error: std::str::Utf8Error| {
        corrupt(start + error.valid_up_to() as u64, "the column's name or logical type is not UTF-8")
    };
    text.map(str::to_owned).map_err(invalid)
}

/// The error of a read of the table that ends early.
impl From<Corrupt<&'static str>> for Error {
    fn from(Corrupt { field: why, offset }: Corrupt<&'static str>) -> Self {
        corrupt(offset, why)
    }
}

fn corrupt(offset: u64, why: &'static str) -> Error {
    Error::damaged_index("file table", offset, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FileTable {
        let stamp =
            Stamp { len_bytes: 5, modified_seconds: -1, modified_nanos: 999_999_999, tail_checksum: 0xfeed_beef };
        let file = |path: &str, source, num_keys, cells: &[u32]| IndexedFile {
            identity: FileIdentity { path: path.into(), source, stamp },
            num_keys,
            cells: cells.to_vec(),
        };
        FileTable {
            column: "user.id".into(),
            logical_type: "uuid".into(),
            files: vec![
                file("a.parquet", SourceKind::ParquetValues, 9, &[2]),
                file("dir/b.parquet", SourceKind::ParquetFilters, 7, &[1, 3]),
                file("empty", SourceKind::KeyList, 0, &[]),
            ],
        }
    }

    fn header_of(bytes: &[u8], files: u32, cells: u32) -> Header {
        Header {
            key_type: KeyType::Bytes,
            rows: 7,
            cells,
            files,
            table_len_bytes: bytes.len() as u64,
            fpr: 0.01,
            generation: 1,
            table_checksum: crc32fast::hash(bytes),
            checksum: 0,
        }
    }

    #[test]
    fn a_table_round_trips() {
        let bytes = table().encode().unwrap();
        assert_eq!(FileTable::decode(&bytes, &header_of(&bytes, 3, 6)).unwrap(), table());
    }

    #[test]
    fn wrong_counts_are_refused_under_a_valid_checksum() {
        let bytes = table().encode().unwrap();
        for (files, cells) in [(2, 6), (4, 6), (3, 5), (3, 7), (u32::MAX, 6)] {
            let error = FileTable::decode(&bytes, &header_of(&bytes, files, cells)).unwrap_err();
            assert!(matches!(error, Error::DamagedIndex { .. }), "{files} {cells}: {error}");
        }
    }

    #[test]
    fn a_repeated_path_is_refused() {
        let mut twice = table();
        twice.files[1].identity.path = "a.parquet".into();
        let bytes = twice.encode().unwrap();
        let error = FileTable::decode(&bytes, &header_of(&bytes, 3, 6)).unwrap_err();
        assert!(error.to_string().contains("same path"), "{error}");
    }

    #[test]
    fn errors_have_the_offset_of_the_wrong_field_in_the_index() {
        let bytes = table().encode().unwrap();
        let second = bytes.len() - 45 - (40 + "dir/b.parquet".len() + 8);
        let last = bytes.len() - 45;
        let path = 40 + "dir/b.parquet".len();
        for (what, at, value) in [
            ("not UTF-8", 4, 0xff),
            ("unknown source", second, 99),
            ("reserved byte", second + 1, 1),
            ("no blocks", second + path, 0),
            ("the sum of", second + path + 4, 9),
            ("no filter", last + 8, 1),
        ] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let error = FileTable::decode(&changed, &header_of(&changed, 3, 6)).unwrap_err();
            // The number of filters is the fault, not the number of keys.
            let at = if what == "no filter" { last + 4 } else { at };
            let expected = format!("file table at offset {}: ", HEADER_LEN_BYTES + at);
            assert!(error.to_string().contains(what) && error.to_string().contains(&expected), "{expected}{error}");
        }
        let mut twice = table();
        twice.files[1].identity.path = "empty".into();
        let bytes = twice.encode().unwrap();
        let error = FileTable::decode(&bytes, &header_of(&bytes, 3, 6)).unwrap_err();
        let expected = format!("file table at offset {}: two", HEADER_LEN_BYTES + bytes.len() - 45);
        assert!(error.to_string().contains(&expected), "{expected}: {error}");
    }

    #[test]
    fn any_change_under_a_valid_checksum_decodes_or_is_refused() {
        let bytes = table().encode().unwrap();
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(found) = FileTable::decode(&changed, &header_of(&changed, 3, 6)) {
                    assert_eq!(found.encode().unwrap(), changed, "{at}: {value}");
                }
            }
            let cut = &bytes[..at];
            assert!(FileTable::decode(cut, &header_of(cut, 3, 6)).is_err(), "{at}");
        }
    }
}
