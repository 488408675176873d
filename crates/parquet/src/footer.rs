//! Reads the footer of a Parquet file, and rewrites it with new locations of filters. Unknown
//! fields survive a rewrite.

use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::error::{Error, Field, Result};
use crate::metadata::{
    DUCKDB_INTERVALS_KEY, FORCED_KEY, FilterRange, MAGIC, ParquetColumnChunk, ParquetMetadata, read_at,
};
use crate::schema::{Leaf, Loss};
use crate::thrift::{self, Kind, List, Struct};

/// A footer that can be rewritten: its encoded metadata, and the parsed metadata.
#[derive(Debug, Clone)]
pub struct Footer {
    metadata: Vec<u8>,
    offset: u64,
    parsed: Arc<ParquetMetadata>,
}

impl Footer {
    /// Reads the footer at the end of `file`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or is no Parquet file. Returns
    /// [`Error::Unsupported`] if this crate cannot rewrite the footer, for example because the file
    /// is encrypted.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Self> {
        let len_bytes = file.seek(SeekFrom::End(0))?;
        let (metadata, offset) = ParquetMetadata::load(len_bytes, |range| read_at(file, range))?;
        Self::parse(metadata, offset)
    }

    /// Parses the metadata that begin at `offset` of a file.
    ///
    /// # Errors
    /// Returns an error as [`Self::read`] does.
    pub fn parse(metadata: Vec<u8>, offset: u64) -> Result<Self> {
        let parsed = Arc::new(ParquetMetadata::parse_for_rewrite(&metadata, offset)?);
        Ok(Self { metadata, offset, parsed })
    }

    /// Returns whether `file` ends with this footer, and is as long as the file of the footer.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `file` cannot be read, and [`Error::Changed`] if it became shorter.
    pub fn is_at_end_of(&self, file: &mut (impl Read + Seek)) -> Result<bool> {
        let end = file.seek(SeekFrom::End(0))?;
        if end != self.file_len_bytes() {
            return Ok(false);
        }
        let found = read_at(file, self.offset..end)?;
        let tail = found.strip_prefix(self.metadata.as_slice());
        Ok(tail.is_some_and(|tail| *tail == tail_of(self.metadata.len() as u64)))
    }

    /// Returns the parsed metadata.
    #[must_use]
    pub fn parsed(&self) -> &Arc<ParquetMetadata> {
        &self.parsed
    }

    /// Returns the leaf columns in the order of the schema.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        self.parsed.leaves()
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.parsed.num_row_groups()
    }

    /// Returns the chunk of a leaf column in a row group, or `None` if there is no such chunk.
    #[must_use]
    pub fn chunk(&self, row_group: usize, leaf: usize) -> Option<&ParquetColumnChunk> {
        self.parsed.chunk(row_group, leaf)
    }

    /// Returns whether each row group with rows is sorted by this leaf column first: see
    /// [`ParquetMetadata::is_sorted_by`].
    #[must_use]
    pub fn is_sorted_by(&self, leaf: usize) -> bool {
        self.parsed.is_sorted_by(leaf)
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn file_len_bytes(&self) -> u64 {
        self.offset + (self.metadata.len() + ParquetMetadata::TAIL_LEN_BYTES) as u64
    }

    /// Returns the offset of the metadata. Pages and filters lie before it.
    #[must_use]
    pub fn metadata_offset(&self) -> u64 {
        self.offset
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
        let of = |leaf: &usize| {
            let chunks = (0..self.num_row_groups()).filter_map(|group| self.chunk(group, *leaf));
            chunks.filter_map(|chunk| self.min_max(chunk)).collect()
        };
        leaves.iter().map(of).collect()
    }

    /// Returns the min and the max from the statistics of a chunk. Returns `None` if one is missing.
    fn min_max(&self, chunk: &ParquetColumnChunk) -> Option<(Vec<u8>, Vec<u8>)> {
        let column = self.column(chunk)?;
        let statistics = column.nested(12)?;
        Some((statistics.binary(6)?.to_vec(), statistics.binary(5)?.to_vec()))
    }

    fn column(&self, chunk: &ParquetColumnChunk) -> Option<Struct<'_>> {
        Some(Struct::parse(self.metadata.get(chunk.column.clone())?).ok()?.0)
    }

    /// Returns whether the file says that the filters of a leaf column were added although an
    /// engine loses rows with them: see [`Leaf::loss`].
    #[must_use]
    pub fn is_forced(&self, leaf: usize) -> bool {
        self.leaves().get(leaf).is_some_and(|leaf| self.parsed.has_key(&format!("{FORCED_KEY}{}", leaf.path)))
    }

    /// Returns the engine that loses rows because of the filters that a leaf column has. DuckDB's own
    /// filters of intervals lose no rows. All other filters of a type with a [`Leaf::loss`] do.
    #[must_use]
    pub fn loss_of_filters(&self, leaf: usize) -> Option<&'static Loss> {
        let loss = self.leaves().get(leaf)?.loss()?;
        let is_of_duckdb =
            *loss == Loss::INTERVAL && self.parsed.has_key(DUCKDB_INTERVALS_KEY) && !self.is_forced(leaf);
        (!is_of_duckdb).then_some(loss)
    }

    /// Adds a pair of key and value to `metadata` for each leaf column of `forced` that has a loss and
    /// no mark.
    fn mark(&self, metadata: &mut Vec<u8>, forced: &[usize]) {
        let mut new = Vec::new();
        for &number in forced.iter().filter(|&&number| !self.is_forced(number)) {
            let Some((leaf, loss)) = self.leaves().get(number).and_then(|leaf| Some((leaf, leaf.loss()?))) else {
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
        let Ok((mut file, _)) = Struct::parse(metadata) else { return };
        let (mut list, mut encoded) = (Vec::new(), Vec::with_capacity(metadata.len()));
        let old = file.list(5).map(|pairs| pairs.elements).unwrap_or_default();
        let pairs: Vec<&[u8]> = old.into_iter().chain(new.iter().map(Vec::as_slice)).collect();
        List::encode(Kind::STRUCT, &pairs, &mut list);
        file.set(thrift::Field { id: 5, kind: Kind::LIST, value: Cow::Owned(list) });
        file.encode(&mut encoded);
        *metadata = encoded;
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
        let mut bytes = Vec::with_capacity(self.metadata.len() + 64 * self.parsed.column_chunks().len());
        // Structs and lists have no length in bytes, so each new struct can have another length.
        let mut copied = 0;
        for chunk in self.parsed.column_chunks() {
            let Some(new) = filter(chunk.row_group, chunk.leaf, chunk.filter).filter(|&new| Some(new) != chunk.filter)
            else {
                continue;
            };
            let mut column = self.column(chunk).ok_or(Error::corrupt(Field::ColumnMetadata, self.offset))?;
            set_filter(&mut column, new)?;
            bytes.extend_from_slice(self.metadata.get(copied..chunk.column.start).unwrap_or_default());
            column.encode(&mut bytes);
            copied = chunk.column.end;
        }
        bytes.extend_from_slice(self.metadata.get(copied..).unwrap_or_default());
        if !forced.is_empty() {
            self.mark(&mut bytes, forced);
        }
        // Some readers parse the length as a signed number, so it must fit in 31 bits.
        if i32::try_from(bytes.len()).is_err() {
            let advice = "write files with fewer columns or row groups";
            return Err(Error::unsupported("the new footer would exceed 2 GiB", advice));
        }
        let tail = tail_of(bytes.len() as u64);
        bytes.extend_from_slice(&tail);
        Ok(bytes)
    }
}

fn tail_of(len_bytes: u64) -> [u8; ParquetMetadata::TAIL_LEN_BYTES] {
    let [a, b, c, d, ..] = len_bytes.to_le_bytes();
    let [e, f, g, h] = *MAGIC;
    [a, b, c, d, e, f, g, h]
}

/// Sets the location of the filter in a `ColumnMetaData`. If `range` has no length, the column stores
/// no filter length.
fn set_filter(column: &mut Struct<'_>, range: FilterRange) -> Result<()> {
    let what = "a filter offset of 2^63 or more does not fit in the footer";
    let offset = i64::try_from(range.offset).map_err(|_| Error::unsupported(what, "use a smaller offset"))?;
    column.set_int(14, Kind::I64, offset);
    match range.len_bytes {
        Some(len) => {
            let what = "a filter length of 2 GiB or more does not fit in the footer";
            let len = i32::try_from(len).map_err(|_| Error::unsupported(what, "use a shorter filter"))?;
            column.set_int(15, Kind::I32, len.into());
        }
        None => column.fields.retain(|field| field.id != 15),
    }
    Ok(())
}
