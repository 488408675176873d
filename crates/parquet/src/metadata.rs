//! Reads the metadata of a Parquet file: finds the column chunks and their filters.
//!
//! ```text
//! "PAR1"  pages, indexes, filters  FileMetaData  its length (u32)  "PAR1"
//! FileMetaData:   2 schema  3 number of rows  4 row groups  5 keys and values  8 encryption
//!                 9 signing key
//! RowGroup:       1 columns  3 number of rows  4 sorting columns
//! ColumnChunk:    1 file path  3 metadata  8 encryption  9 encrypted metadata
//! ColumnMetaData: 1 type  3 path  5 values  7 length  9 data  11 dictionary  12 statistics
//!                 14, 15 filter
//! ```
//! The list has only the fields that this crate uses. Metadata and filters have no checksums, so
//! damage that still parses goes unnoticed.
//!
//! This module has its own metadata parser: docs/DESIGN.md says why.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use filterblock::internals::codec::u32_from;

use crate::bloom::ParquetBloom;
use crate::error::{Error, Field, Result, shortened};
use crate::schema::{self, Leaf, PhysicalType};
use crate::thrift::{Encoded, Kind, Malformed, Struct};

pub(crate) const MAGIC: &[u8; 4] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// The minimum length in bytes of a column chunk in the metadata. The minimum limits the memory for
/// hostile metadata: a chunk without fields would take one byte in the file, but many bytes in
/// memory.
const MIN_CHUNK_LEN_BYTES: usize = 16;

/// The minimum length in bytes of a chunk's pages whose location is trusted. The header of a page
/// is longer.
const MIN_PAGES_LEN_BYTES: u64 = 8;

/// The length in bytes of the shortest filter: its header and one block.
const MIN_FILTER_LEN_BYTES: u64 = 47;

/// The maximum length of a filter's header. Known writers need 15 to 20 bytes.
const MAX_FILTER_HEADER_LEN_BYTES: u64 = 256;

/// The start of the key that marks a column whose filters [`append::add`](crate::append) added
/// although an engine loses rows. The path of the column follows.
pub(crate) const FORCED_KEY: &str = "filterblock.forced_type:";
/// The key with which DuckDB says that its filters of intervals hold both the stored values and the
/// values for which DuckDB asks. Only with this key, DuckDB asks such filters.
pub(crate) const DUCKDB_INTERVALS_KEY: &str = "duckdb.interval_bloom_filter";

const MAX_NAMED_COLUMNS: usize = 5;

const ENCRYPTED_ADVICE: &str = "give a file without encryption and signature";

/// The location of a column chunk's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterRange {
    /// The offset of the filter's header in the file.
    pub offset: u64,
    /// The length in bytes of header and bits, or `None` if the writer did not store it. A stored
    /// length below 0 is read as 0, which contradicts every filter.
    pub len_bytes: Option<u64>,
}

/// The part of a column in one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParquetColumnChunk {
    /// The number of the row group, from 0.
    pub row_group: usize,
    /// The number of the leaf column, from 0.
    pub leaf: usize,
    /// The path of the column below the schema's root: the names of its groups and of the column,
    /// joined by dots.
    pub path: Arc<str>,
    /// The physical type of the column, or `None` if the type is missing or unknown.
    pub physical_type: Option<PhysicalType>,
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The offset of the first page. In a damaged file, the pages may lie outside of the file.
    pub offset: u64,
    /// The length in bytes of the chunk's pages as stored (compressed), with their headers.
    pub len_bytes: u64,
    /// The location of the filter. It is `None` if the chunk has no filter, is encrypted or lies in
    /// another file. A stored offset of 0 or below means "no filter".
    pub filter: Option<FilterRange>,
    /// Whether the metadata store a filter offset of 0 or below, or a filter length without an
    /// offset. Such a chunk has no filter.
    pub has_void_filter: bool,
    /// The number of rows of the row group, or `None` if it is missing.
    num_rows: Option<i64>,
    num_nulls: Option<u64>,
    is_encrypted: bool,
    /// The location of the encoded `ColumnMetaData` in the metadata.
    pub(crate) column: Range<usize>,
    /// The start and the length of the pages as the footer states them, also if the chunk has no
    /// values. No filter may lie there.
    stated_pages: (u64, u64),
    /// The end of the space that the filter can take: the start of the next pages, of the next
    /// filter or of the metadata. It is 0 if the filter has no space of its own.
    space_end: u64,
}

impl ParquetColumnChunk {
    /// Returns the number of nulls that the statistics give, or `None` if there is no such number.
    #[must_use]
    pub fn num_nulls(&self) -> Option<u64> {
        self.num_nulls
    }

    /// Returns whether the statistics allow a value that is not null. The filter of such a chunk
    /// has a bit that is set.
    #[must_use]
    pub fn may_have_values(&self) -> bool {
        self.num_values > self.num_nulls.unwrap_or(0)
    }

    /// Returns whether the row group has no rows, so that no value is present. A chunk with a filter
    /// is never empty: its filter answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.num_values == 0 && self.num_rows == Some(0) && self.filter.is_none()
    }

    /// Returns whether the chunk, and so its filter, is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the start and the end of the pages, or `None` if the location is unknown.
    fn pages(&self) -> Option<(u64, u64)> {
        let (offset, len_bytes) = self.stated_pages;
        let is_known = len_bytes >= MIN_PAGES_LEN_BYTES && offset >= MAGIC.len() as u64;
        is_known.then(|| (offset, offset.saturating_add(len_bytes)))
    }

    /// Returns the bytes that the filter takes according to the footer, at least one.
    fn claimed(&self) -> Option<(u64, u64)> {
        let filter = self.filter?;
        Some((filter.offset, filter.offset.saturating_add(filter.len_bytes.unwrap_or(0).max(1))))
    }
}

/// The column chunks of a Parquet file and the locations of their filters.
#[derive(Debug, Clone, Default)]
pub struct ParquetMetadata {
    leaves: Vec<Leaf>,
    num_row_groups: usize,
    chunks: Vec<ParquetColumnChunk>,
    sorted_leaf: Option<usize>,
    /// The keys of the file's pairs that this crate uses.
    keys: BTreeSet<String>,
}

impl ParquetMetadata {
    /// The number of bytes at the end of a file that [`Self::range`] needs.
    pub const TAIL_LEN_BYTES: usize = 8;

    /// Returns the location of the metadata in a file of `file_len_bytes` bytes. The arguments
    /// `head` and `tail` are the first four and the last eight bytes of the file.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if a magic or the length is wrong, and [`Error::Unsupported`] if
    /// the metadata are encrypted.
    pub fn range(file_len_bytes: u64, head: [u8; 4], tail: [u8; Self::TAIL_LEN_BYTES]) -> Result<Range<u64>> {
        let end = file_len_bytes.checked_sub(Self::TAIL_LEN_BYTES as u64);
        let end = end.ok_or(Error::corrupt(Field::FileLen, 0))?;
        let [len @ .., a, b, c, d] = tail;
        match &[a, b, c, d] {
            MAGIC => {}
            MAGIC_ENCRYPTED => {
                return Err(Error::unsupported(
                    "the footer is encrypted, and this version of filterblock cannot decrypt it",
                    "let the engine write the file with a plaintext footer, or without encryption to add filters",
                ));
            }
            _ => return Err(Error::corrupt(Field::Magic, end + 4)),
        }
        let start = end.checked_sub(u32_from(&len).into()).filter(|&start| start >= MAGIC.len() as u64);
        let start = start.ok_or(Error::corrupt(Field::MetadataLen, end))?;
        if head == *MAGIC { Ok(start..end) } else { Err(Error::corrupt(Field::Magic, 0)) }
    }

    /// Reads the encoded metadata of a file of `len_bytes` bytes, and returns them with their offset.
    /// `read` returns the bytes of a range.
    pub(crate) fn load<B: AsRef<[u8]>>(
        len_bytes: u64,
        mut read: impl FnMut(Range<u64>) -> Result<B>,
    ) -> Result<(B, u64)> {
        let too_short = || Error::corrupt(Field::FileLen, 0);
        let tail_offset = len_bytes.checked_sub(Self::TAIL_LEN_BYTES as u64).ok_or_else(too_short)?;
        let (head, tail) = (read(0..MAGIC.len() as u64)?, read(tail_offset..len_bytes)?);
        let (head, tail) = (head.as_ref().first_chunk(), tail.as_ref().first_chunk());
        let range = Self::range(len_bytes, *head.ok_or_else(too_short)?, *tail.ok_or_else(too_short)?)?;
        Ok((read(range.clone())?, range.start))
    }

    /// Parses metadata that begin at `offset` of their file.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the metadata are damaged, or if the row groups do not have the
    /// number of rows of the file. Returns [`Error::ChunkMismatch`] if a row group does not have the
    /// columns of the schema, in its order and with its types.
    pub fn parse(metadata: &[u8], offset: u64) -> Result<Self> {
        Walk::run(metadata, offset).0
    }

    /// Parses metadata as [`Self::parse`] does. Returns an error also if a rewrite would change other
    /// bytes than the locations of filters, or if filters cannot be added to the file.
    pub(crate) fn parse_for_rewrite(metadata: &[u8], offset: u64) -> Result<Self> {
        match Walk::run(metadata, offset) {
            // An encrypted file may have other faults for this reason.
            (_, Some(obstacle)) => Err(obstacle),
            (found, None) => found,
        }
    }

    /// Returns the leaf columns in the order of the schema.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns every column chunk, with and without a filter, ordered by row group.
    #[must_use]
    pub fn column_chunks(&self) -> &[ParquetColumnChunk] {
        &self.chunks
    }

    /// Returns the chunk of a leaf column in a row group, or `None` if there is no such chunk.
    #[must_use]
    pub fn chunk(&self, row_group: usize, leaf: usize) -> Option<&ParquetColumnChunk> {
        let at = row_group.checked_mul(self.leaves.len())?.checked_add(leaf)?;
        self.chunks.get(at).filter(|_| leaf < self.leaves.len())
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.num_row_groups
    }

    /// Returns whether this leaf column is the first sorting column of each row group that has
    /// rows. Returns false if no row group has rows.
    #[must_use]
    pub fn is_sorted_by(&self, leaf: usize) -> bool {
        self.sorted_leaf == Some(leaf)
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Returns the location of a chunk's filter: of its header and its bits. If the writer did not
    /// store the length, the location ends at the next pages, at the next filter or at the metadata.
    /// Returns `None` if [`ParquetColumnChunk::filter`] is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the filter does not lie before the metadata, or if it overlaps
    /// pages or another filter. One of the two locations is then wrong, and the filter of other
    /// values would deny values of this chunk. Returns it also for a length that no filter has.
    pub fn filter_range(&self, chunk: &ParquetColumnChunk) -> Result<Option<Range<u64>>> {
        let Some(place) = chunk.filter else { return Ok(None) };
        let end = place.len_bytes.map_or(Some(chunk.space_end), |len| place.offset.checked_add(len));
        let is_inside = |end: &u64| place.offset <= *end && *end <= chunk.space_end;
        let end = end.filter(is_inside).ok_or(Error::corrupt(Field::FilterLocation, place.offset))?;
        match place.len_bytes.is_some_and(|stored| stored < MIN_FILTER_LEN_BYTES) {
            true => Err(Error::corrupt(Field::FilterLen, place.offset)),
            false => Ok(Some(place.offset..end)),
        }
    }

    /// Parses the filter of a chunk. `bytes` are the bytes at [`Self::filter_range`].
    ///
    /// If no bit of the filter is set, but the chunk may have values, the returned filter has no
    /// blocks, and its answer is always "maybe".
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the header is invalid, if the bits are incomplete, or if the
    /// footer stores another length. Returns [`Error::Unsupported`] for another algorithm, hash or
    /// compression.
    pub fn parse_filter<'a>(&self, chunk: &ParquetColumnChunk, bytes: &'a [u8]) -> Result<ParquetBloom<'a>> {
        let filter = parse_stored(chunk, bytes)?;
        Ok(if filter.is_zero() && chunk.may_have_values() { ParquetBloom::new(&[]) } else { filter })
    }

    /// Reads the header and the bits of a chunk's filter. Returns `None` if the chunk has none.
    ///
    /// # Errors
    /// Returns the errors of [`Self::filter_range`] and [`Self::parse_filter`]. Returns
    /// [`Error::Changed`] if the file became shorter, and [`Error::Io`] if a read fails.
    pub fn read_filter(&self, chunk: &ParquetColumnChunk, file: &mut (impl Read + Seek)) -> Result<Option<Vec<u8>>> {
        let Some(Range { start, mut end }) = self.filter_range(chunk)? else { return Ok(None) };
        // The header limits the memory: a false length in the footer may be that of the whole file.
        let header = read_at(file, start..end.min(start.saturating_add(MAX_FILTER_HEADER_LEN_BYTES)))?;
        let len_bytes = ParquetBloom::len_bytes_of(&header).map_err(|error| error.moved_by(start))?;
        if chunk.filter.and_then(|filter| filter.len_bytes).is_some_and(|stored| stored != len_bytes) {
            return Err(Error::corrupt(Field::FilterLen, start));
        }
        let real_end = start.checked_add(len_bytes).filter(|real_end| *real_end <= end);
        end = real_end.ok_or(Error::corrupt(Field::FilterHeader, start))?;
        let bytes = read_at(file, start..end)?;
        parse_stored(chunk, &bytes)?;
        Ok(Some(bytes))
    }
}

/// Parses a filter, and compares its length with the length that the footer stores.
fn parse_stored<'a>(chunk: &ParquetColumnChunk, bytes: &'a [u8]) -> Result<ParquetBloom<'a>> {
    let FilterRange { offset, len_bytes: stored } = chunk.filter.unwrap_or(FilterRange { offset: 0, len_bytes: None });
    let at = |error: Error| error.moved_by(offset);
    let len_bytes = ParquetBloom::len_bytes_of(bytes).map_err(at)?;
    if stored.is_some_and(|stored| stored != len_bytes) {
        return Err(Error::corrupt(Field::FilterLen, offset));
    }
    ParquetBloom::parse(bytes).map_err(at)
}

/// Reads a range of a file. The caller has checked the range against the length of the file.
pub(crate) fn read_at(file: &mut (impl Read + Seek), range: Range<u64>) -> Result<Vec<u8>> {
    let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| Error::Changed)?;
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(range.start))?;
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::Changed),
        Err(error) => Err(error.into()),
    }
}

struct Walk<'a> {
    metadata: &'a [u8],
    base: u64,
    found: ParquetMetadata,
    /// The first sorting column of each row group that has rows.
    sortings: BTreeSet<Option<usize>>,
    /// The first reason why filters cannot be added to the file.
    obstacle: Option<Error>,
    /// The first encrypted columns of row group 0.
    encrypted: Vec<String>,
}

impl<'a> Walk<'a> {
    fn run(metadata: &'a [u8], base: u64) -> (Result<ParquetMetadata>, Option<Error>) {
        let (found, sortings, encrypted) = (ParquetMetadata::default(), BTreeSet::new(), Vec::new());
        let mut walk = Self { metadata, base, found, sortings, obstacle: None, encrypted };
        let done = walk.file();
        let Self { mut found, sortings, obstacle, .. } = walk;
        find_spaces(&mut found.chunks, base);
        found.sorted_leaf = if sortings.len() == 1 { sortings.into_iter().next().flatten() } else { None };
        (done.map(|()| found), obstacle)
    }

    /// Returns the offset of `bytes` in the file. `bytes` is a part of the metadata.
    fn offset_of(&self, bytes: &[u8]) -> u64 {
        let distance = bytes.as_ptr().addr().checked_sub(self.metadata.as_ptr().addr());
        self.base + distance.filter(|&distance| distance <= self.metadata.len()).unwrap_or(0) as u64
    }

    fn corrupt(&self, field: Field, bytes: &[u8]) -> Error {
        Error::corrupt(field, self.offset_of(bytes))
    }

    fn obstruct(&mut self, error: impl FnOnce(&Self) -> Error) {
        if self.obstacle.is_none() {
            self.obstacle = Some(error(self));
        }
    }

    /// Checks the fields of a struct. Readers differ in which of two fields with one number they use,
    /// so a number that this module uses may not come twice.
    fn check(&mut self, found: &Encoded<'_>, field: Field, used: RangeInclusive<i16>) -> Result<()> {
        if !found.is_canonical {
            if found.fields.has_duplicates_in(used) {
                return Err(self.corrupt(field, found.bytes));
            }
            self.obstruct(|walk| {
                let offset = walk.offset_of(found.bytes);
                Error::unsupported(
                    format!(
                        "the metadata at offset {offset} have an unusual encoding, which a new footer would not keep"
                    ),
                    "write the file again with a common Parquet writer",
                )
            });
        }
        Ok(())
    }

    fn file(&mut self) -> Result<()> {
        let (metadata, base) = (self.metadata, self.base);
        let at = |Malformed { at }| Error::corrupt(Field::FileMetadata, base + at as u64);
        let file = Encoded::parse(metadata).map_err(at)?;
        let is_protected = file.fields.get(8).is_some() || file.fields.get(9).is_some();
        let done = self.content(&file);
        // The encryption comes before all other reasons that the walk has found.
        if is_protected {
            let names = self.encrypted.join(", ");
            let columns = if names.is_empty() { names } else { format!(" (encrypted columns: {names})") };
            let what = format!("the file is encrypted or signed{columns}");
            self.obstacle = Some(Error::unsupported(what, ENCRYPTED_ADVICE));
        }
        done
    }

    fn content(&mut self, file: &Encoded<'_>) -> Result<()> {
        self.check(file, Field::FileMetadata, 2..=4)?;
        let rest = self.metadata.get(file.bytes.len()..).unwrap_or_default();
        // A signature follows the metadata of a signed file.
        if !rest.is_empty() {
            self.obstruct(|walk| walk.corrupt(Field::FileMetadata, rest));
        }
        let file = &file.fields;
        match file.structs(2) {
            Some(schema) => {
                let offset = self.offset_of(self.value(file, 2));
                self.found.leaves = schema::leaves(schema, self.metadata.len(), offset)?;
            }
            None => self.obstruct(|walk| walk.corrupt(Field::Schema, walk.metadata)),
        }
        if self.found.leaves.iter().any(|leaf| leaf.physical_type.is_none()) {
            self.obstruct(|walk| walk.corrupt(Field::Schema, walk.metadata));
        }
        let pairs = file.structs(5).into_iter().flatten().filter_map(|pair| {
            let key = String::from_utf8(pair.ok()?.fields.binary(1)?.to_vec()).ok()?;
            (key.starts_with(FORCED_KEY) || key == DUCKDB_INTERVALS_KEY).then_some(key)
        });
        self.found.keys = pairs.collect();
        let groups = file.structs(4);
        if groups.is_none() {
            self.obstruct(|walk| walk.corrupt(Field::RowGroups, walk.metadata));
        }
        let mut rows = 0_i128;
        for group in groups.into_iter().flatten() {
            let group = group.map_err(|_| self.corrupt(Field::RowGroups, self.value(file, 4)))?;
            rows += i128::from(self.row_group(&group)?);
            self.found.num_row_groups += 1;
        }
        // Without the number, missing row groups would go unnoticed.
        match file.int(3).map_or(!self.found.leaves.is_empty(), |stored| i128::from(stored) != rows) {
            true => Err(self.corrupt(Field::NumRows, self.value(file, 3))),
            false => Ok(()),
        }
    }

    /// Returns the bytes of a field, or all metadata if there is no such field.
    fn value<'s>(&self, of: &'s Struct<'_>, id: i16) -> &'s [u8]
    where
        'a: 's,
    {
        of.get(id).map_or(self.metadata, |field| &field.value)
    }

    /// Reads a row group, which must have the columns of the schema. Returns the number of its rows,
    /// or 0 if it is missing.
    fn row_group(&mut self, group: &Encoded<'_>) -> Result<i64> {
        self.check(group, Field::RowGroup, 1..=4)?;
        let fields = &group.fields;
        let num_rows = fields.int(3);
        let columns = fields.structs(1);
        if columns.is_none() {
            self.obstruct(|walk| walk.corrupt(Field::Columns, group.bytes));
        }
        let mut leaf = 0;
        for chunk in columns.into_iter().flatten() {
            let chunk = chunk.map_err(|_| self.corrupt(Field::Columns, group.bytes))?;
            if chunk.bytes.len() < MIN_CHUNK_LEN_BYTES {
                return Err(self.corrupt(Field::ColumnChunk, chunk.bytes));
            }
            let found = self.chunk(&chunk, leaf)?;
            self.found.chunks.push(ParquetColumnChunk { num_rows, ..found });
            leaf += 1;
        }
        if let Some(missing) = self.found.leaves.get(leaf) {
            let end = group.bytes.get(group.bytes.len()..).unwrap_or_default();
            return Err(self.mismatch(&missing.path, end));
        }
        if num_rows != Some(0) {
            let first = fields.structs(4).and_then(|mut order| order.next()?.ok());
            self.sortings.insert(first.and_then(|first| usize::try_from(first.fields.int(1)?).ok()));
        }
        match num_rows.unwrap_or(0) {
            rows @ 0.. => Ok(rows),
            _ => Err(self.corrupt(Field::NumRows, self.value(fields, 3))),
        }
    }

    fn mismatch(&self, column: &str, chunk: &[u8]) -> Error {
        let column = column.chars().take(100).collect();
        Error::ChunkMismatch { row_group: self.found.num_row_groups, column, offset: self.offset_of(chunk) }
    }

    /// Reads the chunk of a leaf column. A chunk that lies in another file or is encrypted gets no
    /// filter.
    fn chunk(&mut self, chunk: &Encoded<'_>, leaf: usize) -> Result<ParquetColumnChunk> {
        self.check(chunk, Field::ColumnChunk, 1..=9)?;
        let (fields, row_group) = (&chunk.fields, self.found.num_row_groups);
        let column = fields.get(3).filter(|field| field.kind == Kind::STRUCT);
        let column = column.map(|field| Encoded::parse(&field.value)).transpose();
        let column = column.map_err(|_| self.corrupt(Field::ColumnMetadata, chunk.bytes))?;
        let path = column.as_ref().and_then(|column| column.fields.joined(3)).unwrap_or_default();
        let Some(of_schema) = self.found.leaves.get(leaf) else { return Err(self.mismatch(&path, chunk.bytes)) };
        let (expected, physical_type) = (Arc::clone(&of_schema.path), of_schema.physical_type);
        let is_encrypted = fields.get(8).is_some() || fields.get(9).is_some();
        let is_elsewhere = fields.binary(1).is_some_and(|path| !path.is_empty());
        if fields.get(8).is_some() && row_group == 0 && self.encrypted.len() < MAX_NAMED_COLUMNS {
            self.encrypted.push(shortened(&expected).into_owned());
        }
        if is_encrypted {
            let what = format!("column {} is encrypted", shortened(&expected));
            self.obstruct(|_| Error::unsupported(what, ENCRYPTED_ADVICE));
        }
        if is_elsewhere {
            self.obstruct(|_| {
                Error::unsupported(
                    "the file only describes the data of other files",
                    "give the files with the data (if you add filters to them, write a _metadata file again or delete \
                     it)",
                )
            });
        }
        let Some(column) = column else { return Err(self.mismatch(&expected, chunk.bytes)) };
        // Two locations of a filter are no error of the file: its other filters can be used.
        self.check(&column, Field::ColumnMetadata, 1..=13)?;
        let (fields, bytes) = (&column.fields, column.bytes);
        let own_type = fields.int(1).and_then(PhysicalType::from_number);
        if path != *expected || own_type != physical_type {
            return Err(self.mismatch(&expected, chunk.bytes));
        }
        // A number below 0 is read as 0. As an offset, it means "no filter" or "no dictionary". As a
        // length, it contradicts every filter.
        let zero_or_above = |id| fields.int(id).map(|number| number.max(0).cast_unsigned());
        let num_values = match fields.int(5).map(u64::try_from) {
            Some(num) => num.map_err(|_| self.corrupt(Field::NumValues, bytes))?,
            None => {
                self.obstruct(|walk| walk.corrupt(Field::NumValues, bytes));
                0
            }
        };
        let dictionary = zero_or_above(11).filter(|&offset| offset > 0);
        let place = dictionary.or_else(|| zero_or_above(9)).zip(zero_or_above(7));
        let is_inside = |(offset, len): &(u64, u64)| offset.checked_add(*len).is_some_and(|end| end <= self.base);
        let is_negative = |id| fields.get(id).is_some() && fields.int(id).is_none_or(|number| number < 0);
        let is_known = place.as_ref().is_some_and(is_inside) && ![7, 9, 11].into_iter().any(is_negative);
        let stated_pages = place.unwrap_or((0, 0));
        // Nobody reads the pages of a chunk without values.
        let place = place.filter(|_| is_known || num_values > 0);
        if !is_known && num_values > 0 {
            self.obstruct(|walk| walk.corrupt(Field::ChunkLocation, bytes));
        }
        let (filter_offset, filter_len) = (zero_or_above(14), zero_or_above(15));
        let is_other = |id| fields.get(id).is_some() && fields.int(id).is_none();
        if is_other(14) || is_other(15) {
            self.obstruct(|walk| walk.corrupt(Field::FilterFields, bytes));
        }
        // Readers differ in which of two locations they use. A length of 0 contradicts every filter.
        let is_twice = !column.is_canonical && fields.has_duplicates_in(14..=15);
        let filter_len = if is_twice { Some(0) } else { filter_len };
        let offsets = fields.fields.iter().filter(|field| field.id == 14).filter_map(|field| field.int());
        let filter = offsets.filter_map(|offset| u64::try_from(offset).ok()).rfind(|&offset| offset > 0);
        let filter = filter.map(|offset| FilterRange { offset, len_bytes: filter_len });
        let (offset, len_bytes) = place.unwrap_or((0, 0));
        let start = usize::try_from(self.offset_of(bytes) - self.base).unwrap_or(0);
        Ok(ParquetColumnChunk {
            row_group,
            leaf,
            path: expected,
            physical_type,
            num_values,
            offset,
            len_bytes,
            filter: filter.filter(|_| !is_encrypted && !is_elsewhere),
            has_void_filter: filter.is_none() && (filter_offset.is_some() || filter_len.is_some()),
            num_rows: None,
            num_nulls: fields.nested(12).and_then(|statistics| u64::try_from(statistics.int(3)?).ok()),
            is_encrypted,
            column: start..start + bytes.len(),
            stated_pages,
            space_end: 0,
        })
    }
}

/// Finds the space of each filter. `end` is the offset of the metadata. A filter has no space of
/// its own if it begins in pages, or where another filter begins. Nor has it if it claims the first
/// byte of other pages or of another filter.
fn find_spaces(chunks: &mut [ParquetColumnChunk], end: u64) {
    let mut pages: Vec<(u64, u64)> = chunks.iter().filter_map(ParquetColumnChunk::pages).collect();
    let offsets = chunks.iter().filter_map(|chunk| chunk.filter).map(|filter| filter.offset);
    let mut starts: Vec<u64> = offsets.chain(pages.iter().map(|&(start, _)| start)).collect();
    starts.sort_unstable();
    pages.sort_unstable();
    // Each end becomes the highest end up to these pages.
    pages.iter_mut().fold(MAGIC.len() as u64, |highest, (_, end)| {
        *end = highest.max(*end);
        *end
    });
    for chunk in chunks {
        let Some((start, claimed_end)) = chunk.claimed() else { continue };
        let (same, next) =
            (starts.partition_point(|&other| other < start), starts.partition_point(|&other| other <= start));
        let before = pages.partition_point(|&(other, _)| other <= start).checked_sub(1).and_then(|at| pages.get(at));
        let pages_end = before.map_or(MAGIC.len() as u64, |&(_, end)| end);
        let space_end = starts.get(next).map_or(end, |&other| other.min(end));
        let is_alone = next - same == 1 && pages_end <= start && claimed_end <= space_end;
        chunk.space_end = if is_alone { space_end } else { 0 };
    }
}
