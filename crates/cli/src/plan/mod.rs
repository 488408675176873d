//! `filterblock plan`: computes size, false-positive rate (FPR) and cost of each kind of filter
//! without building it.

mod draw;
mod measured;
pub mod table;

use std::path::{Path, PathBuf};

use super::failure::{Exit, Failure, Outcome};
use super::filter_choice;
use super::html;
use super::new_file::NewFile;
use super::output::{self, message};
use super::refused_value::{BITS_EXPECTED, RATE_EXPECTED, number, whole};
use filterblock::planning::MAX_KEYS;

use table::{Budget, Table};

const EXAMPLES: &str = "\
Examples:
  filterblock plan --keys 1000000 --fpr 0.01
  filterblock plan --keys 1000000 --bits-per-key 10
  filterblock plan --keys 250000000 --memory 256MiB --json
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
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("budget").required(true).args(["fpr", "bits_per_key", "memory"])))]
pub struct Arguments {
    /// The number of distinct keys
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_KEYS, 1_000_000))]
    keys: u64,
    /// The wanted false-positive rate (FPR), above 0 and below 1
    #[arg(long, value_name = "RATE", value_parser = number(RATE_EXPECTED))]
    fpr: Option<f64>,
    /// Bits per key, from 1 to 100
    #[arg(long, value_name = "BITS", value_parser = number(BITS_EXPECTED))]
    bits_per_key: Option<f64>,
    /// Bytes for the whole block, such as 1048576, 64MiB or 2GiB
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
    let table = Table::new(arguments.keys, budget(arguments)?)?;
    output::check_stdout()?;
    let page = arguments.html.as_deref().map(|path| NewFile::create(path, arguments.force)).transpose()?;
    if let Some(dir) = &arguments.svg {
        draw_into(dir, arguments)?;
    }
    if let Some(file) = page {
        let content = html::page("filterblock plan", &table, html::plots::plan)?;
        file.publish(content.as_bytes())?;
    }
    match arguments.json {
        true => output::print_json(&table)?,
        false => output::print(&table.to_string())?,
    }
    Ok(Exit::Success)
}

/// Returns the budget from the option that is given: --fpr, --bits-per-key or --memory.
fn budget(arguments: &Arguments) -> Outcome<Budget> {
    let given = [
        arguments.fpr.map(Budget::Rate),
        arguments.bits_per_key.map(Budget::BitsPerKey),
        arguments.memory.map(Budget::Memory),
    ];
    let none = || Failure::Message("missing budget; give --fpr, --bits-per-key or --memory".into());
    given.into_iter().flatten().next().ok_or_else(none)
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
