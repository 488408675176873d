//! Chooses the number of rows of a new index.
//!
//! A filter has `rows * cells` blocks, where `cells` is a whole number for each filter. So one
//! large file among small ones gets several cells in each row, and the filters of the small files
//! stay small. A query reads one row, and rows are shorter if there are more of them. Few rows
//! waste less space, because the sizes of filters are rounded up to a multiple of the number of
//! rows.

use super::layout::MAX_ROWS;
use crate::error::{Error, Result};

/// The maximum number of different filter sizes that give candidates for the number of rows. For
/// each size, the candidates are the size and a half, a third and a quarter of the size.
const SIZES_MAX: usize = 64;
/// The maximum mean number of cells per filter in each row, for an index with existing filters.
/// Each query reads a whole row, so rows must not be too long.
const MEAN_CELLS_MAX: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// The filter is built from hashes, with at least this number of blocks.
    AtLeast(u64),
    /// The filter exists, and has this number of blocks. The filter can be stored if this number is
    /// a multiple or a divisor of the number of rows.
    Exactly(u64),
}

impl Size {
    /// Returns the number of cells in each row. Returns `None` if the filter does not fit an index
    /// of this number of rows.
    pub fn cells(self, rows: u64) -> Option<u64> {
        match self {
            Self::AtLeast(blocks) => Some(blocks.div_ceil(rows).max(1)),
            Self::Exactly(blocks) if blocks.is_multiple_of(rows) => Some(blocks / rows),
            Self::Exactly(blocks) if rows.is_multiple_of(blocks) => Some(1),
            Self::Exactly(_) => None,
        }
    }

    fn blocks(self) -> u64 {
        match self {
            Self::AtLeast(blocks) | Self::Exactly(blocks) => blocks.max(1),
        }
    }
}

pub(super) fn rows_for(sizes: &[Size]) -> Result<u32> {
    let mut all: Vec<u64> = sizes.iter().map(|size| size.blocks()).collect();
    all.sort_unstable();
    all.dedup();
    // Picks evenly spaced sizes. The smallest and the largest are among them.
    let count = all.len().min(SIZES_MAX);
    let picked = (0..count).filter_map(|i| all.get(i * (all.len() - 1) / (count - 1).max(1)));
    let exact = sizes.iter().filter_map(|size| match size {
        Size::Exactly(blocks) => Some(*blocks),
        Size::AtLeast(_) => None,
    });
    let divisor = exact.reduce(gcd);
    let mut candidates: Vec<u64> =
        picked.flat_map(|size| (1..=4).map(move |parts| size.div_ceil(parts))).chain(divisor).collect();
    // The number of rows must not exceed the limit, even if a filter is larger.
    candidates.iter_mut().for_each(|rows| *rows = (*rows).clamp(1, MAX_ROWS));
    candidates.sort_unstable();
    candidates.dedup();
    // If several numbers of rows have the lowest cost, `min_by` keeps the first, which is the
    // largest.
    let rated = candidates.iter().rev().filter_map(|&rows| Some((cost(sizes, rows)?, rows)));
    let best = rated.min_by(|one, other| one.0.total_cmp(&other.0));
    match best {
        Some((_, rows)) => u32::try_from(rows).map_err(|_| Error::TooLarge { what: "the index" }),
        None if sizes.is_empty() => Ok(1),
        None => Err(Error::invalid(
            "filters",
            "the sizes of the existing filters have no large common divisor; build the index from the values",
        )),
    }
}

/// Returns the cost of an index with this number of rows. Returns `None` if a filter does not fit,
/// or if there are existing filters and the mean number of cells exceeds [`MEAN_CELLS_MAX`].
///
/// Longer rows cost extra: two cells per filter in each row cost less than one cell only if the
/// index becomes more than a sixth smaller.
fn cost(sizes: &[Size], rows: u64) -> Option<f64> {
    let mut cells = 0u64;
    for size in sizes {
        cells = cells.checked_add(size.cells(rows)?)?;
    }
    let filters = sizes.len() as u64;
    let has_exact = sizes.iter().any(|size| matches!(size, Size::Exactly(_)));
    if has_exact && cells > filters.saturating_mul(MEAN_CELLS_MAX) {
        return None;
    }
    Some(rows as f64 * cells as f64 * (1.0 + cells as f64 / (4.0 * filters as f64)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(sizes: &[Size], rows: u32) -> u64 {
        sizes.iter().map(|size| size.cells(rows.into()).unwrap()).sum()
    }

    #[test]
    fn equal_files_have_one_cell_each() {
        for n in [1, 2, 1_000] {
            assert_eq!(rows_for(&vec![Size::AtLeast(411); n]).unwrap(), 411);
        }
        let sizes: Vec<_> = (0..1_000).map(|i| Size::AtLeast(400 + i % 12)).collect();
        let rows = rows_for(&sizes).unwrap();
        assert_eq!((rows, cells(&sizes, rows)), (411, 1_000));
    }

    #[test]
    fn one_large_file_among_small_ones_wastes_little() {
        let mut sizes = vec![Size::AtLeast(400); 999];
        sizes.push(Size::AtLeast(400_001));
        let rows = rows_for(&sizes).unwrap();
        let (total, needed) = (cells(&sizes, rows) * u64::from(rows), 400 * 999 + 400_001);
        assert!(total < needed * 11 / 10, "{total} blocks for {needed}");
    }

    #[test]
    fn any_sizes_need_at_most_double_space() {
        for spread in 1..30u32 {
            let sizes: Vec<_> = (0..500u32).map(|i| Size::AtLeast(1 + u64::from(i).pow(spread % 5) * 3)).collect();
            let rows = rows_for(&sizes).unwrap();
            let needed: u64 = sizes.iter().map(|size| size.blocks()).sum();
            let total = cells(&sizes, rows) * u64::from(rows);
            assert!(total <= 2 * needed, "{spread}: {total} blocks for {needed}");
        }
    }

    #[test]
    fn existing_filters_keep_their_blocks() {
        let powers: Vec<_> = [32, 64, 64, 256, 32].map(Size::Exactly).to_vec();
        let rows = rows_for(&powers).unwrap();
        assert!(powers.iter().all(|size| size.cells(rows.into()).is_some()), "{rows}");
        let mixed = [Size::Exactly(512), Size::AtLeast(411), Size::AtLeast(900)];
        assert!(512 % rows_for(&mixed).unwrap() == 0);
        let odd = [Size::Exactly(206), Size::Exactly(257)];
        assert!(rows_for(&odd).unwrap_err().to_string().contains("from the values"));
    }

    #[test]
    fn no_files_and_huge_files_have_a_shape() {
        assert_eq!(rows_for(&[]).unwrap(), 1);
        assert!(u64::from(rows_for(&[Size::AtLeast(1 << 40)]).unwrap()) <= MAX_ROWS);
    }
}
