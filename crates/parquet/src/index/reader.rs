//! Opens an index, finds the files that may hold a key, and verifies the rows of the index.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cells::{CELL_LEN_BYTES, Cell, for_each_with_all, has_all};
use super::layout::{HEADER_LEN_BYTES, Header, ROW_CHECKSUM_LEN_BYTES};
use super::read_at::ReadAt;
use super::table::{FileTable, IndexedFile, Settings};
use crate::bloom::{block_number, mask};
use crate::error::{Error, Result, WRONG_CHECKSUM};
use crate::filters::measured_fpr;

/// The state of the row that answered for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The row of the key is sound.
    Sound,
    /// The row of the key is damaged or cannot be read. Every file is a candidate.
    Degraded,
}

/// The numbers of queries, reads and errors since the index was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryCounts {
    /// The number of keys that were looked up.
    pub keys: u64,
    /// The number of reads of a row, for queries and for all other calls.
    pub reads: u64,
    /// The number of keys whose row failed its checksum.
    pub damaged: u64,
    /// The number of keys whose row could not be read.
    pub unreadable: u64,
}

#[derive(Debug, Clone, Copy)]
struct Filter {
    file: u32,
    first_cell: u32,
    cells: u32,
}

/// An open index.
///
/// Opening reads the header and the file table and checks both. A query reads one row and verifies
/// its checksum. A query never fails: if the row is damaged or unreadable, every file is a
/// candidate, and the reader counts the event.
#[derive(Debug)]
pub struct IndexReader<R> {
    reader: R,
    header: Header,
    settings: Settings,
    files: Vec<IndexedFile>,
    filters: Vec<Filter>,
    /// Whether every file has exactly one filter of one cell, so that cell `i` belongs to file `i`.
    is_plain: bool,
    rows_offset: u64,
    cells_len: usize,
    /// The files that are candidates for every key.
    distrusted: Vec<usize>,
    keys: AtomicU64,
    reads: AtomicU64,
    damaged: AtomicU64,
    unreadable: AtomicU64,
}

impl<R: ReadAt> IndexReader<R> {
    /// Opens an index with two reads. One reads the header, and the other the file table.
    ///
    /// # Errors
    /// Returns an error if the length, the header or the file table is wrong or cannot be read.
    /// Returns an error also if this program cannot read the format version of the index. After an
    /// error, the caller must treat all files as candidates.
    pub fn open(reader: R) -> Result<Self> {
        let len = reader.len_bytes()?;
        let mut buffer = Vec::new();
        if len < HEADER_LEN_BYTES as u64 {
            return Err(Error::damaged_index("end of the file", len, "the file is shorter than a header"));
        }
        let bytes = reader.read_at(0, HEADER_LEN_BYTES, &mut buffer)?;
        let bytes = bytes.first_chunk().ok_or_else(|| Error::damaged_index("header", 0, "the header is incomplete"))?;
        let header = Header::decode(bytes)?;
        let wrong_len = || Error::damaged_index("end of the file", len, "the header says another file length");
        if header.file_len_bytes() != Some(len) {
            return Err(wrong_len());
        }
        let rows_offset = header.rows_offset().ok_or_else(wrong_len)?;
        let table_len = usize::try_from(header.table_len_bytes).map_err(|_| wrong_len())?;
        let cells_len = (header.cells as usize).checked_mul(CELL_LEN_BYTES).ok_or_else(wrong_len)?;
        let table = reader.read_at(HEADER_LEN_BYTES as u64, table_len, &mut buffer)?;
        let FileTable { column, logical_type, files } = FileTable::decode(table, &header)?;
        let mut filters = Vec::new();
        let mut first_cell = 0;
        for (file, found) in (0u32..).zip(&files) {
            for &cells in &found.cells {
                filters.push(Filter { file, first_cell, cells });
                // `FileTable::decode` has checked the sum of all cells.
                first_cell = first_cell.saturating_add(cells);
            }
        }
        let is_plain = files.iter().all(|file| file.cells == [1]);
        let settings = Settings { column, logical_type, key_type: header.key_type, fpr: header.fpr };
        let zero = || AtomicU64::new(0);
        let (keys, reads, damaged, unreadable) = (zero(), zero(), zero(), zero());
        let distrusted = Vec::new();
        Ok(Self {
            reader,
            header,
            settings,
            files,
            filters,
            is_plain,
            rows_offset,
            cells_len,
            distrusted,
            keys,
            reads,
            damaged,
            unreadable,
        })
    }

    /// Returns the column, logical type and key type of all files, and the FPR of the latest build.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the files. A query returns positions in this slice.
    #[must_use]
    pub fn files(&self) -> &[IndexedFile] {
        &self.files
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.header.rows
    }

    /// Returns the number of cells of 32 bytes in each row.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.header.cells
    }

    /// Returns the generation: 1 for a new index, and one more for each update.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Returns the length of the index in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.header.file_len_bytes().unwrap_or(u64::MAX)
    }

    /// Makes the file at this position in [`Self::files`] a candidate for every key. Callers use it
    /// for a file that has changed. Does nothing if there is no such file.
    pub fn distrust(&mut self, file: usize) {
        if let Err(place) = self.distrusted.binary_search(&file)
            && file < self.files().len()
        {
            self.distrusted.insert(place, file);
        }
    }

    /// Returns the numbers of queries, reads and errors since the index was opened.
    #[must_use]
    pub fn counts(&self) -> QueryCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        QueryCounts {
            keys: of(&self.keys),
            reads: of(&self.reads),
            damaged: of(&self.damaged),
            unreadable: of(&self.unreadable),
        }
    }

    pub(super) fn read_row<'a>(&'a self, row: u32, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let offset = self.rows_offset + u64::from(row) * self.header.row_len_bytes();
        self.reads.fetch_add(1, Ordering::Relaxed);
        let found = self.reader.read_at(offset, self.cells_len + ROW_CHECKSUM_LEN_BYTES, buffer)?;
        let (cells, checksum) =
            found.split_last_chunk().ok_or(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
        if cells.len() != self.cells_len || self.header.row_checksum(row, cells) != u32::from_le_bytes(*checksum) {
            return Err(Error::damaged_index(format!("row {row}"), offset, WRONG_CHECKSUM));
        }
        Ok(cells)
    }

    #[inline]
    fn row_of(&self, hash: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the block number is below the number of rows")]
        let row = block_number(hash, self.header.rows.into()) as u32;
        row
    }

    /// Finds the files that may hold the key with this hash (see [`hash`](super::hash)). Replaces
    /// the content of `files` by their numbers, in ascending order. Reads one row, and returns the
    /// state of the row. If the index is not in memory, the row is read into `buffer`.
    pub fn candidates(&self, hash: u64, buffer: &mut Vec<u8>, files: &mut Vec<usize>) -> Answer {
        files.clear();
        let row = self.read_row(self.row_of(hash), buffer);
        self.answer(hash, &row, files)
    }

    /// Finds the candidates for many keys. Calls `each` for every key with its position in
    /// `hashes`, the numbers of its candidate files, and the state of its row. Keys of the same row
    /// share one read. The calls come in the order of the rows.
    pub fn candidates_of_many(&self, hashes: &[u64], mut each: impl FnMut(usize, &[usize], Answer)) {
        let mut order: Vec<usize> = (0..hashes.len()).collect();
        let hash_of = |position: usize| hashes.get(position).copied().unwrap_or_default();
        order.sort_by_key(|&position| hash_of(position));
        let (mut buffer, mut files) = (Vec::new(), Vec::new());
        for keys in order.chunk_by(|&one, &next| self.row_of(hash_of(one)) == self.row_of(hash_of(next))) {
            let Some(&first) = keys.first() else { continue };
            let row = self.read_row(self.row_of(hash_of(first)), &mut buffer);
            for &position in keys {
                files.clear();
                let answer = self.answer(hash_of(position), &row, &mut files);
                each(position, &files, answer);
            }
        }
    }

    fn answer(&self, hash: u64, row: &Result<&[u8]>, files: &mut Vec<usize>) -> Answer {
        self.keys.fetch_add(1, Ordering::Relaxed);
        match row {
            Ok(cells) => {
                self.search(hash, cells.as_chunks().0, files);
                Answer::Sound
            }
            Err(error) => {
                let count = if error.is_damage() { &self.damaged } else { &self.unreadable };
                count.fetch_add(1, Ordering::Relaxed);
                files.extend(0..self.files.len());
                Answer::Degraded
            }
        }
    }

    /// Appends the files that have a filter with all bits of the key, and the distrusted files.
    fn search(&self, hash: u64, row: &[Cell], files: &mut Vec<usize>) {
        let mask = mask(hash);
        if self.is_plain {
            for_each_with_all(row, &mask, |file| files.push(file));
        } else {
            for filter in &self.filters {
                let block = block_number(hash, u64::from(self.header.rows) * u64::from(filter.cells));
                let cell = u64::from(filter.first_cell) + block % u64::from(filter.cells);
                let cell = usize::try_from(cell).ok().and_then(|cell| row.get(cell));
                // If the row lacks the cell, the filter must not deny the key.
                if cell.is_none_or(|cell| has_all(cell, &mask)) && files.last() != Some(&(filter.file as usize)) {
                    files.push(filter.file as usize);
                }
            }
        }
        if !self.distrusted.is_empty() {
            files.extend_from_slice(&self.distrusted);
            files.sort_unstable();
            files.dedup();
        }
    }

    /// Reads and verifies every row. Calls `each` with the number of every row and its error, if
    /// any.
    pub fn verify(&self, mut each: impl FnMut(u32, Option<Error>)) {
        let mut buffer = Vec::new();
        for row in 0..self.header.rows {
            let error = self.read_row(row, &mut buffer).err();
            each(row, error);
        }
    }

    /// Returns the FPR of each file, computed from the bits of its filters. Reads the whole index.
    /// In a row that is damaged or cannot be read, all bits count as set.
    pub fn measure(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.filters.len()];
        let mut buffer = Vec::new();
        for row in 0..self.header.rows {
            let found = self.read_row(row, &mut buffer);
            let row = found.as_deref().ok().map(|cells| cells.as_chunks::<CELL_LEN_BYTES>().0);
            for (sum, filter) in sums.iter_mut().zip(&self.filters) {
                let first = filter.first_cell as usize;
                let cells = row.and_then(|row| row.get(first..first + filter.cells as usize));
                *sum += cells.map_or(1.0, measured_fpr);
            }
        }
        let mut passes = vec![1.0; self.files.len()];
        for (sum, filter) in sums.iter().zip(&self.filters) {
            if let Some(pass) = passes.get_mut(filter.file as usize) {
                *pass *= 1.0 - sum / f64::from(self.header.rows);
            }
        }
        passes.into_iter().map(|pass| 1.0 - pass).collect()
    }
}
