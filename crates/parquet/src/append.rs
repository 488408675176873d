//! Appends filters and a new footer to a copy of a Parquet file. [`estimate`] predicts the filters
//! and writes nothing. [`fix_lengths`] appends only a footer.
//!
//! ```text
//! the old file, byte for byte   filters of column a   filters of column b   new footer
//!                               row group 0, 1, 2 ..  row group 0, 1, 2 ..
//! ```
//! The new filters of a column lie side by side, so that a reader can fetch them with one read.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};

use parquet::file::reader::ChunkReader;

use crate::bloom::{ParquetBloom, ParquetBloomBuilder};
use crate::error::{Error, Field, Result, shortened};
use crate::filters::{self, Collector, Filter, Sizing};
use crate::footer::Footer;
use crate::metadata::{FilterRange, ParquetColumnChunk, read_at};
use crate::values::ParquetValues;

/// The estimated length of a filter's header. The real length differs by at most two bytes.
const HEADER_LEN_BYTES: u64 = 17;

type Ranges = BTreeMap<(usize, usize), FilterRange>;

/// The filters to add, and their options.
#[derive(Debug, Clone)]
pub struct Request {
    /// The numbers of the leaf columns, in the order in which their filters are written.
    pub leaves: Vec<usize>,
    /// The rule for the length of filters.
    pub sizing: Sizing,
    /// Whether chunks that have a filter get a new one.
    pub replace: bool,
    /// The leaf columns that get filters although an engine loses rows with them: see
    /// [`Leaf::loss`](crate::Leaf::loss). The new footer marks these columns.
    pub forced: Vec<usize>,
}

impl Request {
    fn check(&self, footer: &Footer) -> Result<()> {
        let accepted = self.leaves.iter().filter(|leaf| !self.forced.contains(leaf));
        let mut refused =
            accepted.filter_map(|&leaf| footer.leaves().get(leaf)).filter_map(|leaf| Some((leaf, leaf.loss()?)));
        match refused.next() {
            Some((leaf, loss)) => {
                Err(Error::unsupported(format!("column {} has {loss}", shortened(&leaf.path)), "omit the column"))
            }
            None => Ok(()),
        }
    }

    /// Returns the pair (row group, leaf column) of each chunk that gets a filter, column after
    /// column. A chunk of an empty row group gets none.
    pub fn chunks(&self, footer: &Footer) -> impl Iterator<Item = (usize, usize)> {
        self.all_chunks(footer)
            .filter(|&(row_group, leaf)| footer.chunk(row_group, leaf).is_some_and(|chunk| self.is_new(chunk)))
    }

    /// Returns the chunk of each filter that stays, column after column.
    pub fn kept<'a>(&'a self, footer: &'a Footer) -> impl Iterator<Item = &'a ParquetColumnChunk> + 'a {
        let chunks = self.all_chunks(footer).filter_map(|(row_group, leaf)| footer.chunk(row_group, leaf));
        chunks.filter(|chunk| !self.is_new(chunk) && chunk.filter.is_some())
    }

    /// Returns whether the chunk gets a new filter. A chunk without values needs none.
    fn is_new(&self, chunk: &ParquetColumnChunk) -> bool {
        chunk.num_values > 0 && (self.replace || chunk.filter.is_none())
    }

    fn all_chunks(&self, footer: &Footer) -> impl Iterator<Item = (usize, usize)> {
        let groups = 0..footer.num_row_groups();
        self.leaves.iter().flat_map(move |&leaf| groups.clone().map(move |group| (group, leaf)))
    }
}

/// A filter that [`add`] added, or that [`estimate`] predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Added {
    /// The number of the row group, from 0.
    pub row_group: usize,
    /// The number of the leaf column, from 0.
    pub leaf: usize,
    /// The location of the filter. In an estimate, the offset is 0.
    pub range: FilterRange,
    /// The number of distinct hashes in the filter. A zero or a NaN of a floating-point column may
    /// add several hashes.
    pub distinct: u64,
    /// Whether `distinct` is an estimate.
    pub is_estimate: bool,
    /// The expected false-positive rate.
    pub fpr: f64,
}

/// Appends filters and a new footer to `out`. `out` holds a copy of the file to which `footer` and
/// `values` belong. Calls `progress` for each chunk that got a filter, with the chunk's length in
/// bytes.
///
/// Reads each filter back from `out`, and looks up every hash of its chunk.
///
/// # Errors
/// Returns [`Error::Unsupported`] for a column that [`Request::forced`] should have, and [`Error::Changed`] if `out` has
/// another length than the file. Returns an error also if a chunk cannot be read, if a filter
/// cannot be built or denies a value, or if `out` cannot be written and read back. After an error,
/// discard `out`.
pub fn add<R: ChunkReader + 'static>(
    footer: &Footer,
    values: &ParquetValues<R>,
    request: &Request,
    out: &mut (impl Read + Write + Seek),
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Added>> {
    request.check(footer)?;
    let mut offset = end_of_copy(footer, out)?;
    let (mut added, mut ranges) = (Vec::new(), Ranges::new());
    for (row_group, leaf) in request.chunks(footer) {
        let chunk = Chunk { footer, values, row_group, leaf };
        let filter = chunk.build(&request.sizing)?;
        let (distinct, num_blocks) = (filter.distinct, filter.builder.num_blocks());
        let range = write(&filter.builder, offset, out)?;
        // `verify` reads the filter back. Two copies of a long filter might not fit in memory
        // together.
        drop(filter.builder);
        chunk.verify(filter.hashes.as_deref(), range, out)?;
        offset += range.len_bytes.unwrap_or(0);
        ranges.insert((row_group, leaf), range);
        let (is_estimate, fpr) = (filter.hashes.is_none(), filters::expected_fpr(distinct, num_blocks as u64));
        added.push(Added { row_group, leaf, range, distinct, is_estimate, fpr });
        progress(footer.chunk(row_group, leaf).map_or(0, |chunk| chunk.len_bytes));
    }
    let forced: Vec<usize> = request.forced.iter().filter(|leaf| request.leaves.contains(leaf)).copied().collect();
    write_footer(footer, &ranges, &forced, out)?;
    Ok(added)
}

/// Reads each filter that stays, and returns the number of these filters. `file` is the file of
/// `footer`. `values` reads the same file, or is `None` if its values cannot be read.
///
/// # Errors
/// Returns [`Error::Unsupported`] if a filter cannot be used, or denies every value although its
/// chunk has values. Returns [`Error::Io`] if `file` cannot be read, and [`Error::Changed`] if it
/// became shorter.
pub fn check_kept<R: ChunkReader + 'static>(
    footer: &Footer,
    values: Option<&ParquetValues<R>>,
    request: &Request,
    file: &mut (impl Read + Seek),
) -> Result<u64> {
    let mut kept = 0;
    for chunk in request.kept(footer) {
        let found = footer.parsed().read_filter(chunk, file).and_then(|bytes| {
            let is_zero =
                bytes.as_ref().is_some_and(|bytes| ParquetBloom::parse(bytes).is_ok_and(|found| found.is_zero()));
            let has_values = || values.is_none_or(|values| !values.has_only_nulls(chunk.row_group, chunk.leaf));
            match chunk.filter {
                Some(filter) if is_zero && has_values() => Err(Error::corrupt(Field::FilterBits, filter.offset)),
                _ => Ok(()),
            }
        });
        match found {
            Ok(()) => kept += 1,
            Err(error @ (Error::Io(_) | Error::Changed)) => return Err(error),
            Err(error) => {
                return Err(Error::unsupported(
                    format!(
                        "row group {}, column {}: the existing filter cannot be used: {}",
                        chunk.row_group,
                        shortened(&chunk.path),
                        error.problem()
                    ),
                    "replace the filters of this column (--replace)",
                ));
            }
        }
    }
    Ok(kept)
}

/// Estimates the lengths and FPRs of the filters that [`add`] would add. For each column, reads the
/// values of the first row group that gets a filter. Assumes that the other row groups have the
/// same share of distinct values.
///
/// # Errors
/// Returns [`Error::Unsupported`] for a column that [`Request::forced`] should have, [`Error::Values`]
/// if a chunk cannot be read, and [`Error::Invalid`] if a filter cannot be built.
pub fn estimate<R: ChunkReader + 'static>(
    footer: &Footer,
    values: &ParquetValues<R>,
    request: &Request,
) -> Result<Vec<Added>> {
    request.check(footer)?;
    let mut added: Vec<Added> = Vec::new();
    // The sampled leaf column. In the sampled row group: the number of values (nulls included, at
    // least 1), and the number of distinct values.
    let mut sample: Option<(usize, u64, u64)> = None;
    for (row_group, leaf) in request.chunks(footer) {
        let num_values = footer.chunk(row_group, leaf).map_or(0, |chunk| chunk.num_values);
        let (_, sampled, distinct) = match sample {
            Some(same @ (of, ..)) if of == leaf => same,
            _ => {
                let filter = Chunk { footer, values, row_group, leaf }.build(&request.sizing)?;
                *sample.insert((leaf, num_values.max(1), filter.distinct))
            }
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is never negative")]
        let distinct = (distinct as f64 / sampled as f64 * num_values as f64).round() as u64;
        let num_blocks = request.sizing.num_blocks(distinct);
        let range = FilterRange { offset: 0, len_bytes: Some(num_blocks as u64 * 32 + HEADER_LEN_BYTES) };
        let fpr = filters::expected_fpr(distinct, num_blocks as u64);
        added.push(Added { row_group, leaf, range, distinct, is_estimate: true, fpr });
    }
    Ok(added)
}

/// The filters that have no length in the footer.
#[derive(Debug)]
pub struct MissingLengths {
    ranges: Ranges,
    /// The damaged filters. Their lengths are unknown.
    pub damaged: Vec<DamagedFilter>,
}

impl MissingLengths {
    /// Returns the number of lengths that are known, because their filters are sound.
    #[must_use]
    pub fn num_known(&self) -> u64 {
        self.ranges.len() as u64
    }
}

/// A filter that has no length in the footer and cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub struct DamagedFilter {
    /// The number of the row group, from 0.
    pub row_group: usize,
    /// The number of the leaf column, from 0.
    pub leaf: usize,
    /// The reason.
    pub error: Error,
}

/// Appends a new footer to `out`, which holds a copy of the file. The new footer is the old footer
/// with the filter lengths that it lacks. A damaged filter stays without a length. Appends nothing
/// if no length is known. Returns what [`missing_lengths`] returns for the file.
///
/// # Errors
/// Returns [`Error::Changed`] if `out` has another length than the file. Returns an error also if
/// `out` cannot be read, or cannot be written and read back.
pub fn fix_lengths(footer: &Footer, out: &mut (impl Read + Write + Seek)) -> Result<MissingLengths> {
    end_of_copy(footer, out)?;
    let missing = missing_lengths(footer, out)?;
    if missing.num_known() > 0 {
        out.seek(SeekFrom::End(0))?;
        write_footer(footer, &missing.ranges, &[], out)?;
    }
    Ok(missing)
}

/// Reads the filters that have no length in the footer.
///
/// # Errors
/// Returns [`Error::Io`] if `file` cannot be read, and [`Error::Changed`] if it became shorter. A
/// damaged filter is no error: see [`MissingLengths::damaged`].
pub fn missing_lengths(footer: &Footer, file: &mut (impl Read + Seek)) -> Result<MissingLengths> {
    let mut missing = MissingLengths { ranges: Ranges::new(), damaged: Vec::new() };
    for chunk in without_length(footer) {
        let (row_group, leaf) = (chunk.row_group, chunk.leaf);
        match (footer.parsed().read_filter(chunk, file), chunk.filter) {
            (Ok(Some(bytes)), Some(filter)) => {
                let len_bytes = Some(bytes.len() as u64);
                missing.ranges.insert((row_group, leaf), FilterRange { len_bytes, ..filter });
            }
            (Ok(_), _) => {}
            (Err(error @ (Error::Io(_) | Error::Changed)), _) => return Err(error),
            (Err(error), _) => missing.damaged.push(DamagedFilter { row_group, leaf, error }),
        }
    }
    Ok(missing)
}

/// Returns the chunk of each filter that has no length in the footer.
pub fn without_length(footer: &Footer) -> impl Iterator<Item = &ParquetColumnChunk> {
    let chunks = footer.parsed().column_chunks().iter();
    chunks.filter(|chunk| chunk.filter.is_some_and(|filter| filter.len_bytes.is_none()))
}

/// Seeks to the end of the copy, and returns the offset of the end. Returns [`Error::Changed`] if
/// the copy is not as long as the file.
fn end_of_copy(footer: &Footer, out: &mut impl Seek) -> Result<u64> {
    let end = out.seek(SeekFrom::End(0))?;
    if end == footer.file_len_bytes() { Ok(end) } else { Err(Error::Changed) }
}

/// Writes a filter at `offset`, the end of `out`, and flushes `out`. Returns the location of the
/// filter.
fn write(builder: &ParquetBloomBuilder, offset: u64, out: &mut (impl Write + Seek)) -> Result<FilterRange> {
    let header = builder.header();
    out.seek(SeekFrom::Start(offset))?;
    out.write_all(&header)?;
    out.write_all(builder.bits())?;
    out.flush()?;
    let len = header.len() + builder.bits().len();
    Ok(FilterRange { offset, len_bytes: Some(len as u64) })
}

fn write_footer(
    footer: &Footer,
    ranges: &Ranges,
    forced: &[usize],
    out: &mut (impl Read + Write + Seek),
) -> Result<()> {
    let bytes =
        footer.rewrite_marked(|row_group, leaf, old| ranges.get(&(row_group, leaf)).copied().or(old), forced)?;
    let start = out.seek(SeekFrom::End(0))?;
    out.write_all(&bytes)?;
    out.flush()?;
    let again = Footer::read(out)?;
    let is_as_planned = |(&(row_group, leaf), &range): (&(usize, usize), &FilterRange)| {
        again.chunk(row_group, leaf).and_then(|chunk| chunk.filter) == Some(range)
    };
    let is_same = again.metadata_offset() == start && bytes.starts_with(again.metadata());
    if !is_same || again.file_len_bytes() != start + bytes.len() as u64 || !ranges.iter().all(is_as_planned) {
        return Err(Error::corrupt(Field::WrittenFooter, start));
    }
    Ok(())
}

struct Chunk<'a, R> {
    footer: &'a Footer,
    values: &'a ParquetValues<R>,
    row_group: usize,
    leaf: usize,
}

impl<R: ChunkReader + 'static> Chunk<'_, R> {
    fn for_each_hash(&self, sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        self.values.for_each_hash(self.row_group, self.leaf, sink).map(drop)
    }

    fn build(&self, sizing: &Sizing) -> Result<Filter> {
        let most = self.footer.chunk(self.row_group, self.leaf).map_or(0, |chunk| chunk.num_values);
        let mut collector = Collector::new(*sizing, most);
        let mut failed = None;
        self.for_each_hash(&mut |hashes| {
            if failed.is_none() {
                failed = collector.add(hashes).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        let mut filter = collector.finish()?;
        if let Some(num_blocks) = filter.exact_blocks(sizing) {
            // Two long filters might not fit in memory together.
            filter.builder = ParquetBloomBuilder::with_blocks(1)?;
            let mut builder = ParquetBloomBuilder::with_blocks(num_blocks)?;
            self.for_each_hash(&mut |hashes| builder.add_hashes(hashes))?;
            filter.builder = builder;
        }
        Ok(filter)
    }

    /// Reads the filter back and looks up every hash in it. If `hashes` is `None`, reads the values
    /// again. Returns [`Error::Denied`] if the filter denies a hash.
    fn verify(&self, hashes: Option<&[u64]>, range: FilterRange, out: &mut (impl Read + Seek)) -> Result<()> {
        let bytes = read_at(out, range.offset..range.offset + range.len_bytes.unwrap_or(0))?;
        let filter = ParquetBloom::parse(&bytes)?;
        let mut denied = 0;
        match hashes {
            Some(hashes) => denied = filter.num_denied(hashes) as u64,
            None => self.for_each_hash(&mut |hashes| denied += filter.num_denied(hashes) as u64)?,
        }
        if denied == 0 {
            return Ok(());
        }
        let column = self.footer.leaves().get(self.leaf).map_or_else(String::new, |leaf| leaf.path.to_string());
        Err(Error::Denied { row_group: self.row_group, column, values: denied })
    }
}
