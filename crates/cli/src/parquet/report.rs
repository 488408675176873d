//! The report of `filterblock parquet add`, as text and as JSON. Makes tips for columns whose filters help
//! little or do not reach the requested FPR.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::one_file::Done;
use crate::prelude::*;
use charts::text::quoted_path;
use filterblock_parquet::advice::{Ranges, are_few, are_ranges_apart};
use filterblock_parquet::append::Added;
use filterblock_parquet::error::shortened;
use filterblock_parquet::filters::MAX_LEN_BYTES;
use filterblock_parquet::{Footer, Leaf, PhysicalType};

#[derive(Default, Serialize)]
pub struct Report {
    pub dry_run: bool,
    pub files: Vec<FileReport>,
    /// The number of files that failed. Their errors are on stderr.
    pub failed: u64,
}

#[derive(Serialize)]
pub struct FileReport {
    pub file: String,
    /// The file that was written, or null if no file was written.
    pub output: Option<String>,
    pub row_groups: usize,
    pub filters_added: u64,
    /// The number of existing filters that stay unchanged in the requested columns.
    pub filters_kept: u64,
    /// The number of filter lengths that were added to the footer.
    pub lengths_added: u64,
    /// The filters whose lengths are not added, because the filters are damaged.
    pub damaged_filters: Vec<DamagedReport>,
    pub old_len_bytes: u64,
    pub new_len_bytes: u64,
    pub seconds: f64,
    pub columns: Vec<ColumnReport>,
}

/// A damaged filter that has no length in the footer.
#[derive(Serialize)]
pub struct DamagedReport {
    pub row_group: usize,
    pub column: String,
    pub damage: String,
}

/// The filters of a column in all row groups of a file.
#[derive(Serialize)]
pub struct ColumnReport {
    pub column: String,
    pub physical_type: &'static str,
    pub filters_added: u64,
    /// The total length in bytes of the new filters, which lie side by side.
    pub len_bytes: u64,
    /// The sum of the numbers of distinct values in the row groups with a new filter.
    pub distinct_values: u64,
    pub is_estimate: bool,
    /// The highest expected false-positive rate of a new filter, or null without a new filter.
    pub fpr: Option<f64>,
    pub tips: Vec<String>,
}

impl FileReport {
    pub fn new(file: &Path, output: Option<&Path>, footer: &Footer, done: &Done, requested_fpr: Option<f64>) -> Self {
        let mut added: BTreeMap<usize, Vec<&Added>> = BTreeMap::new();
        for filter in &done.added {
            added.entry(filter.leaf).or_default().push(filter);
        }
        let ranges = footer.ranges(&done.leaves);
        let path = |leaf: usize| footer.leaves().get(leaf).map_or_else(String::new, |leaf| leaf.path.to_string());
        let damaged = done.damaged.iter().map(|filter| DamagedReport {
            row_group: filter.row_group,
            column: path(filter.leaf),
            damage: filter.error.problem(),
        });
        let column = |(&leaf, ranges): (&usize, &Vec<_>)| {
            let added = added.get(&leaf).map(Vec::as_slice).unwrap_or_default();
            let filters = || added.iter();
            let found = footer.leaves().get(leaf);
            ColumnReport {
                column: path(leaf),
                physical_type: found.and_then(|leaf| leaf.physical_type).map_or("unknown", PhysicalType::name),
                filters_added: filters().count() as u64,
                len_bytes: filters().filter_map(|filter| filter.range.len_bytes).sum(),
                distinct_values: filters().map(|filter| filter.distinct).sum(),
                is_estimate: filters().any(|filter| filter.is_estimate),
                fpr: filters().map(|filter| filter.fpr).reduce(f64::max),
                tips: tips(footer, leaf, added, ranges, requested_fpr),
            }
        };
        Self {
            file: file.display().to_string(),
            output: output.map(|path| path.display().to_string()),
            row_groups: footer.num_row_groups(),
            filters_added: done.added.len() as u64,
            filters_kept: done.kept,
            lengths_added: done.fixed_lengths,
            damaged_filters: damaged.collect(),
            old_len_bytes: done.old_len_bytes,
            new_len_bytes: done.new_len_bytes,
            seconds: done.time.as_secs_f64(),
            columns: done.leaves.iter().zip(&ranges).map(column).collect(),
        }
    }

    /// Returns a message for each damaged filter.
    pub fn damage(&self) -> impl Iterator<Item = String> {
        self.damaged_filters.iter().map(|filter| {
            format!(
                "{}: row group {}, column {}: the filter cannot be used, so its length is not added: {}; run \
                 filterblock parquet check {}",
                printable(&self.file),
                filter.row_group,
                printable(&shortened(&filter.column)),
                filter.damage,
                quoted_path(&printable(&self.file))
            )
        })
    }

    pub fn text(&self, is_dry_run: bool) -> String {
        let target = self.output.as_ref().map_or_else(String::new, |output| format!(" -> {}", printable(output)));
        let mut what = Vec::new();
        let adds = if is_dry_run { "would be added" } else { "added" };
        for (num, unit) in [(self.filters_added, "filter"), (self.lengths_added, "filter length")] {
            if num > 0 {
                what.push(format!("{} {adds}", count(num, unit)));
            }
        }
        if self.filters_kept > 0 {
            what.push(format!("{} kept (--replace builds new ones)", count(self.filters_kept, "filter")));
        }
        if what.is_empty() {
            what.push("nothing to add".into());
        }
        let mut text = format!("{}{target}: {}", printable(&self.file), what.join(", "));
        let grown = self.new_len_bytes.saturating_sub(self.old_len_bytes);
        if grown > 0 {
            let about = if is_dry_run { "about " } else { "" };
            let share = percent(grown as f64 / self.old_len_bytes.max(1) as f64);
            text += &format!("; {about}{} bytes more ({share}), {about}{:.1} s", thousands(grown), self.seconds);
        }
        text.push('\n');
        for column in self.columns.iter().filter(|column| column.filters_added > 0) {
            let about = if is_dry_run || column.is_estimate { "about " } else { "" };
            text += &format!(
                "  {}: {}, together {about}{} and {about}{} bytes; highest FPR {about}{}\n",
                printable(&column.column),
                count(column.filters_added, "filter"),
                count(column.distinct_values, "distinct value"),
                thousands(column.len_bytes),
                percent(column.fpr.unwrap_or(1.0)),
            );
        }
        text
    }
}

/// The ratio of FPR to requested FPR above which a filter of maximum length gets a tip.
const RATE_SLACK: f64 = 1.5;

/// Returns the tips for a column with these new filters.
fn tips(footer: &Footer, leaf: usize, filters: &[&Added], ranges: &Ranges, requested_fpr: Option<f64>) -> Vec<String> {
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
            crate::text::percent(worst)
        ));
    }
    tips
}
