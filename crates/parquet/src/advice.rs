//! Decides which columns of a Parquet file may profit from a filter.

use crate::check::{CheckedChunk, State};
use crate::engines;
use crate::footer::Footer;
use crate::schema::PhysicalType;

/// The maximum number of distinct values that [`are_few`] treats as few.
const FEW_VALUES: u64 = 100;
/// The min and max of a column in each row group that records them.
pub type Ranges = [(Vec<u8>, Vec<u8>)];

/// A leaf column, and what a check found out about its chunks.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// The footer of the file.
    pub footer: &'a Footer,
    /// The number of the leaf column, from 0.
    pub leaf: usize,
    /// The chunks of the column.
    pub chunks: &'a [&'a CheckedChunk],
    /// Whether another column has the same path, so that nobody can name this one.
    pub is_ambiguous: bool,
    /// The ranges of the column, from [`Footer::ranges`].
    pub ranges: &'a Ranges,
}

impl Column<'_> {
    /// Returns the reason why a filter may not help, if one is known.
    #[must_use]
    pub fn helps_little(&self) -> Option<String> {
        let leaf = self.footer.leaves().get(self.leaf)?;
        if leaf.physical_type == Some(PhysicalType::Boolean) {
            return Some("a Boolean has two values".into());
        }
        if let Some(loss) = leaf.loss() {
            return Some(format!("{} loses rows with filters on this type", loss.engine));
        }
        if is_sorted(self.footer, self.leaf, self.ranges) {
            return Some("sorted".into());
        }
        let most = self.chunks.iter().map(|chunk| chunk.distinct).collect::<Option<Vec<_>>>()?.into_iter().max()?;
        let chunks = self.chunks.iter().filter_map(|chunk| self.footer.chunk(chunk.row_group, self.leaf));
        let values = chunks.map(|chunk| chunk.num_values).max().unwrap_or(0);
        let plural = if most == 1 { "" } else { "s" };
        are_few(most, values).then(|| format!("at most {most} distinct value{plural} in a row group"))
    }

    /// Returns whether filters may help for this column: it has values, but no filter, no reason
    /// against one is known, and an engine may use it.
    #[must_use]
    pub fn is_advised(&self) -> bool {
        let Some(leaf) = self.footer.leaves().get(self.leaf) else { return false };
        self.chunks.iter().all(|chunk| matches!(chunk.state, State::Missing))
            && self.chunks.iter().any(|chunk| chunk.num_values > 0)
            && engines::of(leaf).is_none_or(|engines| !engines.is_empty())
            && !self.is_ambiguous
            && self.helps_little().is_none()
    }
}

/// Returns whether a row group has few distinct values, and many values in all.
#[must_use]
pub fn are_few(distinct: u64, num_values: u64) -> bool {
    distinct <= FEW_VALUES && num_values > 10 * FEW_VALUES
}

/// Returns whether the footer says that each row group is sorted by the column, or the ranges of
/// the row groups do not overlap. In the first case, the ranges may still overlap.
fn is_sorted(footer: &Footer, leaf: usize, ranges: &Ranges) -> bool {
    footer.is_sorted_by(leaf) || are_ranges_apart(footer, leaf, ranges)
}

/// Returns whether the ranges of values of the row groups do not overlap. Two ranges may share one
/// end. Returns false for fewer than two row groups, or if a range or its order is unknown.
#[must_use]
pub fn are_ranges_apart(footer: &Footer, leaf: usize, ranges: &Ranges) -> bool {
    let Some(column) = footer.leaves().get(leaf) else { return false };
    let order: fn(&[u8]) -> Option<Vec<u8>> = match (column.physical_type, column.logical_type) {
        // With the sign bit flipped, the big-endian bytes of two numbers have the order of the
        // numbers.
        (Some(PhysicalType::Int32), _) => |bytes| {
            Some((i32::from_le_bytes(bytes.try_into().ok()?) ^ i32::MIN).to_le_bytes().into_iter().rev().collect())
        },
        (Some(PhysicalType::Int64), _) => |bytes| {
            Some((i64::from_le_bytes(bytes.try_into().ok()?) ^ i64::MIN).to_le_bytes().into_iter().rev().collect())
        },
        // Byte arrays, texts and UUIDs have the order of their bytes. Other logical types may not.
        (Some(PhysicalType::ByteArray), None | Some(1)) | (Some(PhysicalType::FixedLenByteArray), None | Some(14)) => {
            |bytes| Some(bytes.to_vec())
        }
        _ => return false,
    };
    // In the order of signed numbers, a range of unsigned numbers may end below its start.
    let ordered =
        |(low, high): &(Vec<u8>, Vec<u8>)| Some((order(low)?, order(high)?)).filter(|(low, high)| low <= high);
    let ranges: Option<Vec<_>> = ranges.iter().map(ordered).collect();
    let Some(mut ranges) = ranges.filter(|ranges| ranges.len() > 1 && ranges.len() == footer.num_row_groups()) else {
        return false;
    };
    ranges.sort();
    ranges.windows(2).all(|pair| matches!(pair, [(_, high), (low, _)] if high <= low))
}
