//! Opens the chosen file. The page reads filter blocks, bare filters and SST files whole. Of
//! Parquet files and indexes, it reads only the parts that it needs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use filterblock::layout::{MAGIC, TRAILER_LEN_BYTES};
use filterblock::{FilterBlock, HashSeed, KeyHasher, ParsedBlock, Verify};
use filterblock_foreign::leveldb::{LevelDbBloom, LevelDbTable};
use filterblock_foreign::rocksdb::{RocksDbFilter, RocksDbTable};
use filterblock_foreign::{FileKind, ForeignFilterInfo, KeyForm};
use filterblock_parquet::index::{IndexReader, ReadAt};
use filterblock_parquet::{ParquetBloom, ParquetColumnChunk, ParquetMetadata};
use serde::Deserialize;

use charts::text::count;

/// The maximum length of a file that is read whole. A tab has at most 4 GiB of memory.
const WHOLE_LEN_BYTES_MAX: u64 = 1 << 30;
/// The number of first bytes and of last bytes that decide the type of a file.
const END_LEN_BYTES: u64 = 8;
/// The maximum number of bytes that are read from the start of a filter to find the filter's
/// length.
const HEADER_LEN_BYTES: u64 = 256;
/// The maximum number of bytes of Parquet filters that are kept for further questions. A filter
/// that is longer than this maximum is kept alone.
const KEPT_LEN_BYTES: usize = 256 << 20;

/// The facts that the file does not record.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The format of a bare filter: `leveldb-bloom`, `rocksdb-filter` or `parquet-sbbf`.
    pub format: Option<String>,
    /// The form of LevelDB keys: `user` or `internal`.
    pub key_form: Option<String>,
}

/// The format of a bare filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw {
    LevelDb,
    RocksDb,
    Parquet,
}

/// The chosen file. Clones share it.
#[derive(Clone)]
pub(crate) struct Source(Rc<dyn ReadAt>);

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl ReadAt for Source {
    fn read_at<'a>(&'a self, offset: u64, len_bytes: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        self.0.read_at(offset, len_bytes, buffer)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }
}

impl Source {
    /// Reads a range of the file.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, String> {
        let unreadable = |why: &dyn std::fmt::Display| {
            format!("cannot read bytes {} to {}: {why}; choose the file again", range.start, range.end)
        };
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|error| unreadable(&error))?;
        let mut buffer = Vec::new();
        let in_memory = self.0.read_at(range.start, len, &mut buffer).map_err(|error| unreadable(&error))?;
        Ok(in_memory.to_vec())
    }
}

/// The content of the opened file, by its type.
#[derive(Debug)]
pub(crate) enum Content {
    /// A filter block. If it cannot be queried, [`Block::asked`] has the reason.
    Block(Box<Block>),
    LevelDb(Box<LevelDbTable<Vec<u8>>>),
    RocksDb(Box<RocksDbTable<Vec<u8>>>),
    Parquet(Box<Parquet>),
    Index(Box<IndexReader<Source>>),
    Raw(Raw, Vec<u8>),
}

/// A filter block that is open for inspection. If it needs no secret, it is also open for queries.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) locked: ParsedBlock<Rc<[u8]>>,
    pub(crate) asked: Result<FilterBlock<Rc<[u8]>>, String>,
}

/// The footer of a Parquet file, and the kept filters.
#[derive(Debug)]
pub(crate) struct Parquet {
    source: Source,
    pub(crate) metadata: ParquetMetadata,
    /// The location of the metadata.
    pub(crate) footer: Range<u64>,
    kept: RefCell<Kept>,
}

/// The filters that are kept for further questions, by offset.
#[derive(Debug, Default)]
struct Kept {
    filters: BTreeMap<u64, Rc<[u8]>>,
    len_bytes: usize,
}

/// A file that the page has opened.
#[derive(Debug)]
pub struct Opened {
    pub(crate) name: String,
    pub(crate) len_bytes: u64,
    pub(crate) content: Content,
}

impl Opened {
    /// Opens a file by its magic, or as the bare filter that the options name.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be opened. Any key may be present in such a file.
    pub fn open(source: Rc<dyn ReadAt>, name: &str, options: &Options) -> Result<Self, String> {
        let source = Source(source);
        let len_bytes = source.len_bytes().map_err(|error| format!("{name}: {error}"))?;
        let content = Self::content(source, len_bytes, options).map_err(|why| format!("{name}: {why}"))?;
        Ok(Self { name: name.to_owned(), len_bytes, content })
    }

    fn content(source: Source, len: u64, options: &Options) -> Result<Content, String> {
        let whole = || {
            if len > WHOLE_LEN_BYTES_MAX {
                return Err("longer than 1 GiB, which this page does not read whole; use the command".to_owned());
            }
            source.read(0..len)
        };
        if let Some(format) = &options.format {
            return raw(format, whole()?);
        }
        let head = source.read(0..len.min(END_LEN_BYTES))?;
        let tail = source.read(len - len.min(END_LEN_BYTES)..len)?;
        let text = |error: filterblock_foreign::Error| error.to_string();
        if tail.ends_with(&MAGIC) && len >= TRAILER_LEN_BYTES as u64 {
            return block(whole()?.into());
        }
        if filterblock_parquet::index::is_index(&head) {
            let index = IndexReader::open(source.clone()).map_err(|error| error.to_string())?;
            return Ok(Content::Index(Box::new(index)));
        }
        let ends = if len > END_LEN_BYTES { [&head[..], &tail[..]].concat() } else { head.clone() };
        match FileKind::of(&ends) {
            Some(FileKind::LevelDbTable) => {
                let hasher = KeyHasher::xxh3(HashSeed(0));
                let table = LevelDbTable::open_with(whole()?, key_form(options)?, &hasher).map_err(text)?;
                Ok(Content::LevelDb(Box::new(table)))
            }
            Some(FileKind::RocksDbTable) => Ok(Content::RocksDb(Box::new(RocksDbTable::open(whole()?).map_err(text)?))),
            Some(FileKind::ParquetFile) => {
                Parquet::open(source, len, &head, &tail).map(|file| Content::Parquet(file.into()))
            }
            None => Err(format!(
                "neither a filter block nor a known file of another engine ({}); it may be damaged or truncated, or \
                 a bare filter, whose format must be chosen",
                count(len, "byte")
            )),
        }
    }

    /// Returns the name of the file's type. For a file of another engine, it is the name that the
    /// command prints.
    pub(crate) fn kind(&self) -> &'static str {
        match self.content {
            Content::Block(_) => "filter-block",
            Content::LevelDb(_) => "leveldb-table",
            Content::RocksDb(_) => "rocksdb-table",
            Content::Parquet(_) => "parquet-file",
            Content::Index(_) => "index",
            Content::Raw(Raw::LevelDb, _) => "leveldb-bloom",
            Content::Raw(Raw::RocksDb, _) => "rocksdb-filter",
            Content::Raw(Raw::Parquet, _) => "parquet-sbbf",
        }
    }
}

fn raw(format: &str, bytes: Vec<u8>) -> Result<Content, String> {
    let raw = match format {
        "leveldb-bloom" => Raw::LevelDb,
        "rocksdb-filter" => Raw::RocksDb,
        "parquet-sbbf" => Raw::Parquet,
        other => {
            return Err(format!("unknown format {other:?}; expected leveldb-bloom, rocksdb-filter or parquet-sbbf"));
        }
    };
    if raw == Raw::Parquet {
        ParquetBloom::parse(&bytes).map_err(|error| error.to_string())?;
    }
    Ok(Content::Raw(raw, bytes))
}

impl Raw {
    pub(crate) fn info(self, bytes: &[u8]) -> ForeignFilterInfo {
        match self {
            Self::LevelDb => LevelDbBloom::new(bytes).info(),
            Self::RocksDb => RocksDbFilter::new(bytes).info(),
            // The header was parsed at open, so the parsing cannot fail here. The empty filter
            // answers "maybe".
            Self::Parquet => ParquetBloom::parse(bytes).unwrap_or(ParquetBloom::new(&[])).info(),
        }
    }
}

fn key_form(options: &Options) -> Result<Option<KeyForm>, String> {
    match options.key_form.as_deref() {
        None => Ok(None),
        Some("user") => Ok(Some(KeyForm::User)),
        Some("internal") => Ok(Some(KeyForm::Internal)),
        Some(other) => Err(format!("unknown form of keys {other:?}; expected user or internal")),
    }
}

fn block(bytes: Rc<[u8]>) -> Result<Content, String> {
    let open = || ParsedBlock::open(Rc::clone(&bytes), Verify::AtOpen).map_err(|error| error.to_string());
    let locked = open()?;
    let asked = open()?.bind_any(None).map_err(|error| {
        // The text after the last "; " is advice that the page cannot take.
        let why = error.to_string();
        let problem = why.rsplit_once("; ").map_or(why.as_str(), |(problem, _)| problem);
        format!("{problem}, and the page takes no secret, so every answer is \"maybe\"")
    });
    Ok(Content::Block(Box::new(Block { locked, asked })))
}

impl Parquet {
    fn open(source: Source, len: u64, head: &[u8], tail: &[u8]) -> Result<Self, String> {
        const TOO_SHORT: &str = "too short for a Parquet file; check that the file is complete";
        let head = head.first_chunk().ok_or(TOO_SHORT)?;
        let tail = tail.first_chunk().ok_or(TOO_SHORT)?;
        let footer = ParquetMetadata::range(len, *head, *tail).map_err(|error| error.to_string())?;
        let bytes = source.read(footer.clone())?;
        let metadata = ParquetMetadata::parse(&bytes, footer.start).map_err(|error| error.to_string())?;
        Ok(Self { source, metadata, footer, kept: RefCell::default() })
    }

    /// Returns the header and the bits of a chunk's filter, and keeps them for later calls. Returns
    /// `None` if the chunk has no filter.
    pub(crate) fn filter(&self, chunk: &ParquetColumnChunk) -> Result<Option<Rc<[u8]>>, String> {
        let range = self.metadata.filter_range(chunk).map_err(|error| error.to_string())?;
        let Some(mut range) = range else { return Ok(None) };
        if let Some(found) = self.kept.borrow().filters.get(&range.start) {
            return Ok(Some(Rc::clone(found)));
        }
        let at = |error: filterblock_parquet::Error| format!("filter at offset {}: {error}", range.start);
        if chunk.filter.is_some_and(|filter| filter.len_bytes.is_none()) {
            let header = self.source.read(range.start..range.end.min(range.start + HEADER_LEN_BYTES))?;
            let len = ParquetBloom::len_bytes_of(&header).map_err(at)?;
            range.end = range.end.min(range.start.saturating_add(len));
        }
        let bytes = self.source.read(range.clone())?;
        let unusable = |error: filterblock_parquet::Error| error.to_string();
        self.metadata.parse_filter(chunk, &bytes).map_err(unusable)?;
        let bytes: Rc<[u8]> = bytes.into();
        let mut kept = self.kept.borrow_mut();
        if kept.len_bytes + bytes.len() > KEPT_LEN_BYTES {
            *kept = Kept::default();
        }
        kept.len_bytes += bytes.len();
        kept.filters.insert(range.start, Rc::clone(&bytes));
        Ok(Some(bytes))
    }
}
