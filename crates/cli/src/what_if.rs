//! `inspect --what-if`: what each native kind of filter would take for the same keys at the same rate.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::failure::Outcome;
use super::text::{percent, significant, thousands};
use filterblock::HashSeed;
use filterblock::{FilterBuilder, LockedBlock, SelfCheck, Verify};
use filterblock::{FilterKind, FilterSpec};

/// The kinds to choose from.
const KINDS: [FilterKind; 7] = [
    FilterKind::Bloom,
    FilterKind::BlockedBloom,
    FilterKind::SplitBlock,
    FilterKind::SplitBlock512,
    FilterKind::BumpedRibbon,
    FilterKind::Ribbon,
    FilterKind::BinaryFuse,
];

/// Filters of more keys are reckoned from one of so many: from there on, bits per key stay as they are.
const BUILT_KEYS_MAX: u64 = 1 << 18;

/// The rate that is compared where there is no filter yet.
const DEFAULT_RATE: f64 = 0.01;

/// The filters that there are.
#[derive(Debug, Clone)]
pub struct Present {
    pub kind: String,
    pub keys: u64,
    /// How many native blocks would hold them.
    pub blocks: u64,
    pub len_bytes: u64,
    /// `None` where there is no filter.
    pub expected_rate: Option<f64>,
}

/// The comparison.
#[derive(Debug, Serialize)]
pub struct WhatIf {
    keys: u64,
    /// The present rate, from which the one asked for is rounded down; small ribbons may exceed it by a hundredth of it.
    false_positive_rate: f64,
    filters: Vec<Choice>,
}

#[derive(Debug, Serialize)]
struct Choice {
    /// The present kind, or a specification for `build` and `convert`.
    filter: String,
    is_present: bool,
    len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
    /// `None` without a present filter.
    share_of_present_len: Option<f64>,
}

impl WhatIf {
    /// Builds a block of each kind for as many numbers as there are keys: sizes of native blocks depend on the keys' number
    /// alone, to within a cell or a row. `None` when there are no keys, or the rate is one that no kind is built for.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn new(present: &Present) -> Outcome<Option<Self>> {
        let rate = present.expected_rate.unwrap_or(DEFAULT_RATE);
        if present.keys == 0 || !(rate > 0.0 && rate < 1.0) {
            return Ok(None);
        }
        let bits_per_key = |len_bytes: u64| len_bytes as f64 * 8.0 / present.keys as f64;
        let mut filters = Vec::new();
        if present.expected_rate.is_some() {
            filters.push(Choice {
                filter: present.kind.clone(),
                is_present: true,
                len_bytes: present.len_bytes,
                bits_per_key: bits_per_key(present.len_bytes),
                expected_false_positive_rate: rate,
                share_of_present_len: Some(1.0),
            });
        }
        // Two digits, as a person would write it; rounded down, so that no kind exceeds the present rate.
        for kind in KINDS {
            // A rate that a kind cannot have for 100 bits a key: it has no row.
            let Ok(spec) = FilterSpec::false_positive_rate(kind, rounded_down(rate)) else { continue };
            let (len_bytes, expected_rate) = size(spec, present.keys, present.blocks.max(1))?;
            let share = len_bytes as f64 / present.len_bytes as f64;
            filters.push(Choice {
                filter: spec.to_string(),
                is_present: false,
                len_bytes,
                bits_per_key: bits_per_key(len_bytes),
                expected_false_positive_rate: expected_rate,
                share_of_present_len: present.expected_rate.map(|_| share),
            });
        }
        Ok(Some(Self { keys: present.keys, false_positive_rate: rate, filters }))
    }
}

/// The rate with three significant digits, at most as great.
fn rounded_down(rate: f64) -> f64 {
    let exponent = rate.log10().floor();
    let digits = (rate / 10_f64.powf(exponent - 2.0)).floor();
    let text = format!("{digits}e{}", exponent - 2.0);
    text.parse().ok().filter(|&rounded: &f64| rounded > 0.0 && rounded <= rate).unwrap_or(rate)
}

/// The bytes of `blocks` native blocks that share `keys` keys evenly, and their expected rate.
fn size(spec: FilterSpec, keys: u64, blocks: u64) -> Outcome<(u64, f64)> {
    let of_block = keys.div_ceil(blocks);
    let built = of_block.min(BUILT_KEYS_MAX);
    let mut builder = FilterBuilder::new(spec, HashSeed(0)).with_self_check(SelfCheck::Off);
    for number in 0..built {
        builder.add(&number.to_le_bytes());
    }
    let block = LockedBlock::open(builder.finish()?, Verify::AtOpen)?;
    let scale = of_block as f64 / built as f64 * blocks as f64;
    let len_bytes = super::text::whole(block.metadata().block_len_bytes as f64 * scale);
    Ok((len_bytes, block.expected_false_positive_rate()))
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["filter", "bytes", "bits per key", "false positives", "of the present size"]);
        for choice in &self.filters {
            let name = if choice.is_present { format!("{} (present)", choice.filter) } else { choice.filter.clone() };
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
        let (keys, rate) = (thousands(self.keys), percent(self.false_positive_rate));
        writeln!(f, "{keys} keys at a rate of {rate}, by kind, checksums included:\n\n{table}")
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
