//! Reads page headers: type, lengths, number of values and encoding of each page of a column chunk.
//!
//! The crate `parquet` tells the encoding of a page only after it has decompressed the page. This
//! module reads the header first. So the caller can skip pages of dictionary indices, and a false
//! length causes no allocation above 256 MiB. The crate then gets the bytes of the header from
//! [`Pages`], so each header is read from the file once.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use parquet::column::page::Page;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use crate::thrift::{Kind, Struct};

/// The maximum length of a page, both compressed and uncompressed.
pub(super) const MAX_PAGE_LEN_BYTES: u64 = 256 << 20;

/// The number of bytes that are read first to find a header. Most headers have less than 100 bytes.
const WINDOW_LEN_BYTES: u64 = 1 << 10;
/// A window of at least this length is not enlarged when it holds no whole header. Headers may be
/// long because they may contain the min and max of their page.
const MAX_HEADER_LEN_BYTES: u64 = 16 << 20;

const DATA_PAGE: i64 = 0;
const INDEX_PAGE: i64 = 1;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// The encodings `PLAIN`, `PLAIN_DICTIONARY` and `RLE_DICTIONARY`, as the format numbers them.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

const I32: Kind = Kind::I32;
const STRUCT: Kind = Kind::STRUCT;
/// Both Boolean values.
const FLAG: Kind = Kind::TRUE;

const HEADER_FIELDS: [(i16, Kind); 8] =
    [(1, I32), (2, I32), (3, I32), (4, I32), (5, STRUCT), (6, STRUCT), (7, STRUCT), (8, STRUCT)];
/// The fields of the details, which are the structs `DataPageHeader`, `DictionaryPageHeader` and
/// `DataPageHeaderV2` of the format.
const DATA_FIELDS: [(i16, Kind); 5] = [(1, I32), (2, I32), (3, I32), (4, I32), (5, STRUCT)];
const DICTIONARY_FIELDS: [(i16, Kind); 3] = [(1, I32), (2, I32), (3, FLAG)];
const DATA_V2_FIELDS: [(i16, Kind); 8] =
    [(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, FLAG), (8, STRUCT)];
/// The fields of a page header that hold the details. Each field is for one page type.
const DETAILS: [i16; 4] = [5, 6, 7, 8];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Dictionary,
    Indices,
    Plain,
    Encoded,
    /// No values: an index page.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PageHeader {
    pub content: Content,
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The length of the header and of the page in the file.
    pub total_len_bytes: u64,
    /// The type of the page and the encoding of its values, as the format numbers them.
    page_type: i64,
    encoding: i64,
    uncompressed_len_bytes: u64,
}

impl PageHeader {
    /// Returns whether `page` has the type, encoding, length and number of values of this header.
    /// Without this check, the reader could take another page for the page of this header, and miss
    /// values.
    pub(super) fn describes(&self, page: &Page) -> bool {
        let page_type = match page {
            Page::DataPage { .. } => DATA_PAGE,
            Page::DictionaryPage { .. } => DICTIONARY_PAGE,
            Page::DataPageV2 { .. } => DATA_PAGE_V2,
        };
        page_type == self.page_type
            && page.encoding() as i64 == self.encoding
            && page.buffer().len() as u64 == self.uncompressed_len_bytes
            && u64::from(page.num_values()) == self.num_values
    }
}

/// Reads the header at `offset`. The column chunk ends `left_bytes` bytes after `offset`. Returns
/// the header, and the bytes that were read. Returns an error if the header cannot be read or is not
/// valid, or if the page exceeds the column chunk or [`MAX_PAGE_LEN_BYTES`].
pub(super) fn read(source: &impl ChunkReader, offset: u64, left_bytes: u64) -> Result<(PageHeader, Bytes), String> {
    let mut window = WINDOW_LEN_BYTES;
    loop {
        let len = window.min(left_bytes);
        let bytes = usize::try_from(len).map_err(|_| format!("the page header at offset {offset} is too long"))?;
        let bytes = source.get_bytes(offset, bytes).map_err(|error| error.to_string())?;
        match Struct::parse(&bytes) {
            Ok((header, len)) => return Ok((interpret(&header, len as u64, left_bytes, offset)?, bytes.clone())),
            Err(_) if len < left_bytes && window < MAX_HEADER_LEN_BYTES => window *= 16,
            Err(_) => return Err(format!("the page header at offset {offset} is not valid")),
        }
    }
}

fn interpret(header: &Struct<'_>, header_len: u64, left_bytes: u64, offset: u64) -> Result<PageHeader, String> {
    let invalid = || format!("the page header at offset {offset} is not valid");
    if !is_strict(header, &HEADER_FIELDS) {
        return Err(invalid());
    }
    let len = |id| int(header, id).and_then(|len| u64::try_from(len).ok()).ok_or_else(invalid);
    let (uncompressed, compressed) = (len(2)?, len(3)?);
    let total_len_bytes = header_len + compressed;
    if total_len_bytes > left_bytes {
        return Err(format!("the page at offset {offset} exceeds its column chunk"));
    }
    let longer = uncompressed.max(compressed);
    if longer > MAX_PAGE_LEN_BYTES {
        let mib = MAX_PAGE_LEN_BYTES >> 20;
        return Err(format!(
            "the page at offset {offset} has {longer} bytes, more than {mib} MiB; write the file again with smaller \
             pages"
        ));
    }
    let page_type = int(header, 1).ok_or_else(invalid)?;
    let (num_values, encoding) = match page_type {
        INDEX_PAGE => (0, PLAIN),
        DATA_PAGE | DICTIONARY_PAGE | DATA_PAGE_V2 => counted(header, page_type).ok_or_else(invalid)?,
        _ => return Err(format!("the page at offset {offset} has an unknown type")),
    };
    let content = match (page_type, encoding) {
        (INDEX_PAGE, _) => Content::Nothing,
        (DICTIONARY_PAGE, PLAIN | PLAIN_DICTIONARY | RLE_DICTIONARY) => Content::Dictionary,
        (DICTIONARY_PAGE, _) => return Err(format!("the dictionary at offset {offset} has an unknown encoding")),
        (_, PLAIN) => Content::Plain,
        (_, PLAIN_DICTIONARY | RLE_DICTIONARY) => Content::Indices,
        _ => Content::Encoded,
    };
    Ok(PageHeader { content, num_values, total_len_bytes, page_type, encoding, uncompressed_len_bytes: uncompressed })
}

/// Returns the number of values and the encoding from the details of the page. Returns `None` if
/// the details are missing or not valid, or if the header also has the details of another page
/// type. The crate `parquet` uses a `DataPageHeaderV2` even in a page of another type.
fn counted(header: &Struct<'_>, page_type: i64) -> Option<(u64, i64)> {
    let (id, encoding_id, fields): (i16, i16, &[(i16, Kind)]) = match page_type {
        DATA_PAGE => (5, 2, &DATA_FIELDS),
        DICTIONARY_PAGE => (7, 2, &DICTIONARY_FIELDS),
        _ => (8, 4, &DATA_V2_FIELDS),
    };
    if DETAILS.iter().any(|&other| other != id && header.get(other).is_some()) {
        return None;
    }
    let details = Struct::parse(&header.get(id)?.value).ok()?.0;
    if !is_strict(&details, fields) {
        return None;
    }
    Some((u64::try_from(int(&details, 1)?).ok()?, int(&details, encoding_id)?))
}

/// Returns the integer in a field, or `None` if there is none that fits in 32 bits. Readers handle
/// longer integers in different ways.
fn int(of: &Struct<'_>, id: i16) -> Option<i64> {
    of.int(id).filter(|&value| i32::try_from(value).is_ok())
}

/// Returns whether no field comes twice in the struct or in its nested structs, each known field
/// has its type, and each known integer fits in 32 bits. Readers decode other structs in different
/// ways. Structs in lists and maps are not checked.
fn is_strict(found: &Struct<'_>, known: &[(i16, Kind)]) -> bool {
    is_unique(found)
        && known.iter().all(|&(id, kind)| match found.get(id) {
            None => true,
            Some(field) if kind == I32 => field.kind == kind && int(found, id).is_some(),
            Some(field) if kind == FLAG => matches!(field.kind, Kind::TRUE | Kind::FALSE),
            Some(field) => field.kind == kind,
        })
}

fn is_unique(found: &Struct<'_>) -> bool {
    // `Struct::parse` has limited the nesting depth, so the recursion is bounded.
    let nested = found.fields.iter().filter(|field| field.kind == STRUCT);
    !found.has_duplicates()
        && nested.map(|field| Struct::parse(&field.value)).all(|inner| inner.is_ok_and(|(inner, _)| is_unique(&inner)))
}

/// A file whose page headers the crate `parquet` reads again in memory.
#[derive(Debug)]
pub(super) struct Pages<R> {
    source: Arc<R>,
    /// The offset of the header that was read last, and the bytes from there.
    last: Mutex<(u64, Bytes)>,
}

impl<R: ChunkReader> Pages<R> {
    pub(super) fn new(source: Arc<R>) -> Self {
        Self { source, last: Mutex::default() }
    }

    /// Reads a header as [`read`] does, and keeps its bytes.
    pub(super) fn header(&self, offset: u64, left_bytes: u64) -> Result<PageHeader, String> {
        let (header, bytes) = read(&*self.source, offset, left_bytes)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (offset, bytes);
        Ok(header)
    }
}

impl<R: ChunkReader> Length for Pages<R> {
    fn len(&self) -> u64 {
        self.source.len()
    }
}

impl<R: ChunkReader> ChunkReader for Pages<R> {
    type T = Reader<Bytes>;

    /// Returns the bytes of the header that was read last. The crate `parquet` reads pages from
    /// [`Self::get_bytes`].
    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            (offset, bytes) if *offset == start => Ok(bytes.clone().reader()),
            _ => Err(ParquetError::General("the pages differ from their headers".into())),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.source.get_bytes(start, length)
    }
}

/// The first bytes of a file, up to a fixed length. On Unix, reads do not use the position of the file handle, so another
/// part of the program can append to the file meanwhile.
#[derive(Debug, Clone)]
pub struct FileStart {
    file: Arc<File>,
    len_bytes: u64,
}

impl FileStart {
    /// Returns a reader of the first `len_bytes` bytes of `file`.
    #[must_use]
    pub fn new(file: File, len_bytes: u64) -> Self {
        Self { file: Arc::new(file), len_bytes }
    }
}

impl Length for FileStart {
    fn len(&self) -> u64 {
        self.len_bytes
    }
}

impl ChunkReader for FileStart {
    type T = FromOffset;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(FromOffset { file: self.clone(), offset: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len_bytes) {
            return Err(ParquetError::EOF("the file ends before the end of the page".into()));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A reader of the bytes from an offset to the end of a [`FileStart`].
#[derive(Debug)]
pub struct FromOffset {
    file: FileStart,
    offset: u64,
}

impl Read for FromOffset {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len_bytes.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = bytes.len().min(left);
        let Some(bytes) = bytes.get_mut(..len).filter(|bytes| !bytes.is_empty()) else { return Ok(0) };
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&*self.file.file, bytes, self.offset)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&*self.file.file, bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
