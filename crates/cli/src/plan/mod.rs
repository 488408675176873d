//! `filterblock plan`: computes size, false-positive rate (FPR) and cost of each kind of filter
//! without building it. Measured query times come from the tables of docs/BENCHMARKS.md.

mod draw;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::filter_choice;
use crate::html;
use crate::new_file::NewFile;
use crate::prelude::*;
use crate::refused_value::{BITS_EXPECTED, RATE_EXPECTED, number, rate, whole};
use filterblock::planning::{BlockPlan, Goal, MAX_KEYS};
use filterblock::{FilterKind, FilterSpec};
use filterblock_family::plan::{Variant, VariantPlan};
use filterblock_report::{PLANNED_KINDS, PlanRow, reason};

const EXAMPLES: &str = "\
Examples:
  filterblock plan --keys 1000000 --fpr 0.01
  filterblock plan --keys 1000000 --bits-per-key 10
  filterblock plan --keys 250e6 --memory 256MB --json
  filterblock plan --keys 1000000 --fpr 0.01 --svg plots/
  filterblock plan --keys 1000000 --fpr 0.01 --html plan.html

The table:
  filter            argument for `build --filter`, or name of a classical variant
  bytes             size of the whole block with page checksums and trailer
  bits per key      bytes times 8, divided by the number of keys
  FPR               expected false-positive rate
  lines if absent   mean number of cache lines (64 bytes) read to query an absent key
  lines if present  the same for a present key
  ns if absent      time to query an absent key, measured for docs/BENCHMARKS.md

Formulas give all other columns. The real size of ribbons and binary fuse filters may differ by a few tenths of a \
percent. The classical variants exist in memory only. The size of `compressed` is the number of bytes sent; the sizes \
of the other variants are the sizes of their bits or cells.

--svg writes plan-rate-by-probes.svg, plan-exponent.svg, plan-rate-by-keys.svg and plan-space-by-rate.svg. \
Only the last one depends on --keys.

--html writes one page with plots and sortable tables. The page loads nothing from elsewhere.

Exit status: 0 done; 2 an error. After an error some of the files of --svg and --html may be written.";

/// Compare size, FPR and cost of each kind of filter without building it
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("budget").required(true).args(["fpr", "bits_per_key", "memory"])))]
pub struct Arguments {
    /// The number of distinct keys, such as 1000000, 1_000_000 or 1e6
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_KEYS, 1_000_000))]
    keys: u64,
    /// The wanted false-positive rate (FPR), above 0 and below 1, such as 0.01 or 1%
    #[arg(long, value_name = "RATE", value_parser = rate)]
    fpr: Option<f64>,
    /// Bits per key, from 1 to 100
    #[arg(long, value_name = "BITS", value_parser = number(BITS_EXPECTED))]
    bits_per_key: Option<f64>,
    /// Bytes for the whole block, such as 1048576, 1.5MiB or 256MB
    #[arg(long, value_name = "BYTES", value_parser = filter_choice::memory)]
    memory: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Draw the formulas as four SVG files in this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write the plan as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of --svg and --html if they exist
    #[arg(long)]
    force: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let given = [
        arguments.fpr.map(Budget::Rate),
        arguments.bits_per_key.map(Budget::BitsPerKey),
        arguments.memory.map(Budget::Memory),
    ];
    let Some(budget) = given.into_iter().flatten().next() else {
        return fail("missing budget; give --fpr, --bits-per-key or --memory");
    };
    let plan = Plan::new(arguments.keys, budget)?;
    output::check_stdout()?;
    let page = arguments.html.as_deref().map(|path| NewFile::create(path, arguments.force)).transpose()?;
    if let Some(dir) = &arguments.svg {
        draw_into(dir, arguments)?;
    }
    if let Some(file) = page {
        file.publish(html::page("filterblock plan", &plan, html::plots::plan)?.as_bytes())?;
    }
    output::report(arguments.json, &plan, || plan.to_string())?;
    Ok(Exit::Success)
}

/// Draws all pictures into files of `dir`. Checks first that all files can be created.
fn draw_into(dir: &Path, arguments: &Arguments) -> Outcome<()> {
    let pictures = draw::all(arguments.keys);
    std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, error))?;
    let files = pictures.into_iter().map(|(name, svg)| {
        let path = dir.join(name);
        Ok((NewFile::create(&path, arguments.force)?, path, svg))
    });
    for (file, path, svg) in files.collect::<Outcome<Vec<_>>>()? {
        file.publish(svg.as_bytes())?;
        message(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

const BITS_PER_KEY: std::ops::RangeInclusive<f64> = 1.0..=100.0;

/// The budget of a filter.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Budget {
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

/// The plans of the kinds in [`PLANNED_KINDS`] and of the classical variants.
#[derive(Serialize)]
struct Plan {
    keys: u64,
    budget: Budget,
    filters: Vec<Row>,
    /// The machine of the measured times, or `None` if docs/BENCHMARKS.md names none.
    measured_on: Option<Machine>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    plan: PlanRow,
    measured: Option<Measured>,
}

impl Plan {
    /// Plans a filter of each kind in [`PLANNED_KINDS`] and of every classical variant. `keys` is from 1 to
    /// [`MAX_KEYS`](filterblock::planning::MAX_KEYS).
    ///
    /// # Errors
    /// Returns a message for the user if the budget is out of range, or if no kind of filter block
    /// fits the budget.
    pub fn new(keys: u64, budget: Budget) -> Outcome<Self> {
        let refuse = |why: String| fail(why);
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
        let native: Vec<Row> = PLANNED_KINDS.iter().map(|&kind| Row::of_native(kind, keys, budget)).collect();
        if native.iter().all(|row| row.plan.taken.is_none()) {
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
            let specs = PLANNED_KINDS.into_iter().filter_map(FilterSpec::of_lowest_fpr);
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
                let measured = Measured::nearest(kind, block.plan().bits_per_key(), keys);
                Self { plan: PlanRow::of_block(&block), measured }
            }
            Err(why) => Self { plan: PlanRow::refused(kind, reason(why)), measured: None },
        }
    }

    fn of_variant(variant: Variant, keys: u64, budget: Budget) -> Self {
        let plan = PlanRow::of_variant(variant, VariantPlan::for_goal(variant, keys, budget.goal()));
        Self { plan, measured: None }
    }
}

impl fmt::Display for Plan {
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
            if let Some(why) = &row.plan.refused {
                writeln!(f, "{}: {why}", row.plan.filter)?;
            }
            if let Some(memory) = row.plan.taken.as_ref().and_then(|taken| taken.memory_len_bytes) {
                let (filter, memory) = (&row.plan.filter, count(memory, "byte"));
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

impl Plan {
    fn fmt_rows(&self, f: &mut fmt::Formatter<'_>, in_memory_only: bool) -> fmt::Result {
        let mut header = vec!["filter", "bytes", "bits per key", "FPR", "lines if absent", "lines if present"];
        if !in_memory_only {
            header.push("ns if absent");
        }
        let row = |row: &Row| {
            let mut cells = vec![row.plan.filter.clone()];
            match &row.plan.taken {
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
                cells.push(row.measured.map_or_else(|| "-".to_owned(), |found| found.ns_if_absent.to_string()));
            }
            cells
        };
        let rows = self.filters.iter().filter(|row| row.plan.in_memory_only == in_memory_only).map(row);
        writeln!(f, "{}", output::table(header, rows, 1.., &[5, 4]))
    }
}

const PAGE: &str = include_str!("../../../../docs/BENCHMARKS.md");

/// The largest ratio between the measured and the planned number of keys. Beyond it, the two
/// filters may fit different cache levels.
const KEYS_APART: f64 = 10.0;
/// The largest ratio between the measured and the planned bits per key. Beyond it, the two filters
/// usually differ in the number of probes or columns.
const BITS_APART: f64 = 4.0 / 3.0;

/// The machine and the conditions of the measurements, as the page describes them.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Machine(String);

impl Machine {
    /// Returns the recorded machine, or `None` if the page has none.
    pub fn recorded() -> Option<Self> {
        let text = sections().find(|(name, _)| *name == "machine").map(|(_, text)| text)?;
        // The page wraps its lines.
        Some(Self(text.lines().collect::<Vec<_>>().join(" ")))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end_matches('.'))
    }
}

/// A measured query time and its filter.
#[derive(Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    pub ns_if_absent: f64,
    pub filter: &'static str,
    pub keys: u64,
}

impl Measured {
    /// Returns the measurement of this kind whose number of keys is nearest to `keys`. Among
    /// several such measurements, returns the one with the nearest bits per key. Measurements that
    /// differ by a factor above [`KEYS_APART`] or [`BITS_APART`] do not count. Returns `None` if no
    /// measurement counts.
    pub fn nearest(kind: FilterKind, bits_per_key: f64, keys: u64) -> Option<Self> {
        let tables = sections().filter_map(|(name, text)| Some((name.strip_prefix("sizes ")?, text)));
        let rows = tables.flat_map(|(sizes, text)| text.lines().flat_map(move |line| row(kind, sizes, line)));
        let apart = |one: f64, other: f64| (one / other).max(other / one);
        let keys_apart = |row: &(f64, Self)| apart(row.1.keys as f64, keys as f64);
        let bits_apart = |row: &(f64, Self)| apart(row.0, bits_per_key);
        let near = rows.filter(|row| keys_apart(row) <= KEYS_APART && bits_apart(row) <= BITS_APART);
        let nearest = near.min_by(|one, other| {
            keys_apart(one).total_cmp(&keys_apart(other)).then(bits_apart(one).total_cmp(&bits_apart(other)))
        });
        nearest.map(|(_, measured)| measured)
    }
}

/// Returns the name and the text of each generated section of the page.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = PAGE.split("<!-- generated: ").skip(1);
    parts.filter_map(|part| {
        let (name, rest) = part.split_once(" -->\n")?;
        Some((name, rest.split_once("<!-- end -->")?.0))
    })
}

/// Parses a line of the table of sizes. For each of `sizes`, the line has the bits per key and the
/// time in ns to query one absent key. Returns the bits and the measurement of each size. Returns
/// nothing for lines that are no rows of filterblock's filters, for other kinds, and for compact
/// filters, which plans do not offer.
fn row(kind: FilterKind, sizes: &str, line: &'static str) -> Vec<(f64, Measured)> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let filter = cells.next().and_then(|cell| cell.strip_prefix("**`")?.strip_suffix("`**"));
    let is_wanted = |filter: &&str| {
        filter.split_once(':').is_some_and(|(name, budget)| name == kind.name() && !budget.ends_with(":compact"))
    };
    let Some(filter) = filter.filter(is_wanted) else { return Vec::new() };
    let mut measured = |keys: &str| {
        let (bits, ns) = (cells.next()?, cells.next()?);
        Some((bits.parse().ok()?, Measured { ns_if_absent: ns.parse().ok()?, filter, keys: keys.parse().ok()? }))
    };
    sizes.split(' ').filter_map(&mut measured).collect()
}
