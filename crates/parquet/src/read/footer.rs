//! Reads Parquet files: finds the column chunks and their filters.
//!
//! ```text
//! "PAR1"  pages, indexes, filters  file metadata (Thrift)  its length (u32)  "PAR1"
//! ```
//! Metadata and filters have no checksums, so damage that still parses goes unnoticed.
//!
//! This module has its own metadata parser: docs/DESIGN.md says why.

use std::ops::Range;

use filterblock::internals::codec::u32_from;
use filterblock_foreign::{Error, Field, Result};

use super::ParquetBloom;
use super::schema::{Leaf, read_leaves};
use super::thrift::{Reader, Type};

const MAGIC: &[u8; 4] = b"PAR1";
/// The magic of a file with encrypted metadata.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// The minimum length in bytes of a column chunk in the metadata. The minimum limits the memory for
/// hostile metadata: a chunk without fields would take one byte in the file, but many bytes in
/// memory.
const MIN_CHUNK_LEN_BYTES: u64 = 16;

/// The minimum length in bytes of a chunk's pages whose location is trusted. The header of a page
/// is longer.
const MIN_PAGES_LEN_BYTES: u64 = 8;

/// The length in bytes of the shortest filter: its header and one block.
const MIN_FILTER_LEN_BYTES: u64 = 47;

/// The physical type of a column. It decides how a value is encoded before it is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PhysicalType {
    /// One bit.
    Boolean,
    /// Four bytes, little endian.
    Int32,
    /// Eight bytes, little endian.
    Int64,
    /// Twelve bytes. This type is deprecated.
    Int96,
    /// Four bytes, IEEE 754, little endian.
    Float,
    /// Eight bytes, IEEE 754, little endian.
    Double,
    /// The bytes without their length.
    ByteArray,
    /// The bytes.
    FixedLenByteArray,
}

impl PhysicalType {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Boolean, "BOOLEAN"),
        (Self::Int32, "INT32"),
        (Self::Int64, "INT64"),
        (Self::Int96, "INT96"),
        (Self::Float, "FLOAT"),
        (Self::Double, "DOUBLE"),
        (Self::ByteArray, "BYTE_ARRAY"),
        (Self::FixedLenByteArray, "FIXED_LEN_BYTE_ARRAY"),
    ];

    /// Returns the type with this number in the format's specification, or `None` for an unknown
    /// number.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        Some(Self::ALL.get(usize::try_from(number).ok()?)?.0)
    }

    /// Returns the number in the format's specification.
    #[must_use]
    pub fn number(self) -> i64 {
        self as i64
    }

    /// Returns the name in the format's specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(found, _)| *found == self).map_or("unknown", |(_, name)| name)
    }
}

/// The part of a column in one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParquetColumnChunk {
    /// The number of the row group, from 0.
    pub row_group: usize,
    /// The path of the column below the schema's root: the names of its groups and of the column,
    /// joined by dots.
    pub path: String,
    /// The physical type of the column, or `None` if the type is missing or unknown.
    pub physical_type: Option<PhysicalType>,
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The location of the filter. It is `None` if the chunk has no filter, is encrypted or lies in
    /// another file. A stored offset of 0 or below means "no filter".
    pub filter: Option<ParquetFilterRange>,
    /// The number of rows of the row group, or `None` if it is missing.
    num_rows: Option<i64>,
    /// The location of the pages. It is empty if the location is unknown.
    pages: Range<u64>,
    /// The number of nulls that the statistics give.
    num_nulls: Option<u64>,
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

    /// Returns the bytes that the filter takes according to the footer, at least one.
    fn claimed(&self) -> Option<(u64, u64)> {
        let filter = self.filter?;
        Some((filter.offset, filter.offset.saturating_add(filter.len_bytes.unwrap_or(0).max(1))))
    }
}

/// The location of a column chunk's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParquetFilterRange {
    /// The offset of the header in the file.
    pub offset: u64,
    /// The length in bytes of header and bits, or `None` if the writer did not store it. A stored
    /// length below 0 is read as 0, which contradicts every filter.
    pub len_bytes: Option<u64>,
}

/// The column chunks of a Parquet file and the locations of their filters.
#[derive(Debug, Clone)]
pub struct ParquetMetadata {
    leaves: Vec<Leaf>,
    num_row_groups: usize,
    chunks: Vec<ParquetColumnChunk>,
}

impl ParquetMetadata {
    /// The number of bytes at the end of a file that [`Self::range`] needs.
    pub const TAIL_LEN_BYTES: usize = 8;

    /// Returns the location of the metadata in a file of `file_len_bytes` bytes. The arguments
    /// `head` and `tail` are the first four and the last eight bytes of the file.
    ///
    /// # Errors
    /// Returns `Corrupt` if a magic or the length is wrong, and `Unsupported` if the metadata are
    /// encrypted.
    pub fn range(file_len_bytes: u64, head: [u8; 4], tail: [u8; Self::TAIL_LEN_BYTES]) -> Result<Range<u64>> {
        let corrupt = |field, offset| Error::Corrupt { field, offset };
        let end = file_len_bytes.checked_sub(Self::TAIL_LEN_BYTES as u64);
        let end = end.ok_or_else(|| corrupt(Field::Length, 0))?;
        let [len @ .., a, b, c, d] = tail;
        match &[a, b, c, d] {
            MAGIC => {}
            magic @ MAGIC_ENCRYPTED => {
                return Err(Error::Unsupported { field: Field::FileMetadata, found: u64::from(u32_from(magic)) });
            }
            _ => return Err(corrupt(Field::Magic, end + 4)),
        }
        let start = end.checked_sub(u32_from(&len).into()).filter(|&start| start >= MAGIC.len() as u64);
        let start = start.ok_or_else(|| corrupt(Field::Length, end))?;
        if head != *MAGIC {
            return Err(corrupt(Field::Magic, 0));
        }
        Ok(start..end)
    }

    /// Parses metadata that begin at `offset` of their file.
    ///
    /// # Errors
    /// Returns `Corrupt` if the metadata are damaged, or if the row groups do not have the number of
    /// rows of the file. Returns `ChunkMismatch` if a row group does not have the columns of the
    /// schema, in its order and with its types.
    pub fn parse(metadata: &[u8], offset: u64) -> Result<Self> {
        let mut found = read_metadata(&mut Reader::new(metadata, offset, Field::FileMetadata), metadata.len())?;
        find_spaces(&mut found.chunks, offset);
        Ok(found)
    }

    /// Returns the leaf columns of the schema: their paths, as in [`ParquetColumnChunk::path`], and
    /// their physical types. An unknown type is `None`. Every row group has these columns.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Option<PhysicalType>)> {
        self.leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.physical_type))
    }

    /// Returns every column chunk, with and without a filter, ordered by row group.
    #[must_use]
    pub fn column_chunks(&self) -> &[ParquetColumnChunk] {
        &self.chunks
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.num_row_groups
    }

    /// Returns the location of a chunk's filter: of its header and its bits. If the writer did not
    /// store the length, the location ends at the next pages, at the next filter or at the metadata.
    /// Returns `None` if [`ParquetColumnChunk::filter`] is `None`.
    ///
    /// # Errors
    /// Returns `Corrupt` if the filter does not lie before the metadata, or if it overlaps pages or
    /// another filter. One of the two locations is then wrong, and the filter of other values would
    /// deny values of this chunk.
    pub fn filter_range(&self, chunk: &ParquetColumnChunk) -> Result<Option<Range<u64>>> {
        let Some(place) = chunk.filter else { return Ok(None) };
        let end = place.len_bytes.map_or(Some(chunk.space_end), |len| place.offset.checked_add(len));
        let is_inside = |end: &u64| place.offset <= *end && *end <= chunk.space_end;
        let end = end.filter(is_inside).ok_or(Error::Corrupt { field: Field::FilterLocation, offset: place.offset })?;
        Ok(Some(place.offset..end))
    }

    /// Parses the filter of a chunk. `bytes` are the bytes at [`Self::filter_range`].
    ///
    /// If no bit of the filter is set, but the chunk may have values, the returned filter has no
    /// blocks, and its answer is always "maybe".
    ///
    /// # Errors
    /// Returns `Corrupt` if the header is invalid, if the bits are incomplete, or if the footer
    /// stores another length. Returns `Unsupported` for another algorithm, hash or compression.
    pub fn parse_filter<'a>(&self, chunk: &ParquetColumnChunk, bytes: &'a [u8]) -> Result<ParquetBloom<'a>> {
        let place = chunk.filter.unwrap_or(ParquetFilterRange { offset: 0, len_bytes: None });
        let at = |error: Error| error.moved_by(place.offset);
        let contradiction = Error::Corrupt { field: Field::FilterLen, offset: place.offset };
        if place.len_bytes.is_some_and(|stored| stored < MIN_FILTER_LEN_BYTES) {
            return Err(contradiction);
        }
        let len_bytes = ParquetBloom::len_bytes_of(bytes).map_err(at)?;
        if place.len_bytes.is_some_and(|stored| stored != len_bytes) {
            return Err(contradiction);
        }
        let filter = ParquetBloom::parse(bytes).map_err(at)?;
        Ok(if filter.is_zero() && chunk.may_have_values() { ParquetBloom::new(&[]) } else { filter })
    }
}

/// A Parquet file over `bytes`, which may be a memory map. Filters are read in place.
#[derive(Debug, Clone)]
pub struct ParquetFile<D> {
    bytes: D,
    metadata: ParquetMetadata,
}

impl<D: AsRef<[u8]>> ParquetFile<D> {
    /// Opens a file and reads its metadata.
    ///
    /// # Errors
    /// Returns `Corrupt` if the bytes are not a Parquet file or the metadata are damaged,
    /// `ChunkMismatch` if the row groups contradict the schema, and `Unsupported` if the metadata are
    /// encrypted.
    pub fn open(bytes: D) -> Result<Self> {
        let file = bytes.as_ref();
        let too_short = Error::Corrupt { field: Field::Length, offset: 0 };
        let (Some(head), Some(tail)) = (file.first_chunk(), file.last_chunk()) else { return Err(too_short) };
        let range = ParquetMetadata::range(file.len() as u64, *head, *tail)?;
        let found = slice(file, &range).unwrap_or_default();
        let metadata = ParquetMetadata::parse(found, range.start)?;
        Ok(Self { bytes, metadata })
    }

    /// Returns every column chunk, with and without a filter, ordered by row group.
    #[must_use]
    pub fn column_chunks(&self) -> &[ParquetColumnChunk] {
        self.metadata.column_chunks()
    }

    /// Returns the columns of the schema: see [`ParquetMetadata::columns`].
    pub fn columns(&self) -> impl Iterator<Item = (&str, Option<PhysicalType>)> {
        self.metadata.columns()
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the chunk of the column at `path` in a row group, or `None` unless exactly one chunk
    /// has this path. Names may contain dots, so several columns can have the same path.
    #[must_use]
    pub fn column_chunk(&self, row_group: usize, path: &str) -> Option<&ParquetColumnChunk> {
        let mut found = self.column_chunks().iter().filter(|chunk| chunk.row_group == row_group && chunk.path == path);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the filter of a chunk, or `None` if [`ParquetColumnChunk::filter`] is `None`. A
    /// filter without a set bit has the exception of [`ParquetMetadata::parse_filter`].
    ///
    /// # Errors
    /// Returns the errors of [`ParquetMetadata::filter_range`] and
    /// [`ParquetMetadata::parse_filter`].
    pub fn filter(&self, chunk: &ParquetColumnChunk) -> Result<Option<ParquetBloom<'_>>> {
        let Some(range) = self.metadata.filter_range(chunk)? else { return Ok(None) };
        let bytes = slice(self.bytes.as_ref(), &range);
        let bytes = bytes.ok_or(Error::Corrupt { field: Field::FilterLocation, offset: range.start })?;
        self.metadata.parse_filter(chunk, bytes).map(Some)
    }

    /// Returns the number of filters that cannot be used: those with an error in [`Self::filter`],
    /// and those without a set bit in a chunk that may have values. Their answers are "maybe".
    #[must_use]
    pub fn num_unusable_filters(&self) -> u64 {
        let is_unusable = |chunk: &&ParquetColumnChunk| match self.filter(chunk) {
            Ok(filter) => filter.is_some_and(|filter| filter.num_blocks() == 0),
            Err(_) => true,
        };
        self.column_chunks().iter().filter(is_unusable).count() as u64
    }

    /// Returns whether a chunk may contain a value, given in the plain encoding. If the chunk has
    /// no filter, or the filter cannot be used, the answer is "maybe".
    #[must_use]
    pub fn may_contain(&self, chunk: &ParquetColumnChunk, plain_value: &[u8]) -> bool {
        self.filter(chunk).ok().flatten().is_none_or(|filter| filter.may_contain(plain_value))
    }

    /// Answers for many values as [`Self::may_contain`] does, in their order. It stops at the end
    /// of the shorter slice.
    pub fn may_contain_batch(&self, chunk: &ParquetColumnChunk, plain_values: &[&[u8]], answers: &mut [bool]) {
        match self.filter(chunk) {
            Ok(Some(filter)) => filter.may_contain_batch(plain_values, answers),
            _ => answers.iter_mut().zip(plain_values).for_each(|(answer, _)| *answer = true),
        }
    }

    /// Reads the header of every filter, and returns the number of filters. A Parquet file has no
    /// checksums over filters, so damaged bits go unnoticed.
    ///
    /// # Errors
    /// Returns the error of the first invalid filter.
    pub fn verify(&self) -> Result<u64> {
        let mut filters = 0;
        for chunk in self.column_chunks() {
            filters += u64::from(self.filter(chunk)?.is_some());
        }
        Ok(filters)
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Finds the space of each filter. `end` is the offset of the metadata. A filter has no space of
/// its own if it begins in pages or where another filter begins, or if it claims the first byte of
/// other pages or of another filter.
fn find_spaces(chunks: &mut [ParquetColumnChunk], end: u64) {
    let pages = chunks.iter().map(|chunk| (chunk.pages.start, chunk.pages.end)).filter(|(start, end)| start < end);
    let mut pages: Vec<(u64, u64)> = pages.collect();
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

fn slice<'a>(file: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    file.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

/// Reads a `FileMetaData` of `len_bytes` bytes. The schema must come before the row groups, as in
/// every known file: without it, nobody knows which columns a row group lacks.
fn read_metadata(reader: &mut Reader<'_>, len_bytes: usize) -> Result<ParquetMetadata> {
    let mut found = ParquetMetadata { leaves: Vec::new(), num_row_groups: 0, chunks: Vec::new() };
    let (mut last, mut seen, mut stored_rows, mut rows) = (0, Vec::new(), None, 0_i128);
    let mut rows_offset = reader.offset();
    while let Some((number, kind)) = reader.field(&mut last)? {
        // Readers differ in which of two fields with one number they use.
        if (2..=4).contains(&number) {
            if seen.contains(&number) {
                return Err(reader.corrupt());
            }
            seen.push(number);
        }
        match (number, kind) {
            (2, Type::List) => {
                // Many times the length of the paths that the row groups repeat.
                found.leaves = read_leaves(reader, len_bytes.saturating_mul(16).saturating_add(1 << 20))?;
            }
            (3, Type::Int) => {
                rows_offset = reader.offset();
                stored_rows = Some(i128::from(reader.int()?));
            }
            (4, Type::List) => {
                for _ in 0..reader.structs()? {
                    rows += i128::from(read_row_group(reader, &mut found)?);
                    found.num_row_groups += 1;
                }
            }
            _ => reader.skip(kind)?,
        }
    }
    // Without the number, missing row groups would go unnoticed.
    if stored_rows.map_or(!found.leaves.is_empty(), |stored| stored != rows) {
        return Err(Error::Corrupt { field: Field::NumRows, offset: rows_offset });
    }
    Ok(found)
}

/// Reads a `RowGroup`, which must have the columns of the schema. Returns the number of its rows,
/// or 0 if it is missing.
fn read_row_group(reader: &mut Reader<'_>, found: &mut ParquetMetadata) -> Result<i64> {
    let ParquetMetadata { leaves, num_row_groups, chunks } = found;
    let (row_group, first) = (*num_row_groups, chunks.len());
    let mismatch =
        |column: &str, offset| Error::ChunkMismatch { row_group, column: column.chars().take(100).collect(), offset };
    let (mut last, mut num_rows) = (0, None);
    while let Some((number, kind)) = reader.field(&mut last)? {
        match (number, kind) {
            (1, Type::List) => {
                for _ in 0..reader.structs()? {
                    let start = reader.offset();
                    let chunk = read_chunk(reader, row_group)?;
                    if reader.offset() - start < MIN_CHUNK_LEN_BYTES {
                        return Err(reader.corrupt());
                    }
                    let leaf = leaves.get(chunks.len() - first).ok_or_else(|| mismatch(&chunk.path, start))?;
                    if chunk.path != leaf.path || chunk.physical_type != leaf.physical_type {
                        return Err(mismatch(&leaf.path, start));
                    }
                    chunks.push(chunk);
                }
            }
            (3, Type::Int) => num_rows = Some(reader.int()?),
            _ => reader.skip(kind)?,
        }
    }
    if let Some(leaf) = leaves.get(chunks.len() - first) {
        return Err(mismatch(&leaf.path, reader.offset()));
    }
    chunks.iter_mut().skip(first).for_each(|chunk| chunk.num_rows = num_rows);
    match num_rows.unwrap_or(0) {
        rows @ 0.. => Ok(rows),
        _ => Err(Error::Corrupt { field: Field::NumRows, offset: reader.offset() }),
    }
}

/// Reads a `ColumnChunk`. A chunk that lies in another file or is encrypted gets no filter.
fn read_chunk(reader: &mut Reader<'_>, row_group: usize) -> Result<ParquetColumnChunk> {
    let mut chunk = ParquetColumnChunk {
        row_group,
        path: String::new(),
        physical_type: None,
        num_values: 0,
        filter: None,
        num_rows: None,
        pages: 0..0,
        num_nulls: None,
        space_end: 0,
    };
    let (mut last, mut is_out_of_reach) = (0, false);
    while let Some((number, kind)) = reader.field(&mut last)? {
        match (number, kind) {
            (1, Type::Binary) => is_out_of_reach |= !reader.binary()?.is_empty(),
            (3, Type::Struct) => read_column_metadata(reader, &mut chunk)?,
            // These fields describe the encryption of the chunk. Its filter is encrypted, too.
            (8 | 9, _) => {
                is_out_of_reach = true;
                reader.skip(kind)?;
            }
            _ => reader.skip(kind)?,
        }
    }
    chunk.filter = chunk.filter.filter(|_| !is_out_of_reach);
    Ok(chunk)
}

/// Reads a `ColumnMetaData`.
fn read_column_metadata(reader: &mut Reader<'_>, chunk: &mut ParquetColumnChunk) -> Result<()> {
    let (mut last, mut offset, mut filter_len, mut is_twice) = (0, None, None, false);
    let (mut len_bytes, mut data, mut dictionary) = (0, 0, 0);
    while let Some((number, kind)) = reader.field(&mut last)? {
        match (number, kind) {
            (1, Type::Int) => chunk.physical_type = PhysicalType::from_number(reader.int()?),
            (3, Type::List) => chunk.path = read_path(reader)?,
            (5, Type::Int) => chunk.num_values = unsigned(reader)?,
            (7, Type::Int) => len_bytes = zero_or_above(reader)?,
            (9, Type::Int) => data = zero_or_above(reader)?,
            (11, Type::Int) => dictionary = zero_or_above(reader)?,
            (12, Type::Struct) => chunk.num_nulls = read_num_nulls(reader)?,
            (14, Type::Int) => is_twice |= offset.replace(zero_or_above(reader)?).is_some(),
            (15, Type::Int) => is_twice |= filter_len.replace(zero_or_above(reader)?).is_some(),
            _ => reader.skip(kind)?,
        }
    }
    let start = if dictionary > 0 { dictionary } else { data };
    if len_bytes >= MIN_PAGES_LEN_BYTES && start >= MAGIC.len() as u64 {
        chunk.pages = start..start.saturating_add(len_bytes);
    }
    // Readers differ in which of two locations they use. A length of 0 contradicts every filter.
    let len_bytes = if is_twice { Some(0) } else { filter_len };
    let offset = offset.filter(|&offset| offset > 0);
    chunk.filter = offset.map(|offset| ParquetFilterRange { offset, len_bytes });
    Ok(())
}

/// Reads the number of nulls in a `Statistics`.
fn read_num_nulls(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    let (mut last, mut num) = (0, None);
    while let Some((number, kind)) = reader.field(&mut last)? {
        match (number, kind) {
            (3, Type::Int) => num = u64::try_from(reader.int()?).ok(),
            _ => reader.skip(kind)?,
        }
    }
    Ok(num)
}

/// Reads an integer, and returns 0 in place of a negative number.
fn zero_or_above(reader: &mut Reader<'_>) -> Result<u64> {
    Ok(u64::try_from(reader.int()?).unwrap_or(0))
}

fn unsigned(reader: &mut Reader<'_>) -> Result<u64> {
    u64::try_from(reader.int()?).map_err(|_| reader.corrupt())
}

fn read_path(reader: &mut Reader<'_>) -> Result<String> {
    let (kind, len) = reader.list()?;
    if kind != Type::Binary && len > 0 {
        return Err(reader.corrupt());
    }
    let mut path = String::new();
    for number in 0..len {
        if number > 0 {
            path.push('.');
        }
        path.push_str(&String::from_utf8_lossy(reader.binary()?));
    }
    Ok(path)
}
