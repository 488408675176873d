//! Reads the values of a column chunk, and passes their hashes to the caller.
//!
//! Every value of the chunk is hashed, or is in a dictionary that is hashed. To find the values,
//! the reader does not trust the statistics of the footer: it reads the header of every page.

mod hashes;
mod pages;

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::error::{Error, Field, Result};
use crate::footer::Footer;
use crate::metadata::ParquetMetadata;
use crate::thrift::{Kind, Struct};
use hashes::{Companions, Hashes};
use pages::{Content, Pages};

pub use pages::{FileStart, FromOffset};

const MAGIC_LEN_BYTES: i64 = 4;
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
    parsed: Arc<ParquetMetadata>,
}

impl<R: ChunkReader + 'static> ParquetValues<R> {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// Returns the errors of [`ParquetMetadata::range`] and [`ParquetMetadata::parse`], and the
    /// errors of [`Self::of`].
    pub fn open(source: R) -> Result<Self> {
        let (metadata, offset) = ParquetMetadata::load(source.len(), |range| {
            let len = usize::try_from(range.end - range.start).map_err(|_| Error::corrupt(Field::MetadataLen, 0))?;
            source.get_bytes(range.start, len).map_err(|error| Error::Io(std::io::Error::other(error)))
        })?;
        let parsed = ParquetMetadata::parse(&metadata, offset)?;
        Self::with(source, &metadata, Arc::new(parsed))
    }

    /// Returns the values of the file to which `footer` belongs. Reads nothing.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the crate `parquet` cannot decode the metadata.
    pub fn of(source: R, footer: &Footer) -> Result<Self> {
        Self::with(source, footer.metadata(), Arc::clone(footer.parsed()))
    }

    fn with(source: R, stored: &[u8], parsed: Arc<ParquetMetadata>) -> Result<Self> {
        let decode =
            |bytes: &[u8]| guarded(|| ParquetMetaDataReader::decode_metadata(bytes).map_err(|error| error.to_string()));
        let decoded = decode(stored).or_else(|reason| decode(&typed(stored).ok_or(reason)?));
        let metadata = decoded.map_err(|reason| {
            let what = format!("cannot read the metadata: {reason}");
            Error::unsupported(what, "check the file with the engine that wrote it")
        })?;
        Ok(Self { source: Arc::new(source), metadata, parsed })
    }

    /// Returns the metadata as the crate `parquet` decodes them.
    #[must_use]
    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// Returns the metadata as this crate parses them.
    #[must_use]
    pub fn parsed(&self) -> &Arc<ParquetMetadata> {
        &self.parsed
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
        let Some(chunk) = self.parsed.chunk(row_group, leaf) else { return false };
        match chunk.num_nulls() {
            Some(nulls) if chunk.num_values > 0 => chunk.num_values == nulls,
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
        let (page, _) = pages::read(&*self.source, offset, len_bytes).ok()?;
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
            let reason = match self.parsed.chunk(row_group, leaf) {
                Some(chunk) if chunk.is_encrypted() => "the column is encrypted; choose another column".to_owned(),
                _ => reason,
            };
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
    source: Arc<Pages<R>>,
    chunk: Cow<'a, ColumnChunkMetaData>,
    column: ColumnDescPtr,
    pages: SerializedPageReader<Pages<R>>,
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
        let source = Arc::new(Pages::new(Arc::clone(source)));
        let pages = SerializedPageReader::new(Arc::clone(&source), &chunk, rows, None);
        let pages = pages.map_err(|error| error.to_string())?;
        Ok(Self { source, chunk, column, pages, offset, left_bytes })
    }

    fn run(mut self, hashes: &mut Hashes<'_>) -> Result<ChunkPages, String> {
        let mut found = ChunkPages { is_all_dictionary: true, ..ChunkPages::default() };
        let mut has_dictionary = false;
        let expected = u64::try_from(self.chunk.num_values()).map_err(|_| "the number of values is not valid")?;
        while self.left_bytes > 0 {
            let header = self.source.header(self.offset, self.left_bytes)?;
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
                hashes::decode_page(&self.column, page, hashes).map_err(|error| error.to_string())
            }
            _ => hashes::decode_page(&self.column, page, hashes).map_err(|error| error.to_string()),
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

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of this thread becomes an error of this crate. A panic hook can call
/// this function, and print nothing if it returns true.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Installs a panic hook that prints no message for a panic that becomes an error. The crate
/// `parquet` panics on some damaged pages.
pub fn quiet_guarded_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_guarded() {
            hook(panic);
        }
    }));
}

/// Runs `work` and returns its result. A panic becomes an error with the panic's message, if any: the
/// crate `parquet` panics on some damaged pages, for example on some that are encoded as
/// `DELTA_BYTE_ARRAY`.
///
/// Data that `work` changed before a panic may be incomplete, so the caller must discard the data.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
        Err(format!("the data may be damaged: {text}"))
    })
}
