//! Reads the footer of a Parquet file, and rewrites it with new locations of filters. Unknown
//! fields survive a rewrite. The list below has only the fields that this module uses.
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

mod loss;
#[cfg(feature = "values")]
mod pages;
mod schema;
mod stored;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Error, Result, shortened};
use crate::thrift::{Field, Kind, List, Malformed, Struct};

pub use crate::PhysicalType;
pub use loss::Loss;
#[cfg(feature = "values")]
pub(crate) use pages::Taken;
pub use schema::Leaf;

const MAGIC: &[u8; 4] = b"PAR1";
/// The magic of a file with an encrypted footer.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// The number of bytes after the metadata: 4 for the length of the metadata, 4 for the magic.
const TAIL_LEN_BYTES: usize = 8;
/// The start of the key that marks a column whose filters [`append::add`](crate::append) added
/// although an engine loses rows. The path of the column follows.
const FORCED_KEY: &str = "filterblock.forced_type:";
/// The key with which DuckDB says that its filters of intervals hold both the stored values and the
/// values for which DuckDB asks. Only with this key, DuckDB asks such filters.
const DUCKDB_INTERVALS_KEY: &str = "duckdb.interval_bloom_filter";
const ENCRYPTED_ADVICE: &str = "give a file without encryption and signature";

/// The maximum number of encrypted columns in a message.
const MAX_NAMED_COLUMNS: usize = 5;

/// The location of a column chunk's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterRange {
    /// The offset of the filter's header in the file.
    pub offset: u64,
    /// The length in bytes of header and bits, or `None` if the writer did not store it.
    pub len_bytes: Option<u64>,
}

/// The part of a column in one row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// The number of values, nulls included.
    pub num_values: u64,
    /// The offset of the first page.
    pub offset: u64,
    /// The length in bytes of the chunk's pages as stored (compressed), with their headers.
    pub len_bytes: u64,
    /// The location of the filter, or `None` if the chunk has none.
    pub filter: Option<FilterRange>,
    /// Whether the metadata store a filter offset of 0 or below, or a filter length without an
    /// offset. Such a chunk has no filter.
    pub has_void_filter: bool,
}

/// A parsed footer.
#[derive(Debug, Clone)]
pub struct Footer {
    metadata: Vec<u8>,
    metadata_offset: u64,
    leaves: Vec<Leaf>,
    chunks: Vec<Chunk>,
    /// The first sorting column that all row groups with rows have in common, or `None`.
    sorted_leaf: Option<usize>,
}

impl Footer {
    /// Reads the footer at the end of `file`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or is no Parquet file. Returns
    /// [`Error::Unsupported`] or [`Error::NotCanonical`] if this crate cannot rewrite the footer,
    /// for example because the file is encrypted.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Self> {
        let file_len = file.seek(SeekFrom::End(0))?;
        let tail_offset = file_len.checked_sub(TAIL_LEN_BYTES as u64).ok_or(Error::corrupt("length of the file", 0))?;
        let mut tail = [0; TAIL_LEN_BYTES];
        read_at(file, tail_offset, &mut tail)?;
        let [len @ .., _, _, _, _] = tail;
        if tail.ends_with(MAGIC_ENCRYPTED) {
            return Err(Error::unsupported("the footer is encrypted", ENCRYPTED_ADVICE));
        }
        let mut magic = [0; 4];
        read_at(file, 0, &mut magic)?;
        if !tail.ends_with(MAGIC) || magic != *MAGIC {
            let offset = if tail.ends_with(MAGIC) { 0 } else { tail_offset + 4 };
            return Err(Error::corrupt("magic PAR1", offset));
        }
        let len = u32::from_le_bytes(len);
        let start = tail_offset.checked_sub(len.into()).filter(|&start| start >= MAGIC.len() as u64);
        let start = start.ok_or(Error::corrupt("length of the metadata", tail_offset))?;
        let mut metadata =
            vec![0; usize::try_from(len).map_err(|_| Error::corrupt("length of the metadata", tail_offset))?];
        read_at(file, start, &mut metadata)?;
        Self::parse(metadata, start)
    }

    /// Parses the metadata that begin at offset `metadata_offset` of a file.
    ///
    /// # Errors
    /// Returns an error as [`Self::read`] does.
    pub fn parse(metadata: Vec<u8>, metadata_offset: u64) -> Result<Self> {
        let at = Place { base: metadata_offset, metadata: &metadata };
        // A signature follows the metadata of a file with encrypted columns.
        if let Ok((file, _)) = Struct::parse(&metadata)
            && (file.get(8).is_some() || file.get(9).is_some())
        {
            let columns = encrypted_columns(&file, metadata.len());
            return Err(Error::unsupported(format!("the file is encrypted or signed{columns}"), ENCRYPTED_ADVICE));
        }
        let file = at.parse_struct(&metadata, "file metadata")?;
        let schema = file.list(2).ok_or_else(|| at.corrupt("schema", &metadata))?;
        let leaves = schema::leaves(&schema, metadata.len())?.ok_or_else(|| at.corrupt("schema", schema.header))?;
        let (mut chunks, mut sortings) = (Vec::new(), BTreeSet::new());
        let mut rows = 0_u128;
        let groups = file.list(4).ok_or_else(|| at.corrupt("list of row groups", &metadata))?;
        for group in at.structs(&groups, "list of row groups")? {
            let group = at.parse_struct(group, "row group")?;
            let columns = group.list(1).ok_or_else(|| at.corrupt("list of columns", groups.header))?;
            if columns.elements.len() != leaves.len() {
                return Err(at.corrupt("number of columns", columns.header));
            }
            for (chunk, leaf) in at.structs(&columns, "list of columns")?.iter().zip(&leaves) {
                chunks.push(at.chunk(chunk, leaf)?);
            }
            let num_rows = u64::try_from(group.int(3).unwrap_or(0));
            rows += u128::from(num_rows.map_err(|_| at.corrupt("number of rows of a row group", groups.header))?);
            let is_empty = group.int(3) == Some(0);
            if !is_empty {
                sortings.insert(first_sorting_column(&group));
            }
        }
        if file.int(3).is_some_and(|stored| u128::try_from(stored) != Ok(rows)) {
            return Err(at.corrupt("number of rows, which is not that of the row groups", &metadata));
        }
        let sorted_leaf = if sortings.len() == 1 { sortings.into_iter().next().flatten() } else { None };
        Ok(Self { metadata_offset, leaves, chunks, sorted_leaf, metadata })
    }

    /// Returns the leaf columns in the order of the schema.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns the number of row groups, or 0 if the schema has no leaf column.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.chunks.len().checked_div(self.leaves.len()).unwrap_or(0)
    }

    /// Returns the chunk of a leaf column in a row group, or `None` if there is no such chunk.
    #[must_use]
    pub fn chunk(&self, row_group: usize, leaf: usize) -> Option<&Chunk> {
        let at = row_group.checked_mul(self.leaves.len())?.checked_add(leaf)?;
        self.chunks.get(at).filter(|_| leaf < self.leaves.len())
    }

    /// Returns whether this leaf column is the first sorting column of each row group that has
    /// rows. Returns false if no row group has rows.
    #[must_use]
    pub fn is_sorted_by(&self, leaf: usize) -> bool {
        self.sorted_leaf == Some(leaf)
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn file_len_bytes(&self) -> u64 {
        self.metadata_offset + (self.metadata.len() + TAIL_LEN_BYTES) as u64
    }

    /// Returns the offset of the metadata. Pages and filters lie before it.
    #[must_use]
    pub fn metadata_offset(&self) -> u64 {
        self.metadata_offset
    }

    /// Returns the encoded metadata, without their length and the magic.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Returns one list for each of `leaves`, with the pair (min, max) of each row group. The
    /// values are in PLAIN encoding, but a byte array has no length prefix. A row group without a
    /// valid `min_value` and `max_value` has no pair.
    #[must_use]
    pub fn ranges(&self, leaves: &[usize]) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = vec![Vec::new(); leaves.len()];
        let file = Struct::parse(&self.metadata).map(|(file, _)| file).unwrap_or_default();
        for group in file.list(4).map(|groups| groups.elements).unwrap_or_default() {
            let Ok((group, _)) = Struct::parse(group) else { continue };
            let Some(columns) = group.list(1) else { continue };
            for (leaf, ranges) in leaves.iter().zip(&mut found) {
                ranges.extend(columns.elements.get(*leaf).and_then(|chunk| range(chunk)));
            }
        }
        found
    }

    /// Returns whether the file says that the filters of a leaf column were added although an
    /// engine loses rows with them: see [`Leaf::loss`].
    #[must_use]
    pub fn is_forced(&self, leaf: usize) -> bool {
        self.leaves.get(leaf).is_some_and(|leaf| self.has_key(&format!("{FORCED_KEY}{}", leaf.path)))
    }

    /// Returns the engine that loses rows because of the filters that a leaf column has. DuckDB's own
    /// filters of intervals lose no rows. All other filters of a type with a [`Leaf::loss`] do.
    #[must_use]
    pub fn loss_of_filters(&self, leaf: usize) -> Option<&'static Loss> {
        let loss = self.leaves.get(leaf)?.loss()?;
        let is_of_duckdb = *loss == Loss::INTERVAL && self.has_key(DUCKDB_INTERVALS_KEY) && !self.is_forced(leaf);
        (!is_of_duckdb).then_some(loss)
    }

    fn has_key(&self, key: &str) -> bool {
        let file = Struct::parse(&self.metadata).map(|(file, _)| file).unwrap_or_default();
        let pairs = file.list(5).map(|pairs| pairs.elements).unwrap_or_default();
        pairs.iter().any(|pair| Struct::parse(pair).is_ok_and(|(pair, _)| pair.binary(1) == Some(key.as_bytes())))
    }

    /// Adds a pair of key and value for each leaf column of `forced` that has a loss and no mark.
    fn mark(&self, file: &mut Struct<'_>, forced: &[usize]) {
        let mut new = Vec::new();
        for &number in forced.iter().filter(|&&number| !self.is_forced(number)) {
            let Some((leaf, loss)) = self.leaves.get(number).and_then(|leaf| Some((leaf, leaf.loss()?))) else {
                continue;
            };
            let mut pair = Struct::default();
            pair.set_binary(1, format!("{FORCED_KEY}{}", leaf.path).as_bytes());
            pair.set_binary(2, loss.name.as_bytes());
            let mut encoded = Vec::new();
            pair.encode(&mut encoded);
            new.push(encoded);
        }
        if new.is_empty() {
            return;
        }
        let mut encoded = Vec::new();
        let old = file.list(5).map(|pairs| pairs.elements).unwrap_or_default();
        let pairs: Vec<&[u8]> = old.into_iter().chain(new.iter().map(Vec::as_slice)).collect();
        List::encode(Kind::STRUCT, &pairs, &mut encoded);
        file.set(Field { id: 5, kind: Kind::LIST, value: Cow::Owned(encoded) });
    }

    /// Returns a footer (metadata, length of the metadata, magic) with new locations of filters.
    /// `filter` gets the row group, the leaf column and the current location, and returns the new
    /// location. If `filter` returns `None`, the current location stays. All other fields stay as
    /// they are, byte for byte.
    ///
    /// # Errors
    /// Returns an error if the metadata would have 2 GiB or more, or if an offset or a length does
    /// not fit in its field.
    pub fn rewrite(
        &self,
        filter: impl FnMut(usize, usize, Option<FilterRange>) -> Option<FilterRange>,
    ) -> Result<Vec<u8>> {
        self.rewrite_marked(filter, &[])
    }

    /// Returns a new footer as [`Self::rewrite`] does, and marks the columns `forced`, for which
    /// [`Self::is_forced`] then returns true. A column without a [`Loss`] gets no mark.
    ///
    /// # Errors
    /// Returns an error as [`Self::rewrite`] does.
    pub fn rewrite_marked(
        &self,
        mut filter: impl FnMut(usize, usize, Option<FilterRange>) -> Option<FilterRange>,
        forced: &[usize],
    ) -> Result<Vec<u8>> {
        let at = Place { base: self.metadata_offset, metadata: &self.metadata };
        let mut file = at.parse_struct(&self.metadata, "file metadata")?;
        let groups = file.list(4).ok_or_else(|| at.corrupt("list of row groups", &self.metadata))?;
        let mut new_groups = groups.header.to_vec();
        for (row_group, group) in groups.elements.iter().enumerate() {
            let mut group = at.parse_struct(group, "row group")?;
            let columns = group.list(1).ok_or_else(|| at.corrupt("list of columns", groups.header))?;
            let mut new_columns = columns.header.to_vec();
            for (leaf, chunk) in columns.elements.iter().enumerate() {
                let old = self.chunk(row_group, leaf).and_then(|chunk| chunk.filter);
                let new = filter(row_group, leaf, old);
                match new.filter(|_| new != old) {
                    None => new_columns.extend_from_slice(chunk),
                    Some(range) => at.parse_struct(chunk, "column chunk")?.put_filter(range, &mut new_columns)?,
                }
            }
            replace(&mut group, 1, new_columns);
            group.encode(&mut new_groups);
        }
        replace(&mut file, 4, new_groups);
        self.mark(&mut file, forced);
        let mut bytes = Vec::with_capacity(self.metadata.len() + 64 * self.chunks.len());
        file.encode(&mut bytes);
        // Some readers parse the length as a signed number, so it must fit in 31 bits.
        let len = i32::try_from(bytes.len()).map_err(|_| {
            Error::unsupported("the new footer would exceed 2 GiB", "write files with fewer columns or row groups")
        })?;
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        Ok(bytes)
    }
}

fn read_at(file: &mut (impl Read + Seek), offset: u64, bytes: &mut [u8]) -> Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Changed,
        _ => error.into(),
    })
}

fn replace(parent: &mut Struct<'_>, id: i16, value: Vec<u8>) {
    if let Some(field) = parent.fields.iter_mut().find(|field| field.id == id) {
        field.value = Cow::Owned(value);
    }
}

/// Names the encrypted columns of the first row group, for a message. Returns an empty text if the
/// first row group has none.
fn encrypted_columns(file: &Struct<'_>, metadata_len_bytes: usize) -> String {
    let is_encrypted = |chunk: &&[u8]| Struct::parse(chunk).is_ok_and(|(chunk, _)| chunk.get(8).is_some());
    let find = || {
        let leaves = schema::leaves(&file.list(2)?, metadata_len_bytes).ok()??;
        let (groups, mut names) = (file.list(4)?, Vec::new());
        let group = Struct::parse(groups.elements.first()?).ok()?.0;
        for (chunk, leaf) in group.list(1)?.elements.iter().zip(&leaves) {
            if is_encrypted(chunk) && names.len() < MAX_NAMED_COLUMNS {
                names.push(shortened(&leaf.path).into_owned());
            }
        }
        Some(names.join(", ")).filter(|names| !names.is_empty())
    };
    find().map_or_else(String::new, |names| format!(" (encrypted columns: {names})"))
}

/// Returns the min and the max from the statistics of a column chunk. Returns `None` if one of them
/// is missing or cannot be parsed.
fn range(chunk: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let chunk = Struct::parse(chunk).ok()?.0;
    let column = Struct::parse(&chunk.get(3)?.value).ok()?.0;
    let statistics = Struct::parse(&column.get(12)?.value).ok()?.0;
    Some((statistics.binary(6)?.to_vec(), statistics.binary(5)?.to_vec()))
}

/// Returns the first sorting column of a row group, or `None` if it is missing or not valid.
fn first_sorting_column(group: &Struct<'_>) -> Option<usize> {
    let order = group.list(4)?;
    let first = Struct::parse(order.elements.first()?).ok()?.0;
    usize::try_from(first.int(1)?).ok()
}

impl Struct<'_> {
    /// Appends this column chunk to `out`, with `range` as the location of its filter. If `range`
    /// has no length, the chunk stores no filter length.
    fn put_filter(mut self, range: FilterRange, out: &mut Vec<u8>) -> Result<()> {
        let mut encoded = Vec::new();
        {
            let field = self.get(3).ok_or(Error::corrupt("column metadata", 0))?;
            let parsed = Struct::parse(&field.value);
            let mut column = parsed.map_err(|_| Error::corrupt("column metadata", 0))?.0;
            let number = |number: u64| {
                let what = "a filter offset of 2^63 or more does not fit in the footer";
                i64::try_from(number).map_err(|_| Error::unsupported(what, "use a smaller offset"))
            };
            column.set_int(14, Kind::I64, number(range.offset)?);
            match range.len_bytes {
                Some(len) => {
                    let what = "a filter length of 2 GiB or more does not fit in the footer";
                    let len = i32::try_from(len).map_err(|_| Error::unsupported(what, "use a shorter filter"))?;
                    column.set_int(15, Kind::I32, len.into());
                }
                None => column.fields.retain(|field| field.id != 15),
            }
            column.encode(&mut encoded);
        }
        replace(&mut self, 3, encoded);
        self.encode(out);
        Ok(())
    }
}

/// The metadata and their offset in the file, for the offsets of errors.
#[derive(Clone, Copy)]
struct Place<'a> {
    base: u64,
    metadata: &'a [u8],
}

impl Place<'_> {
    fn corrupt(self, part: &'static str, bytes: &[u8]) -> Error {
        Error::corrupt(part, self.offset_of(bytes))
    }

    /// Returns the offset of `bytes` in the file. `bytes` is a part of the metadata.
    fn offset_of(self, bytes: &[u8]) -> u64 {
        let distance = bytes.as_ptr().addr().checked_sub(self.metadata.as_ptr().addr());
        self.base + distance.filter(|&distance| distance <= self.metadata.len()).unwrap_or(0) as u64
    }

    /// Parses `bytes` as one struct. Returns [`Error::Corrupt`] if `bytes` are not exactly one
    /// struct. Returns [`Error::NotCanonical`] if encoding the struct again gives other bytes, or
    /// if two fields have the same number.
    fn parse_struct<'a>(self, bytes: &'a [u8], part: &'static str) -> Result<Struct<'a>> {
        let offset = self.offset_of(bytes);
        let at = |Malformed { at }| Error::corrupt(part, offset + at as u64);
        let (found, len) = Struct::parse(bytes).map_err(at)?;
        if len != bytes.len() {
            return Err(at(Malformed { at: len }));
        }
        let mut again = Vec::with_capacity(len);
        found.encode(&mut again);
        // If two fields have the same number, some readers use the first and others the last.
        if again != bytes || found.has_duplicates() {
            return Err(Error::NotCanonical { offset });
        }
        Ok(found)
    }

    fn structs<'l, 'a>(self, list: &'l List<'a>, part: &'static str) -> Result<&'l [&'a [u8]]> {
        list.structs().map_err(|_| self.corrupt(part, list.header))
    }

    fn chunk(self, bytes: &[u8], leaf: &Leaf) -> Result<Chunk> {
        let chunk = self.parse_struct(bytes, "column chunk")?;
        if chunk.get(8).is_some() || chunk.get(9).is_some() {
            return Err(Error::unsupported(format!("column {} is encrypted", shortened(&leaf.path)), ENCRYPTED_ADVICE));
        }
        if chunk.binary(1).is_some_and(|path| !path.is_empty()) {
            return Err(Error::unsupported(
                "the file only describes the data of other files",
                "give the files with the data (if you add filters to them, write a _metadata file again or delete it)",
            ));
        }
        let field = chunk.get(3).ok_or_else(|| self.corrupt("column metadata", bytes))?;
        let Cow::Borrowed(encoded) = field.value else { return Err(self.corrupt("column metadata", bytes)) };
        let column = self.parse_struct(encoded, "column metadata")?;
        let invalid = |part| self.corrupt(part, encoded);
        let unsigned = |id| column.int(id).and_then(|value| u64::try_from(value).ok());
        let path = column.list(3).and_then(|path| schema::joined(&path));
        if path.as_ref() != Some(&leaf.path) || column.int(1) != Some(leaf.physical_type.number()) {
            return Err(invalid("path or type in the column metadata"));
        }
        let num_values = unsigned(5).ok_or_else(|| invalid("number of values in the column metadata"))?;
        let len_bytes = unsigned(7).ok_or_else(|| invalid("chunk length in the column metadata"))?;
        // Some writers give the offset 0 to a dictionary that does not exist.
        let has_dictionary = column.get(11).is_some() && column.int(11) != Some(0);
        let offset = unsigned(if has_dictionary { 11 } else { 9 });
        let is_inside = |offset: &u64| offset.checked_add(len_bytes).is_some_and(|end| end <= self.base);
        let (offset, len_bytes) = match offset.filter(is_inside) {
            Some(offset) => (offset, len_bytes),
            // Nobody reads the pages of a chunk without values.
            None if num_values == 0 => (0, 0),
            None => return Err(invalid("chunk location in the column metadata")),
        };
        // A number below 0 is read as 0. As an offset, it means "no filter". As a length, it contradicts
        // every filter.
        let optional = |id| match column.get(id) {
            None => Ok(None),
            Some(_) => column
                .int(id)
                .map(|number| Some(number.max(0).cast_unsigned()))
                .ok_or_else(|| invalid("filter location in the column metadata")),
        };
        let (filter_offset, filter_len_bytes) = (optional(14)?, optional(15)?);
        let filter = filter_offset.filter(|&offset| offset > 0);
        let filter = filter.map(|offset| FilterRange { offset, len_bytes: filter_len_bytes });
        let has_void_filter = filter.is_none() && (filter_offset.is_some() || filter_len_bytes.is_some());
        Ok(Chunk { num_values, offset, len_bytes, filter, has_void_filter })
    }
}
