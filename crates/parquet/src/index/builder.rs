//! Builds a new index, and makes the next version of an existing one.

use std::collections::HashSet;
use std::io::{Read, Seek, Write};

use super::cells::{CELL_LEN_BYTES, Cell, blocks_for, has_all};
use super::content::{Blocks, Run, Spill};
use super::layout::{HEADER_LEN_BYTES, Header, MAX_ROWS};
use super::read_at::ReadAt;
use super::reader::IndexReader;
use super::shape::{self, Size};
use super::table::{FileIdentity, FileTable, IndexedFile, Settings, check_path};
use crate::bloom::{block_number, mask, unite};
use crate::distinct::DistinctHashes;
use crate::error::{Error, Result, check_rate};
use crate::filters::expected_fpr;

/// Collects key hashes and existing filters of files, and builds an index of the files.
///
/// `S` stores the hashes until the index is built: 8 bytes per distinct key of each file. For
/// example, use an unnamed temporary file. The builder needs memory for the finished index, for
/// existing filters, and for the [`DistinctHashes`] of one file.
#[derive(Debug)]
pub struct IndexBuilder<S> {
    settings: Settings,
    spill: Spill<S>,
    files: Vec<NewFile>,
    paths: HashSet<std::path::PathBuf>,
}

#[derive(Debug)]
struct NewFile {
    identity: FileIdentity,
    num_keys: u64,
    filters: Vec<Content>,
    /// The FPR of all existing filters of the file together.
    filters_fpr: f64,
}

#[derive(Debug)]
enum Content {
    Hashes(Run),
    Blocks(Blocks),
}

/// The number of keys and the expected FPR of an added file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSummary {
    /// The number of distinct keys. For a file that was added by its filters, the `num_values` that
    /// [`IndexBuilder::add_filters`] got.
    pub num_keys: u64,
    /// The expected FPR of the index for this file.
    pub fpr: f64,
}

/// A finished index.
#[derive(Debug)]
pub struct Built {
    /// The bytes of the index file.
    pub bytes: Vec<u8>,
    /// The number of rows.
    pub rows: u32,
    /// The number of cells of 32 bytes in each row.
    pub cells: u32,
    /// The files that were added, in the order in which they were added.
    pub added: Vec<FileSummary>,
}

impl<S: Read + Write + Seek> IndexBuilder<S> {
    /// Returns a builder without files. `spill` is the empty storage for hashes.
    ///
    /// # Errors
    /// Returns an error if the FPR is not above 0 and below 1, or if an index cannot have this key
    /// type.
    pub fn new(settings: Settings, spill: S) -> Result<Self> {
        check_rate(settings.fpr)?;
        settings.key_type.check()?;
        Ok(Self { settings, spill: Spill::new(spill), files: Vec::new(), paths: HashSet::new() })
    }

    /// Adds a file by the distinct hashes of its keys.
    ///
    /// # Errors
    /// Returns an error if the path was already added or cannot be stored in an index, or if the
    /// hashes cannot be stored.
    pub fn add_hashes(&mut self, identity: FileIdentity, hashes: DistinctHashes) -> Result<()> {
        self.check_new(&identity)?;
        let hashes = hashes.into_sorted();
        let num_keys = hashes.len() as u64;
        let filters = match num_keys {
            0 => Vec::new(),
            _ => vec![Content::Hashes(self.spill.push(&hashes)?)],
        };
        self.push(NewFile { identity, num_keys, filters, filters_fpr: 0.0 });
        Ok(())
    }

    /// Adds a file by the bits of its existing split-block filters, one for each row group. A key
    /// may be in the file if any of the filters says so. `num_values` is the number of values in
    /// the column, nulls included. A row group that has only nulls needs no filter. If its filter
    /// is left out, its values do not count in `num_values`.
    ///
    /// The target FPR of each filter is the FPR of the settings, divided by the number of filters.
    /// A filter is halved as long as its number of blocks is even and the FPR of the half does not
    /// exceed the target. A filter whose own FPR exceeds the target is stored unchanged.
    ///
    /// # Errors
    /// Returns an error if the path was already added or cannot be stored in an index, or if a
    /// filter is certainly damaged. Returns an error also if `num_values` is above 0 and no filter
    /// has a set bit. After an error, the builder is as before the call.
    pub fn add_filters(&mut self, identity: FileIdentity, num_values: u64, filters: &[&[u8]]) -> Result<()> {
        self.check_new(&identity)?;
        if filters.is_empty() && num_values > 0 {
            return Err(Error::invalid(
                "filters",
                "the file has values but no filter; build the index from the values",
            ));
        }
        if num_values > 0 && filters.iter().all(|bits| bits.iter().all(|&byte| byte == 0)) {
            return Err(Error::invalid(
                "filter",
                "no bit is set in any filter, but the file has values: the filters are damaged, or all values are \
                 nulls; read the values instead",
            ));
        }
        let fpr = self.settings.fpr / filters.len().max(1) as f64;
        let mut contents = Vec::with_capacity(filters.len());
        let mut passes = 1.0;
        for (number, bits) in filters.iter().enumerate() {
            let shrunk = Blocks::shrunk(bits, fpr).map_err(|error| match error {
                Error::Invalid { what, reason, .. } => {
                    Error::invalid(what, format!("number {} of {} is {reason}", number + 1, filters.len()))
                }
                other => other,
            });
            let (blocks, rate) = shrunk?;
            passes *= 1.0 - rate;
            contents.push(Content::Blocks(blocks));
        }
        let filters_fpr = 1.0 - passes;
        self.push(NewFile { identity, num_keys: num_values, filters: contents, filters_fpr });
        Ok(())
    }

    fn check_new(&self, identity: &FileIdentity) -> Result<()> {
        check_path(&identity.path)?;
        match self.paths.contains(&identity.path) {
            false => Ok(()),
            true => {
                let path = identity.path.display();
                Err(Error::invalid("path", format!("{path}: the path is given twice; give it once")))
            }
        }
    }

    fn push(&mut self, file: NewFile) {
        self.paths.insert(file.identity.path.clone());
        self.files.push(file);
    }

    fn sizes(&self) -> Vec<Size> {
        let filters = self.files.iter().flat_map(|file| &file.filters);
        filters.map(|content| content.size(self.settings.fpr)).collect()
    }

    /// Builds a new index of the added files.
    ///
    /// # Errors
    /// Returns an error if the hashes cannot be read back, if the files do not fit in one index, or
    /// if the new index denies a key.
    pub fn build(self) -> Result<Built> {
        let rows = shape::rows_for(&self.sizes())?;
        self.assemble(rows, 1, Vec::new(), |_, _| Ok(()))
    }

    /// Builds the next version of the index `old`: without the files whose numbers `is_removed`
    /// selects, and with the added files. The number of rows stays. A filter that needs more blocks
    /// than there are rows gets several cells in each row.
    ///
    /// # Errors
    /// Returns an error if `old` has another column, key type or logical type, or still has an
    /// added path. Returns an error if a row of `old` is damaged or cannot be read, or if an added
    /// filter does not fit the number of rows. Returns the errors of [`Self::build`], too.
    pub fn build_onto<R: ReadAt>(self, old: &IndexReader<R>, is_removed: impl Fn(usize) -> bool) -> Result<Built> {
        let (known, new) = (old.settings().keys(), self.settings.keys());
        if known != new {
            return Err(Error::invalid(
                "settings",
                format!("the index has {known}, and the new files have {new}; build another index for them"),
            ));
        }
        let mut kept = Vec::new();
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        let mut start = 0;
        for (number, file) in old.files().iter().enumerate() {
            let cells: usize = file.cells.iter().map(|&cells| cells as usize).sum();
            let end = start + cells * CELL_LEN_BYTES;
            if !is_removed(number) {
                if self.paths.contains(&file.identity.path) {
                    let path = file.identity.path.display();
                    return Err(Error::invalid(
                        "path",
                        format!("{path}: already in the index; remove the path from the index first"),
                    ));
                }
                kept.push(file.clone());
                ranges.push(start..end);
            }
            start = end;
        }
        let mut buffer = Vec::new();
        let generation = old.generation().saturating_add(1);
        self.assemble(old.rows(), generation, kept, |row, cells| {
            let found = old.read_row(row, &mut buffer)?;
            let mut rest = cells;
            for range in &ranges {
                let old = found.get(range.clone()).unwrap_or_default();
                let Some((place, next)) = rest.split_at_mut_checked(old.len()) else { break };
                place.copy_from_slice(old);
                rest = next;
            }
            Ok(())
        })
    }

    /// Builds an index of the `kept` files of an older version, followed by the new files.
    /// `copy_row` writes the cells of the kept files to the front of a row.
    fn assemble(
        mut self,
        rows: u32,
        generation: u64,
        kept: Vec<IndexedFile>,
        mut copy_row: impl FnMut(u32, &mut [u8]) -> Result<()>,
    ) -> Result<Built> {
        let too_large = || Error::TooLarge { what: "the index" };
        let kept_cells: u64 = kept.iter().flat_map(|file| &file.cells).map(|&cells| u64::from(cells)).sum();
        let (num_kept, mut files) = (kept.len(), kept);
        for file in &self.files {
            files.push(file.record(rows, self.settings.fpr)?);
        }
        let all_cells: u64 = files.iter().flat_map(|file| &file.cells).map(|&cells| u64::from(cells)).sum();
        let table =
            FileTable { column: self.settings.column.clone(), logical_type: self.settings.logical_type.clone(), files };
        let table_bytes = table.encode()?;
        let mut header = Header {
            key_type: self.settings.key_type,
            rows,
            cells: u32::try_from(all_cells).map_err(|_| too_large())?,
            files: u32::try_from(table.files.len()).map_err(|_| too_large())?,
            table_len_bytes: table_bytes.len() as u64,
            fpr: self.settings.fpr,
            generation,
            table_checksum: crc32fast::hash(&table_bytes),
            checksum: 0,
        };
        let header_bytes = header.encode()?;
        header = Header::decode(&header_bytes)?;
        let len = header.file_len_bytes().and_then(|len| usize::try_from(len).ok()).ok_or_else(too_large)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| too_large())?;
        bytes.extend_from_slice(&header_bytes);
        bytes.extend_from_slice(&table_bytes);
        bytes.resize(len, 0);
        let mut matrix = Matrix::new(&header, bytes.get_mut(HEADER_LEN_BYTES + table_bytes.len()..))?;
        for row in 0..rows {
            copy_row(row, matrix.row(row))?;
        }
        let mut first_cell = kept_cells;
        let records = table.files.get(num_kept..).unwrap_or_default();
        let mut denied = 0;
        for (file, record) in self.files.iter().zip(records) {
            for (content, &cells) in file.filters.iter().zip(&record.cells) {
                let place = Place { first_cell, cells: cells.into() };
                denied += content.store(&mut self.spill, &mut matrix, place)?;
                first_cell += u64::from(cells);
            }
        }
        if denied > 0 {
            return Err(Error::SelfCheckFailed { denied });
        }
        for row in 0..rows {
            matrix.seal(&header, row);
        }
        let added = self.files.iter().zip(records).map(|(file, record)| file.summary(record, rows)).collect();
        Ok(Built { bytes, rows, cells: header.cells, added })
    }
}

impl Content {
    fn size(&self, fpr: f64) -> Size {
        match self {
            Self::Hashes(run) => Size::AtLeast(blocks_for(run.count, fpr, MAX_ROWS)),
            Self::Blocks(blocks) => Size::Exactly(blocks.len()),
        }
    }

    /// Writes the filter to its cells. If the filter is built from hashes, looks up every hash in
    /// it. Returns the number of faults: denied hashes, or existing blocks that do not fit.
    fn store<S: Read + Write + Seek>(
        &self,
        spill: &mut Spill<S>,
        matrix: &mut Matrix<'_>,
        place: Place,
    ) -> Result<u64> {
        let blocks = matrix.rows * place.cells;
        let mut denied = 0;
        match self {
            Self::Hashes(run) => {
                spill.for_each(*run, |hash| {
                    if let Some(cell) = matrix.cell(place, block_number(hash, blocks)) {
                        unite(cell, &mask(hash));
                    }
                })?;
                spill.for_each(*run, |hash| {
                    let cell = matrix.cell(place, block_number(hash, blocks));
                    denied += u64::from(!cell.is_some_and(|cell| has_all(cell, &mask(hash))));
                })?;
            }
            Self::Blocks(old) => {
                let fits = old.for_each_of(blocks, |number, block| match matrix.cell(place, number) {
                    Some(cell) => *cell = *block,
                    None => denied += 1,
                });
                denied += u64::from(!fits);
            }
        }
        Ok(denied)
    }
}

impl NewFile {
    fn record(&self, rows: u32, fpr: f64) -> Result<IndexedFile> {
        let cells = self.filters.iter().map(|content| {
            let size = content.size(fpr);
            let cells = size.cells(rows.into()).ok_or_else(|| {
                let (Size::Exactly(blocks) | Size::AtLeast(blocks)) = size;
                let path = self.identity.path.display();
                Error::invalid(
                    "filters",
                    format!(
                        "{path}: a filter of {blocks} blocks does not fit an index of {rows} rows; add the file by its \
                         values"
                    ),
                )
            })?;
            u32::try_from(cells).map_err(|_| Error::TooLarge { what: "a filter" })
        });
        Ok(IndexedFile {
            identity: self.identity.clone(),
            num_keys: self.num_keys,
            cells: cells.collect::<Result<_>>()?,
        })
    }

    fn summary(&self, record: &IndexedFile, rows: u32) -> FileSummary {
        let fpr = match (self.filters.as_slice(), record.cells.as_slice()) {
            ([Content::Hashes(run)], [cells]) => expected_fpr(run.count, u64::from(rows) * u64::from(*cells)),
            _ => self.filters_fpr,
        };
        FileSummary { num_keys: self.num_keys, fpr }
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    first_cell: u64,
    cells: u64,
}

struct Matrix<'a> {
    bytes: &'a mut [u8],
    rows: u64,
    row_len: usize,
    cells_len: usize,
}

impl<'a> Matrix<'a> {
    fn new(header: &Header, bytes: Option<&'a mut [u8]>) -> Result<Self> {
        let too_large = Error::TooLarge { what: "a row" };
        let (Ok(row_len), Some(bytes)) = (usize::try_from(header.row_len_bytes()), bytes) else {
            return Err(too_large);
        };
        let cells_len = header.cells as usize * CELL_LEN_BYTES;
        Ok(Self { bytes, rows: header.rows.into(), row_len, cells_len })
    }

    /// Returns the cells of a row, without the row's checksum.
    fn row(&mut self, row: u32) -> &mut [u8] {
        let start = row as usize * self.row_len;
        self.bytes.get_mut(start..start + self.cells_len).unwrap_or_default()
    }

    fn cell(&mut self, place: Place, block: u64) -> Option<&mut Cell> {
        let (row, cell) = (block / place.cells, place.first_cell + block % place.cells);
        let start = usize::try_from(row).ok()? * self.row_len + usize::try_from(cell).ok()? * CELL_LEN_BYTES;
        self.bytes.get_mut(start..)?.first_chunk_mut()
    }

    fn seal(&mut self, header: &Header, row: u32) {
        let checksum = header.row_checksum(row, self.row(row));
        let start = row as usize * self.row_len + self.cells_len;
        if let Some(place) = self.bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
            *place = checksum.to_le_bytes();
        }
    }
}
