//! Checks the filters of a Parquet file: presence, location, size, FPR, and false negatives.
//!
//! The check continues after a damaged filter.

use std::io::{Read, Seek};

use parquet::file::reader::ChunkReader;

use crate::bloom::ParquetBloom;
use crate::error::{Error, Field, Result};
use crate::filters::{self, Collector, Sizing};
use crate::footer::Footer;
use crate::metadata::{FilterRange, ParquetColumnChunk};
use crate::schema::{Loss, PhysicalType};
use crate::values::ParquetValues;

/// A filter with at least this multiple of the needed number of blocks is oversized, unless its FPR
/// is too high.
const OVERSIZED: usize = 4;

/// The options of a check.
#[derive(Debug, Clone)]
pub struct Request {
    /// The numbers of the leaf columns whose filters are checked, from 0.
    pub leaves: Vec<usize>,
    /// The rule for the needed size.
    pub sizing: Sizing,
    /// The maximum expected false-positive rate. A filter with a higher rate is undersized.
    pub max_fpr: f64,
    /// Whether values are read, to count the distinct values and to look them up in their filter.
    /// Values of Boolean columns are never read.
    pub looks_up_values: bool,
}

/// The verdict on the size of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The size is neither too large nor too small.
    Right,
    /// The filter has at least four times the needed number of blocks, and is not undersized.
    Oversized,
    /// The expected false-positive rate exceeds [`Request::max_fpr`].
    Undersized,
}

/// A filter that can be read.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CheckedFilter {
    /// The offset of the filter's header in the file.
    pub offset: u64,
    /// The length in bytes of header and bits.
    pub len_bytes: u64,
    /// Whether the footer stores the length of the filter.
    pub has_length: bool,
    /// The number of 32-byte blocks.
    pub num_blocks: usize,
    /// The number of blocks that the distinct values need.
    pub needed_blocks: usize,
    /// The expected false-positive rate, computed from the set bits.
    pub fpr: f64,
    /// The verdict on the size.
    pub size: Size,
    /// The number of distinct values of the chunk that the filter denies, or `None` if not all
    /// values were looked up. A number of many millions may be an estimate. If the number is above
    /// 0, readers can lose rows.
    pub false_negatives: Option<u64>,
    /// The engine that loses rows because of this filter, at any size: see
    /// [`Footer::loss_of_filters`].
    pub loss: Option<&'static Loss>,
}

/// The state of a chunk's filter.
#[derive(Debug)]
pub enum State {
    /// The chunk has no filter.
    Missing,
    /// The filter cannot be used, for example because its location overlaps the pages of a chunk.
    Damaged {
        /// The location that the footer gives for the filter.
        range: FilterRange,
        /// The reason.
        error: Error,
    },
    /// The filter can be read. It may still deny values of its chunk: see
    /// [`CheckedFilter::false_negatives`].
    Sound(CheckedFilter),
}

/// A column chunk that was checked.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedChunk {
    /// The number of the row group, from 0.
    pub row_group: usize,
    /// The number of the leaf column, from 0.
    pub leaf: usize,
    /// The number of values, nulls included. A chunk without values needs no filter.
    pub num_values: u64,
    /// The number of distinct values, or `None` if it is unknown.
    pub distinct: Option<u64>,
    /// Whether `distinct` is an estimate.
    pub is_estimate: bool,
    /// The state of the filter.
    pub state: State,
    /// The error that prevented the count and the lookup of the values, or `None` if there was no
    /// error.
    pub unread: Option<Error>,
}

/// Checks the filters of the requested columns, column after column. `values` reads the same file
/// as `file`. If `values` is `None`, no values are looked up, and no dictionary is used to count
/// the distinct values. Calls `progress` after each chunk with the chunk's length in bytes.
///
/// # Errors
/// Returns [`Error::Io`] if a filter cannot be read from `file`, and [`Error::Changed`] if `file`
/// became shorter. Other failures are not errors: see [`State::Damaged`] and
/// [`CheckedChunk::unread`].
///
/// # Examples
/// ```no_run
/// use filterblock_parquet::check::{Request, State, check};
/// use filterblock_parquet::filters::{Budget, Sizing};
/// use filterblock_parquet::{Footer, values::ParquetValues};
///
/// let mut file = std::fs::File::open("events.parquet")?;
/// let footer = Footer::read(&mut file)?;
/// let values = ParquetValues::open(file.try_clone()?)?;
/// let sizing = Sizing::new(Budget::Fpr(0.01), false)?;
/// let request = Request { leaves: vec![0], sizing, max_fpr: 0.05, looks_up_values: true };
/// for chunk in check(&footer, Some(&values), &request, &mut file, &mut |_| {})? {
///     if let State::Sound(filter) = chunk.state {
///         println!("{} {:?} {:?}", chunk.row_group, filter.size, filter.false_negatives);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check<R: ChunkReader + 'static>(
    footer: &Footer,
    values: Option<&ParquetValues<R>>,
    request: &Request,
    file: &mut (impl Read + Seek),
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<CheckedChunk>> {
    let mut checked = Vec::new();
    let groups = 0..footer.num_row_groups();
    for (&leaf, row_group) in request.leaves.iter().flat_map(|leaf| groups.clone().map(move |group| (leaf, group))) {
        let Some(chunk) = footer.chunk(row_group, leaf) else { continue };
        let stored = match footer.parsed().read_filter(chunk, file) {
            Err(error @ (Error::Io(_) | Error::Changed)) => return Err(error),
            stored => stored,
        };
        checked.push(Place { footer, values, request, chunk }.check(stored)?);
        progress(chunk.len_bytes);
    }
    Ok(checked)
}

/// Returns the number of reads that fetch all readable filters of `chunks`. Filters that lie side
/// by side need one read. Returns 0 if no filter is readable.
#[must_use]
pub fn num_reads(chunks: &[&CheckedChunk]) -> usize {
    let filter = |chunk: &&CheckedChunk| match &chunk.state {
        State::Sound(filter) => Some((filter.offset, filter.offset + filter.len_bytes)),
        _ => None,
    };
    let mut ranges: Vec<(u64, u64)> = chunks.iter().filter_map(filter).collect();
    ranges.sort_unstable();
    let gaps = ranges.windows(2).filter(|pair| matches!(pair, [(_, end), (start, _)] if start > end)).count();
    if ranges.is_empty() { 0 } else { gaps + 1 }
}

/// The number of distinct values of a chunk, and the number of distinct values that its filter
/// denies.
struct Asked {
    distinct: u64,
    is_estimate: bool,
    denied: u64,
}

struct Place<'a, R> {
    footer: &'a Footer,
    values: Option<&'a ParquetValues<R>>,
    request: &'a Request,
    chunk: &'a ParquetColumnChunk,
}

impl<R: ChunkReader + 'static> Place<'_, R> {
    fn check(&self, stored: Result<Option<Vec<u8>>>) -> Result<CheckedChunk> {
        let ParquetColumnChunk { row_group, leaf, num_values, .. } = *self.chunk;
        let (bytes, failed) = match stored {
            Ok(bytes) => (bytes, None),
            Err(error) => (None, Some(error)),
        };
        let filter = bytes.as_deref().map(ParquetBloom::parse).transpose()?;
        let (mut asked, mut unread) = (None, None);
        match self.ask(filter.as_ref()) {
            Ok(found) => asked = found,
            Err(error @ (Error::Io(_) | Error::Changed)) => return Err(error),
            Err(error) => unread = Some(error),
        }
        // A lookup of the values tells more about the filter.
        let denies_all = asked.is_none()
            && filter.as_ref().is_some_and(ParquetBloom::is_zero)
            && num_values > 0
            && !self.values.is_some_and(|values| values.has_only_nulls(row_group, leaf));
        let counted = asked.as_ref().map(|asked| (asked.distinct, asked.is_estimate));
        let by_dictionary = || self.values?.dictionary_len(row_group, leaf).map(|num| (num, false));
        let by_bits = filter.as_ref().filter(|_| !denies_all);
        let by_bits = by_bits.map(|filter| (filters::estimated_distinct(filter.bits()), true));
        let none = (num_values == 0).then_some((0, false));
        let distinct = none.or(counted).or(by_bits).or_else(by_dictionary);
        let state = match (self.chunk.filter, failed, filter) {
            (Some(range), Some(error), _) => State::Damaged { range, error },
            (Some(range), ..) if denies_all => {
                State::Damaged { range, error: Error::corrupt(Field::FilterBits, range.offset) }
            }
            (Some(range), _, Some(filter)) => {
                let distinct = distinct.map_or(0, |(distinct, _)| distinct);
                State::Sound(self.judge(range, &filter, distinct, asked.map(|asked| asked.denied)))
            }
            _ => State::Missing,
        };
        Ok(CheckedChunk {
            row_group,
            leaf,
            num_values,
            distinct: distinct.map(|(distinct, _)| distinct),
            is_estimate: distinct.is_some_and(|(_, is_estimate)| is_estimate),
            state,
            unread,
        })
    }

    fn judge(
        &self,
        range: FilterRange,
        filter: &ParquetBloom<'_>,
        distinct: u64,
        denied: Option<u64>,
    ) -> CheckedFilter {
        let info = filter.info();
        let needed_blocks = self.request.sizing.num_blocks(distinct);
        let size = if info.expected_fpr > self.request.max_fpr {
            Size::Undersized
        } else if filter.num_blocks() >= needed_blocks.saturating_mul(OVERSIZED) {
            Size::Oversized
        } else {
            Size::Right
        };
        CheckedFilter {
            offset: range.offset,
            len_bytes: info.len_bytes,
            has_length: range.len_bytes.is_some(),
            num_blocks: filter.num_blocks(),
            needed_blocks,
            fpr: info.expected_fpr,
            size,
            false_negatives: denied,
            loss: self.footer.loss_of_filters(self.chunk.leaf),
        }
    }

    /// Counts the distinct values, and looks up every value if there is a filter. Returns `None` if
    /// the request asks for no lookups or there is no reader of values. Returns `None` also for a
    /// Boolean column, because [`ParquetValues`] does not hash Boolean values.
    fn ask(&self, filter: Option<&ParquetBloom<'_>>) -> Result<Option<Asked>> {
        let ParquetColumnChunk { row_group, leaf, num_values, .. } = *self.chunk;
        let is_boolean = self.chunk.physical_type == Some(PhysicalType::Boolean);
        let Some(values) = self.values.filter(|_| self.request.looks_up_values && !is_boolean) else {
            return Ok(None);
        };
        let mut all = Collector::new(self.request.sizing, num_values);
        let mut denied = Collector::new(self.request.sizing, num_values);
        let mut failed = None;
        let mut lost = Vec::new();
        values.for_each_stored_hash(row_group, leaf, &mut |hashes| {
            lost.clear();
            if let Some(filter) = filter {
                lost.extend(hashes.iter().filter(|&&hash| !filter.may_contain_hash(hash)));
            }
            if failed.is_none() {
                failed = all.add(hashes).and_then(|()| denied.add(&lost)).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        let (distinct, is_estimate) = all.count();
        // `Collector::count` estimates large numbers. An estimate must not report 0 for values that
        // were denied.
        let denied = match denied.count() {
            (num, true) => num.max(1),
            (num, false) => num,
        };
        Ok(Some(Asked { distinct, is_estimate, denied }))
    }
}
