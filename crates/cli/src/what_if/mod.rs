//! `inspect --what-if`: compares the present filters of a file with other filters of its engine,
//! and with filter blocks of about the same false-positive rate (FPR).

mod engines;

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::failure::Outcome;
use super::plan::table::KINDS;
use super::text::{count, percent, significant, thousands};
use filterblock::{FilterOptions, FilterSpec, HashSeed, ParsedBlock, Verify};

pub use engines::Engine;

/// The maximum number of keys in a filter that is built, except for Parquet. For more keys, a
/// filter of this number of keys is built, and its size is scaled up: the bits per key hardly
/// change from here on.
const BUILT_KEYS_MAX: u64 = 1 << 18;

/// The FPR for files without a filter.
const DEFAULT_RATE: f64 = 0.01;

/// The filters that a file has now.
#[derive(Debug, Clone)]
pub struct Present {
    pub kind: String,
    /// The engine that could write other filters; `None` for filter blocks and bare filters.
    pub engine: Option<Engine>,
    pub keys: u64,
    /// The number of filter blocks that would replace the filters.
    pub blocks: u64,
    /// The number of keys of each filter. Not used without an engine.
    pub filters: Vec<u64>,
    pub len_bytes: u64,
    /// The expected FPR of the filters. `None` if the file has no filter.
    pub expected_fpr: Option<f64>,
}

/// The comparison of `--what-if`.
#[derive(Debug, Serialize)]
pub struct WhatIf {
    keys: u64,
    /// The FPR of the present filters, or 1 % without filters. Filter blocks are requested with
    /// this FPR rounded down to three significant digits.
    false_positive_rate: f64,
    filters: Vec<Choice>,
}

#[derive(Debug, Serialize)]
struct Choice {
    /// The present kind, a setting of the file's engine, or a specification for `build` and
    /// `convert`.
    filter: String,
    is_present: bool,
    len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
    /// The length divided by that of the present filters. `None` if the file has no filter.
    share_of_present_len: Option<f64>,
}

impl WhatIf {
    /// Compares the present filters with other filters of the engine and with filter blocks of each
    /// kind that can reach the present FPR. Builds the other filters and the blocks from integers,
    /// because a size depends mostly on the number of keys. Returns `None` if there are no keys, or
    /// if the present FPR is not between 0 and 1.
    ///
    /// # Errors
    /// Returns an error if a filter cannot be built.
    pub fn new(present: &Present) -> Outcome<Option<Self>> {
        let rate = present.expected_fpr.unwrap_or(DEFAULT_RATE);
        if present.keys == 0 || !(rate > 0.0 && rate < 1.0) {
            return Ok(None);
        }
        let bits_per_key = |len_bytes: u64| len_bytes as f64 * 8.0 / present.keys as f64;
        let mut filters = Vec::new();
        if present.expected_fpr.is_some() {
            filters.push(Choice {
                filter: present.kind.clone(),
                is_present: true,
                len_bytes: present.len_bytes,
                bits_per_key: bits_per_key(present.len_bytes),
                expected_false_positive_rate: rate,
                share_of_present_len: Some(1.0),
            });
        }
        let share_of_present = |len_bytes| present.expected_fpr.map(|_| len_bytes as f64 / present.len_bytes as f64);
        for found in present.engine.map_or(Ok(Vec::new()), |engine| engine.deployable(&present.filters))? {
            filters.push(Choice {
                filter: found.setting,
                is_present: false,
                len_bytes: found.len_bytes,
                bits_per_key: bits_per_key(found.len_bytes),
                expected_false_positive_rate: found.expected_fpr,
                share_of_present_len: share_of_present(found.len_bytes),
            });
        }
        // The requested FPR is rounded down, so that most filter blocks do not exceed the present
        // FPR.
        for kind in KINDS {
            // A kind that cannot reach the FPR has no row.
            let Ok(spec) = FilterSpec::false_positive_rate(kind, rounded_down(rate)) else { continue };
            let (len_bytes, expected_fpr) = size(spec, present.keys, present.blocks.max(1))?;
            filters.push(Choice {
                filter: spec.to_string(),
                is_present: false,
                len_bytes,
                bits_per_key: bits_per_key(len_bytes),
                expected_false_positive_rate: expected_fpr,
                share_of_present_len: share_of_present(len_bytes),
            });
        }
        Ok(Some(Self { keys: present.keys, false_positive_rate: rate, filters }))
    }
}

/// Rounds an FPR down to three significant digits.
fn rounded_down(rate: f64) -> f64 {
    let exponent = rate.log10().floor();
    let digits = (rate / 10_f64.powf(exponent - 2.0)).floor();
    let text = format!("{digits}e{}", exponent - 2.0);
    text.parse().ok().filter(|&rounded: &f64| rounded > 0.0 && rounded <= rate).unwrap_or(rate)
}

/// Returns the total size in bytes and the expected FPR of `blocks` filter blocks. Each block holds
/// an equal share of `keys` keys.
fn size(spec: FilterSpec, keys: u64, blocks: u64) -> Outcome<(u64, f64)> {
    let of_block = keys.div_ceil(blocks);
    let built = of_block.min(BUILT_KEYS_MAX);
    let mut builder = FilterOptions::new(spec).self_check(false).builder(HashSeed(0))?;
    for number in 0..built {
        builder.add(builder.hasher().key(&number.to_le_bytes()));
    }
    let block = ParsedBlock::open(builder.finish()?.bytes, Verify::AtOpen)?;
    let scale = of_block as f64 / built as f64 * blocks as f64;
    let len_bytes = super::text::whole(block.metadata().block_len_bytes as f64 * scale);
    Ok((len_bytes, block.expected_fpr()))
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["filter", "bytes", "bits per key", "expected FPR", "of current size"]);
        for choice in &self.filters {
            let name = if choice.is_present { format!("{} (current)", choice.filter) } else { choice.filter.clone() };
            let share = choice.share_of_present_len.map_or_else(|| "-".to_owned(), percent);
            table.add_row([
                name,
                thousands(choice.len_bytes),
                significant(choice.bits_per_key),
                percent(choice.expected_false_positive_rate),
                share,
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let (keys, rate) = (count(self.keys, "key"), percent(self.false_positive_rate));
        let estimates = match self.filters.iter().any(|choice| choice.is_present) {
            true => "all sizes except the current one are estimates",
            false => "the file has no known filter, and all sizes are estimates",
        };
        writeln!(f, "{keys}; filter blocks for an FPR of {rate}, with checksums; {estimates}:\n\n{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_down_to_three_digits() {
        for (rate, expected) in [(0.01, 0.01), (0.009_567_8, 0.009_56), (0.5, 0.5), (1.2345e-7, 1.23e-7)] {
            let rounded = rounded_down(rate);
            assert!(rounded <= rate && (rounded - expected).abs() <= expected * 0.011, "{rate}: {rounded}");
        }
    }
}
