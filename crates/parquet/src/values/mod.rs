//! Reads the values of a column chunk, and passes their hashes to the caller.
//!
//! Every value of the chunk is hashed, or is in a dictionary that is hashed. To find the values,
//! the reader does not trust the statistics of the footer: it reads the header of every page.

mod decode;
mod guard;
mod header;
mod plain;

use std::borrow::Cow;
use std::sync::Arc;

use crate::ParquetMetadata;
use bytes::Bytes;
use filterblock_foreign::Error as Foreign;
use filterblock_foreign::Field::NumRows;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::error::{Error, Result};
use crate::thrift::{Kind, Struct};
use guard::guarded;
use header::Content;
use plain::{Companions, Hashes};

pub use guard::is_guarded;

/// The length of the magic, before the first page of a file.
const MAGIC_LEN_BYTES: i64 = 4;
/// The length of the bytes after the metadata: their length and the magic.
const TAIL_LEN_BYTES: usize = 8;
/// The encoding of an empty list of structs.
const EMPTY_LIST_OF_STRUCTS: u8 = 0x0c;

/// The content of a chunk's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ChunkPages {
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The number of values that were hashed. If all data pages are dictionary-encoded, these are
    /// the values of the dictionary.
    pub num_hashed: u64,
    /// Whether every data page is dictionary-encoded.
    pub is_all_dictionary: bool,
}

/// A Parquet file whose values are hashed. Hashing a chunk needs memory for its largest page,
/// compressed and uncompressed.
#[derive(Debug)]
pub struct ParquetValues<R> {
    source: Arc<R>,
    metadata: ParquetMetaData,
}

impl<R: ChunkReader + 'static> ParquetValues<R> {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the crate `parquet` cannot read the metadata.
    pub fn open(source: R) -> Result<Self> {
        let read =
            guarded(|| ParquetMetaDataReader::new().parse_and_finish(&source).map_err(|error| error.to_string()));
        let read = read.or_else(|reason| {
            let metadata = typed(&stored_metadata(&source).unwrap_or_default()).ok_or(reason)?;
            guarded(|| ParquetMetaDataReader::decode_metadata(&metadata).map_err(|error| error.to_string()))
        });
        let read = read.and_then(|found| {
            let Some(stored) = stored_metadata(&source) else { return Ok(found) };
            let offset = source.len().saturating_sub((stored.len() + TAIL_LEN_BYTES) as u64);
            match ParquetMetadata::parse(&stored, offset) {
                // The crate `parquet` finds columns by their position, and believes all numbers of rows.
                Err(error @ (Foreign::ChunkMismatch { .. } | Foreign::Corrupt { field: NumRows, .. })) => {
                    Err(error.to_string())
                }
                _ => Ok(found),
            }
        });
        let metadata = read.map_err(|reason| {
            Error::unsupported(
                format!("cannot read the metadata: {reason}"),
                "check the file with the engine that wrote it",
            )
        })?;
        Ok(Self { source: Arc::new(source), metadata })
    }

    /// Returns the metadata.
    #[must_use]
    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// Hashes the plain encoding of all values of a chunk with XXH64 (seed 0), and passes the
    /// hashes to `sink` in batches. A byte array is hashed without its length. Nulls have no hash.
    /// `leaf` counts the leaf columns of the schema from 0. A value of a dictionary is hashed once,
    /// so a hash may stand for many values. `sink` may receive a hash several times.
    ///
    /// If a floating-point zero occurs, `sink` receives the hashes of +0.0 and -0.0. If a NaN
    /// occurs, `sink` receives its hash and the hashes of the two default NaNs.
    ///
    /// # Errors
    /// Returns [`Error::Values`] if the values cannot be hashed, for example because the chunk does
    /// not exist, is damaged, is Boolean, or has a page above 256 MiB. `sink` has then received an
    /// unknown part of the hashes.
    ///
    /// # Examples
    /// ```no_run
    /// use filterblock_parquet::values::ParquetValues;
    ///
    /// let file = ParquetValues::open(std::fs::File::open("events.parquet")?)?;
    /// let mut hashes = Vec::new();
    /// file.for_each_hash(0, 2, &mut |batch| hashes.extend_from_slice(batch))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_hash(&self, row_group: usize, leaf: usize, sink: &mut dyn FnMut(&[u64])) -> Result<ChunkPages> {
        self.hash(row_group, leaf, Companions::Added, sink)
    }

    /// Hashes the values as [`Self::for_each_hash`] does, but a zero or a NaN gives only its own
    /// hash. A filter of any writer must hold these hashes.
    ///
    /// # Errors
    /// Returns errors as [`Self::for_each_hash`] does.
    pub fn for_each_stored_hash(
        &self,
        row_group: usize,
        leaf: usize,
        sink: &mut dyn FnMut(&[u64]),
    ) -> Result<ChunkPages> {
        self.hash(row_group, leaf, Companions::Omitted, sink)
    }

    /// Returns whether a chunk certainly has no value but nulls. If the statistics do not tell, reads
    /// the pages.
    #[must_use]
    pub fn has_only_nulls(&self, row_group: usize, leaf: usize) -> bool {
        let group = self.metadata.row_groups().get(row_group);
        let Some(chunk) = group.and_then(|group| group.columns().get(leaf)) else { return false };
        match chunk.statistics().and_then(|found| found.null_count_opt()) {
            Some(nulls) if chunk.num_values() > 0 => u64::try_from(chunk.num_values()) == Ok(nulls),
            _ => self.for_each_hash(row_group, leaf, &mut |_| {}).is_ok_and(|pages| pages.num_hashed == 0),
        }
    }

    /// Returns the number of values in a chunk's dictionary. Reads only the header of the
    /// dictionary page. Returns `None` if the number is unknown, or if the metadata do not say that
    /// all data pages use the dictionary.
    #[must_use]
    pub fn dictionary_len(&self, row_group: usize, leaf: usize) -> Option<u64> {
        let chunk = self.metadata.row_groups().get(row_group)?.columns().get(leaf)?;
        let encodings = chunk.page_encoding_stats_mask()?;
        if !encodings.is_only(Encoding::PLAIN_DICTIONARY) && !encodings.is_only(Encoding::RLE_DICTIONARY) {
            return None;
        }
        let offset = u64::try_from(chunk.dictionary_page_offset()?).ok()?;
        let len_bytes = u64::try_from(chunk.compressed_size()).ok()?;
        offset.checked_add(len_bytes).filter(|&end| end <= self.source.len())?;
        let page = header::read(&*self.source, offset, len_bytes).ok()?;
        (page.content == Content::Dictionary).then_some(page.num_values)
    }

    fn hash(
        &self,
        row_group: usize,
        leaf: usize,
        companions: Companions,
        sink: &mut dyn FnMut(&[u64]),
    ) -> Result<ChunkPages> {
        let group = self.metadata.row_groups().get(row_group);
        let chunk = group.and_then(|group| group.columns().get(leaf));
        let failed = |reason: String| {
            let column = chunk.map_or_else(|| leaf.to_string(), |chunk| chunk.column_path().string());
            let is_encrypted = stored_metadata(&*self.source)
                .is_some_and(|metadata| is_encrypted(&metadata, row_group, leaf) == Some(true));
            let reason =
                if is_encrypted { "the column is encrypted; choose another column".to_owned() } else { reason };
            Error::Values { row_group, column, reason }
        };
        let missing = "there is no such column chunk; choose a row group and a column of the file";
        let chunk = chunk.ok_or_else(|| failed(missing.into()))?;
        let mut hashes = Hashes::new(chunk.column_descr(), companions, sink).map_err(failed)?;
        // Some writers give the offset 0 to the pages of an empty row group.
        let rows = group.map_or(0, RowGroupMetaData::num_rows);
        match (rows, chunk.num_values()) {
            (0, 0) => return Ok(ChunkPages { is_all_dictionary: true, ..ChunkPages::default() }),
            (_, 0) => return Err(failed(format!("the chunk has no values, but its row group has {rows} rows"))),
            _ => {}
        }
        let rows = usize::try_from(rows).unwrap_or(0);
        let walk = guarded(|| Walk::new(&self.source, chunk, rows)).map_err(failed)?;
        let found = guarded(|| walk.run(&mut hashes)).map_err(failed)?;
        hashes.flush();
        Ok(ChunkPages { num_hashed: hashes.num_values(), ..found })
    }
}

/// A walk over the pages of a chunk. This crate reads each page header at `offset`. `pages`, the
/// reader of the crate `parquet`, moves along page by page.
struct Walk<'a, R: ChunkReader> {
    source: &'a Arc<R>,
    chunk: Cow<'a, ColumnChunkMetaData>,
    column: ColumnDescPtr,
    pages: SerializedPageReader<R>,
    offset: u64,
    left_bytes: u64,
}

impl<'a, R: ChunkReader + 'static> Walk<'a, R> {
    fn new(source: &'a Arc<R>, chunk: &'a ColumnChunkMetaData, rows: usize) -> Result<Self, String> {
        let chunk = without_zero(chunk)?;
        let data = chunk.data_page_offset();
        let start = chunk.dictionary_page_offset().unwrap_or(data);
        // If the dictionary follows the data page, some readers begin at the data page, and others
        // at the dictionary.
        if start > data || start < MAGIC_LEN_BYTES {
            return Err("the location of the dictionary or of the first page is not valid".into());
        }
        let (Ok(offset), Ok(left_bytes)) = (u64::try_from(start), u64::try_from(chunk.compressed_size())) else {
            return Err("the compressed size of the chunk is negative".into());
        };
        if offset.checked_add(left_bytes).is_none_or(|end| end > source.len()) {
            return Err("the chunk exceeds the file".into());
        }
        let column = chunk.column_descr_ptr();
        let pages = SerializedPageReader::new(source.clone(), &chunk, rows, None).map_err(|error| error.to_string())?;
        Ok(Self { source, chunk, column, pages, offset, left_bytes })
    }

    fn run(mut self, hashes: &mut Hashes<'_>) -> Result<ChunkPages, String> {
        let mut found = ChunkPages { is_all_dictionary: true, ..ChunkPages::default() };
        let mut has_dictionary = false;
        let expected = u64::try_from(self.chunk.num_values()).map_err(|_| "the number of values is not valid")?;
        while self.left_bytes > 0 {
            let header = header::read(&**self.source, self.offset, self.left_bytes)?;
            let at = self.offset;
            self.offset += header.total_len_bytes;
            self.left_bytes -= header.total_len_bytes;
            match header.content {
                Content::Dictionary => has_dictionary = true,
                // `get_next_page` would pass over an index page and return the page after it.
                Content::Nothing => self.skip_page()?,
                Content::Indices if has_dictionary => self.skip_page()?,
                Content::Indices => return Err(format!("the page at offset {at} has no dictionary before it")),
                Content::Plain | Content::Encoded => found.is_all_dictionary = false,
            }
            if !matches!(header.content, Content::Dictionary | Content::Nothing) {
                found.num_values += header.num_values;
                // A false number of values could keep the decoder busy for a long time.
                if found.num_values > expected {
                    return Err(format!("the pages have more values than the metadata say ({expected})"));
                }
            }
            if !matches!(header.content, Content::Indices | Content::Nothing) {
                let page = self.pages.get_next_page().map_err(|error| error.to_string())?;
                let page = page.filter(|page| header.describes(page));
                let page = page.ok_or_else(|| format!("the page at offset {at} differs from its header"))?;
                self.add(page, header.content, hashes).map_err(|reason| format!("page at offset {at}: {reason}"))?;
            }
        }
        // `pages` must be at the end of the chunk, too.
        if self.pages.get_next_page().map_err(|error| error.to_string())?.is_some() {
            return Err("the pages differ from their headers".into());
        }
        match found.num_values == expected {
            true => Ok(found),
            false => Err(format!("the pages have {} values, but the metadata say {expected}", found.num_values)),
        }
    }

    fn skip_page(&mut self) -> Result<(), String> {
        self.pages.skip_next_page().map_err(|error| error.to_string())
    }

    fn add(&self, page: Page, content: Content, hashes: &mut Hashes<'_>) -> Result<(), String> {
        let num_values = u64::from(page.num_values());
        match content {
            Content::Dictionary => match hashes.add_page(page.buffer(), |num| num == num_values) {
                true => Ok(()),
                false => Err("the dictionary is not valid".into()),
            },
            Content::Plain => {
                let fits = |num| match self.has_levels() {
                    true => num <= num_values,
                    false => num == num_values,
                };
                let payload = plain_payload(&page, &self.column).filter(|bytes| !self.may_have_lengths(bytes));
                if payload.is_some_and(|bytes| hashes.add_page(bytes, fits)) {
                    return Ok(());
                }
                decode::add_page(&self.column, page, hashes).map_err(|error| error.to_string())
            }
            _ => decode::add_page(&self.column, page, hashes).map_err(|error| error.to_string()),
        }
    }

    /// Returns whether a length may precede each FIXED_LEN_BYTE_ARRAY value, as in pages of an old
    /// version of the crate `parquet`. If so, the caller uses the general decoder, so that the
    /// hashes are those of the values that the crate `parquet` reads.
    fn may_have_lengths(&self, payload: &[u8]) -> bool {
        self.column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY
            && payload.starts_with(&self.column.type_length().to_le_bytes())
    }

    fn has_levels(&self) -> bool {
        self.column.max_def_level() > 0 || self.column.max_rep_level() > 0
    }
}

/// Returns the metadata as the file stores them, or `None` if they cannot be found.
fn stored_metadata(source: &impl ChunkReader) -> Option<Bytes> {
    let end = source.len().checked_sub(TAIL_LEN_BYTES as u64)?;
    let tail = source.get_bytes(end, TAIL_LEN_BYTES).ok()?;
    let len = u32::from_le_bytes(*tail.first_chunk()?);
    source.get_bytes(end.checked_sub(len.into())?, usize::try_from(len).ok()?).ok()
}

/// Returns the metadata with a type for each empty list that has none, or `None` if there is no such
/// list. fastparquet writes such lists, for example in a file without row groups, and the crate
/// `parquet` refuses them. All lists of the metadata hold structs.
fn typed(metadata: &[u8]) -> Option<Vec<u8>> {
    let mut file = Struct::parse(metadata).ok()?.0;
    let mut untyped = file.fields.iter_mut().filter(|field| field.kind == Kind::LIST && *field.value == [0]).peekable();
    untyped.peek()?;
    untyped.for_each(|field| field.value = Cow::Owned(vec![EMPTY_LIST_OF_STRUCTS]));
    let mut typed = Vec::with_capacity(metadata.len());
    file.encode(&mut typed);
    Some(typed)
}

/// Returns whether a chunk is encrypted, or `None` if the metadata do not have the chunk.
fn is_encrypted(metadata: &[u8], row_group: usize, leaf: usize) -> Option<bool> {
    let file = Struct::parse(metadata).ok()?.0;
    let group = Struct::parse(file.list(4)?.elements.get(row_group)?).ok()?.0;
    let chunk = Struct::parse(group.list(1)?.elements.get(leaf)?).ok()?.0;
    Some(chunk.get(8).is_some() || chunk.get(9).is_some())
}

/// Returns the chunk without its dictionary offset if the offset is 0. Some writers store 0 for a
/// chunk without a dictionary.
fn without_zero(chunk: &ColumnChunkMetaData) -> Result<Cow<'_, ColumnChunkMetaData>, String> {
    if chunk.dictionary_page_offset() != Some(0) {
        return Ok(Cow::Borrowed(chunk));
    }
    let builder = chunk.clone().into_builder().set_dictionary_page_offset(None);
    builder.build().map(Cow::Owned).map_err(|error| error.to_string())
}

/// Returns the bytes of a data page after its levels. Returns `None` for a dictionary page, for a
/// page that is too short, and for a page of version 1 whose levels are not RLE-encoded. The caller
/// then uses the general decoder.
fn plain_payload<'a>(page: &'a Page, column: &ColumnDescPtr) -> Option<&'a [u8]> {
    match page {
        Page::DataPage { buf, def_level_encoding, rep_level_encoding, .. } => {
            let mut rest = buf.as_ref();
            let levels = [(column.max_rep_level(), rep_level_encoding), (column.max_def_level(), def_level_encoding)];
            for (_, encoding) in levels.into_iter().filter(|(max, _)| *max > 0) {
                if *encoding != Encoding::RLE {
                    return None;
                }
                let (len, after) = rest.split_first_chunk::<4>()?;
                rest = after.get(usize::try_from(u32::from_le_bytes(*len)).ok()?..)?;
            }
            Some(rest)
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            buf.get(usize::try_from(levels).ok()?..)
        }
        Page::DictionaryPage { .. } => None,
    }
}
