//! Makes tips for columns whose filters help little or do not reach the requested FPR.

use filterblock_parquet::append::Added;
use filterblock_parquet::filters::MAX_LEN_BYTES;
use filterblock_parquet::{Footer, Leaf, PhysicalType};

/// The maximum number of distinct values that [`are_few`] treats as few.
const FEW_VALUES: u64 = 100;
/// The ratio of FPR to requested FPR above which a filter of maximum length gets a tip.
const RATE_SLACK: f64 = 1.5;

/// The min and max of a column in each row group that records them.
pub type Ranges = [(Vec<u8>, Vec<u8>)];

/// Returns the tips for a column with these new filters.
pub fn of(
    footer: &Footer,
    leaf: usize,
    filters: &[&Added],
    ranges: &Ranges,
    requested_fpr: Option<f64>,
) -> Vec<String> {
    let mut tips = Vec::new();
    if let Some(loss) = footer.leaves().get(leaf).and_then(Leaf::loss) {
        tips.push(format!("forced: it has {loss}"));
    }
    let most = filters.iter().map(|filter| filter.distinct).max().unwrap_or(0);
    let values = filters.iter().filter_map(|filter| footer.chunk(filter.row_group, leaf)).map(|chunk| chunk.num_values);
    if !filters.is_empty() && are_few(most, values.max().unwrap_or(0)) {
        let about = if filters.iter().any(|filter| filter.is_estimate) { "about " } else { "" };
        tips.push(format!(
            "few distinct values (at most {about}{most} in a row group): if most row groups have every value, a filter \
             rarely skips a row group"
        ));
    }
    if are_ranges_apart(footer, leaf, ranges) {
        tips.push("sorted: readers already skip row groups by min and max, so a filter adds little".into());
    } else if footer.is_sorted_by(leaf) {
        tips.push(
            "sorted within each row group: if the row groups do not overlap, readers already skip them by min and max"
                .into(),
        );
    }
    let longest = filters.iter().filter(|filter| filter.range.len_bytes.is_some_and(|len| len >= MAX_LEN_BYTES));
    let worst = longest.map(|filter| filter.fpr).fold(0.0, f64::max);
    if requested_fpr.is_some_and(|fpr| worst > fpr * RATE_SLACK) {
        tips.push(format!(
            "a filter reaches the limit of 128 MiB, with an FPR of {}: write smaller row groups",
            super::super::text::percent(worst)
        ));
    }
    tips
}

/// Returns whether a row group has few distinct values, and many values in all.
pub fn are_few(distinct: u64, num_values: u64) -> bool {
    distinct <= FEW_VALUES && num_values > 10 * FEW_VALUES
}

/// Returns whether the footer says that each row group is sorted by the column, or the ranges of
/// the row groups do not overlap. In the first case, the ranges may still overlap.
pub fn is_sorted(footer: &Footer, leaf: usize, ranges: &Ranges) -> bool {
    footer.is_sorted_by(leaf) || are_ranges_apart(footer, leaf, ranges)
}

/// Returns whether the ranges of values of the row groups do not overlap. Two ranges may share one
/// end. Returns false for fewer than two row groups, or if a range or its order is unknown.
fn are_ranges_apart(footer: &Footer, leaf: usize, ranges: &Ranges) -> bool {
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
