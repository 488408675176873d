//! Makes the table of a plan, with a row for each kind of filter in [`KINDS`] and each classical
//! variant.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, presets};
use serde::Serialize;

use super::super::failure::{Failure, Outcome};
use super::super::refused_value::{BITS_EXPECTED, RATE_EXPECTED};
use super::super::text::{count, percent, significant, thousands};
use super::measured::{Machine, Measured};
use filterblock::Error;
use filterblock::{
    FilterKind, FilterSpec,
    planning::{BlockPlan, Goal},
};
use filterblock_family::plan::{Variant, VariantPlan};

/// The kinds of filter that a plan compares.
pub const KINDS: [FilterKind; 7] = [
    FilterKind::Bloom,
    FilterKind::BlockedBloom,
    FilterKind::SplitBlock,
    FilterKind::SplitBlock512,
    FilterKind::BumpedRibbon,
    FilterKind::Ribbon,
    FilterKind::BinaryFuse,
];
/// The valid range of bits per key.
const BITS_PER_KEY: std::ops::RangeInclusive<f64> = 1.0..=100.0;

/// The budget of a filter.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    #[serde(rename = "false_positive_rate")]
    Rate(f64),
    BitsPerKey(f64),
    #[serde(rename = "memory_bytes")]
    Memory(u64),
}

impl Budget {
    fn goal(self) -> Goal {
        match self {
            Self::Rate(rate) => Goal::FalsePositiveRate(rate),
            Self::BitsPerKey(bits) => Goal::BitsPerKey(bits),
            Self::Memory(bytes) => Goal::LenBytes(bytes),
        }
    }
}

/// The plans of the kinds in [`KINDS`] and of the classical variants.
#[derive(Debug, Serialize)]
pub struct Table {
    keys: u64,
    budget: Budget,
    filters: Vec<Row>,
    /// The machine of the measured times, or `None` if docs/BENCHMARKS.md names none.
    measured_on: Option<Machine>,
}

#[derive(Debug, Serialize)]
struct Row {
    /// A specification for `build --filter`, or the name of a refused kind or a classical variant.
    filter: String,
    /// True for the classical variants, which have no block format.
    in_memory_only: bool,
    #[serde(flatten)]
    taken: Option<Taken>,
    measured: Option<Measured>,
    /// The reason why this kind has no filter for the budget.
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Taken {
    /// The bytes of a whole block, the bytes of the bits or cells of a classical variant, or the
    /// transmitted bytes of a compressed filter.
    len_bytes: u64,
    bits_per_key: f64,
    expected_false_positive_rate: f64,
    lines_if_absent: f64,
    lines_if_present: f64,
    /// The bytes that a compressed filter takes in memory. `None` for other filters, which take
    /// `len_bytes`.
    memory_len_bytes: Option<u64>,
}

impl Table {
    /// Plans a filter of each kind in [`KINDS`] and of every classical variant. `keys` is from 1 to
    /// [`MAX_KEYS`](filterblock::planning::MAX_KEYS).
    ///
    /// # Errors
    /// Returns a message for the user if the budget is out of range, or if no kind of filter block
    /// fits the budget.
    pub fn new(keys: u64, budget: Budget) -> Outcome<Self> {
        let refuse = |why: String| Err(Failure::Message(why));
        match budget {
            // NaN is in no range.
            Budget::Rate(rate) if !(rate > 0.0 && rate < 1.0) => {
                return refuse(format!("--fpr {rate}: {RATE_EXPECTED}"));
            }
            Budget::BitsPerKey(bits) if !BITS_PER_KEY.contains(&bits) => {
                return refuse(format!("--bits-per-key {bits}: {BITS_EXPECTED}"));
            }
            _ => {}
        }
        let native: Vec<Row> = KINDS.iter().map(|&kind| Row::of_native(kind, keys, budget)).collect();
        if native.iter().all(|row| row.taken.is_none()) {
            return refuse(none_for(keys, budget));
        }
        let classical = Variant::ALL.into_iter().map(|variant| Row::of_variant(variant, keys, budget));
        let filters = native.into_iter().chain(classical).collect();
        Ok(Self { keys, budget, filters, measured_on: Machine::recorded() })
    }
}

/// Returns the error message for a budget that fits no kind of filter block.
fn none_for(keys: u64, budget: Budget) -> String {
    match budget {
        Budget::Rate(rate) => {
            let specs = KINDS.into_iter().filter_map(FilterSpec::of_lowest_fpr);
            let least = specs.min_by(|one, other| one.expected_fpr().total_cmp(&other.expected_fpr()));
            let least =
                least.map(|spec| format!(" (the lowest is {:.1e}, of {spec} with few keys)", spec.expected_fpr()));
            format!(
                "--fpr {rate}: no kind of filter reaches this FPR with this number of keys{}; try 0.01",
                least.unwrap_or_default()
            )
        }
        Budget::BitsPerKey(bits) => format!("--bits-per-key {bits}: too few bits for every kind of filter; try 10"),
        Budget::Memory(bytes) => {
            // Two bytes per key and 1 KiB are enough for every kind that can hold `keys` keys.
            let enough = keys.saturating_mul(2).saturating_add(1 << 10);
            let verb = if bytes == 1 { "is" } else { "are" };
            let (bytes, keys) = (count(bytes, "byte"), count(keys, "key"));
            format!(
                "--memory: {bytes} {verb} too few for {keys} (at least 1 bit per key, checksums and trailer); try {enough}"
            )
        }
    }
}

impl Row {
    fn of_native(kind: FilterKind, keys: u64, budget: Budget) -> Self {
        match BlockPlan::new(kind, keys, budget.goal()) {
            Ok(block) => {
                let plan = block.plan();
                Self {
                    filter: plan.spec().to_string(),
                    in_memory_only: false,
                    measured: Measured::nearest(kind, plan.bits_per_key(), keys),
                    taken: Some(Taken {
                        len_bytes: block.len_bytes(),
                        bits_per_key: block.bits_per_key(),
                        expected_false_positive_rate: plan.expected_fpr(),
                        lines_if_absent: plan.lines_if_absent(),
                        lines_if_present: plan.lines_if_present(),
                        memory_len_bytes: None,
                    }),
                    refused: None,
                }
            }
            Err(why) => Self::refused(kind.name(), false, reason(why)),
        }
    }

    fn of_variant(variant: Variant, keys: u64, budget: Budget) -> Self {
        match VariantPlan::for_goal(variant, keys, budget.goal()) {
            Ok(plan) => Self {
                filter: variant.name().to_owned(),
                in_memory_only: true,
                measured: None,
                taken: Some(Taken {
                    len_bytes: plan.bits().div_ceil(8),
                    bits_per_key: plan.bits() as f64 / keys as f64,
                    expected_false_positive_rate: plan.expected_fpr,
                    lines_if_absent: plan.lines_if_absent,
                    lines_if_present: plan.lines_if_present,
                    memory_len_bytes: plan.sent_bits.map(|_| plan.memory_bits.div_ceil(8)),
                }),
                refused: None,
            },
            Err(why) => Self::refused(variant.name(), true, reason(why)),
        }
    }

    fn refused(name: &str, in_memory_only: bool, why: String) -> Self {
        Self { filter: name.to_owned(), in_memory_only, taken: None, measured: None, refused: Some(why) }
    }
}

/// Returns the reason of an error without the name of the filter, which the table prints before the
/// reason.
fn reason(error: Error) -> String {
    match error {
        Error::Invalid { what: "filter", reason, .. } => reason.into_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = count(self.keys, "key");
        match self.budget {
            Budget::Rate(rate) => writeln!(f, "{keys} at an FPR of {}:\n", percent(rate)),
            Budget::BitsPerKey(1.0) => writeln!(f, "{keys} at 1 bit per key:\n"),
            Budget::BitsPerKey(bits) => writeln!(f, "{keys} at {bits} bits per key:\n"),
            Budget::Memory(bytes) => writeln!(f, "{keys} in {}:\n", count(bytes, "byte")),
        }?;
        self.fmt_rows(f, false)?;
        writeln!(f, "\nClassical variants, in memory only:\n")?;
        self.fmt_rows(f, true)?;
        writeln!(f)?;
        for row in &self.filters {
            if let Some(why) = &row.refused {
                writeln!(f, "{}: {why}", row.filter)?;
            }
            if let Some(memory) = row.taken.as_ref().and_then(|taken| taken.memory_len_bytes) {
                let (filter, memory) = (&row.filter, count(memory, "byte"));
                writeln!(
                    f,
                    "{filter}: the table shows the compressed size, for sending; in memory the filter takes {memory}"
                )?;
            }
        }
        let measured = self.filters.iter().filter_map(|row| row.measured.as_ref());
        let mut by_keys = BTreeMap::<u64, Vec<&str>>::new();
        measured.for_each(|measured| by_keys.entry(measured.keys).or_default().push(measured.filter));
        if let (Some(machine), false) = (&self.measured_on, by_keys.is_empty()) {
            let named =
                |(keys, filters): (&u64, &Vec<&str>)| format!("in {} with {}", filters.join(", "), count(*keys, "key"));
            let named = by_keys.iter().map(named).collect::<Vec<_>>().join(", ");
            writeln!(f, "ns if absent: measured for one absent key, without the time to hash it, {named};")?;
            writeln!(f, "{machine} (docs/BENCHMARKS.md)")?;
        }
        Ok(())
    }
}

impl Table {
    fn fmt_rows(&self, f: &mut fmt::Formatter<'_>, in_memory_only: bool) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let mut header = vec!["filter", "bytes", "bits per key", "FPR", "lines if absent", "lines if present"];
        if !in_memory_only {
            header.push("ns if absent");
        }
        table.set_header(header);
        for row in self.filters.iter().filter(|row| row.in_memory_only == in_memory_only) {
            let mut cells = vec![row.filter.clone()];
            match &row.taken {
                Some(taken) => cells.extend([
                    thousands(taken.len_bytes),
                    significant(taken.bits_per_key),
                    percent(taken.expected_false_positive_rate),
                    significant(taken.lines_if_absent),
                    significant(taken.lines_if_present),
                ]),
                None => cells.extend(["-"; 5].map(str::to_owned)),
            }
            if !in_memory_only {
                cells
                    .push(row.measured.as_ref().map_or_else(|| "-".to_owned(), |found| found.ns_if_absent.to_string()));
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")
    }
}
