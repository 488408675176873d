//! `filterblock plan`: what each kind of filter would take, let through and cost, before anything is built.

mod draw;
mod measured;
mod table;

use std::path::{Path, PathBuf};

use super::failure::{Exit, Failure, Outcome};
use super::filter_choice;
use super::new_file::NewFile;
use super::output::{self, message};
use super::refused_value::{BITS_EXPECTED, RATE_EXPECTED, number, whole};

use table::{Budget, Table};

const EXAMPLES: &str = "\
Examples:
  filterblock plan --keys 1000000 --fpr 0.01
  filterblock plan --keys 1000000 --bits-per-key 10
  filterblock plan --keys 250000000 --memory 256MiB --json
  filterblock plan --keys 1000000 --fpr 0.01 --svg plots/

Bytes are those of a whole block, page sums and trailer included; those of ribbons and binary fuse filters are expected ones, \
some tenths of a per cent off. Of the classical variants, which live in memory alone, they are those of the bits or cells.

Lines are cache lines of 64 bytes that a query reads on average, neighbours counted one by one: the cache misses of a filter \
that lies in memory. Nanoseconds were measured, once and on one machine, and lie in docs/BENCHMARKS.md.

--svg draws what the formulas say: plan-rate-by-probes.svg, plan-exponent.svg, plan-rate-by-keys.svg, and, for the number \
of keys given, plan-space-by-rate.svg.

Exit status: 0 planned; 2 an error, and nothing was written (unless the message is about standard output or says so).";

/// Tell what each kind of filter would take for so many keys, from the formulas
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("budget").required(true).args(["fpr", "bits_per_key", "memory"])))]
pub struct Arguments {
    /// The number of distinct keys
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX, 1_000_000))]
    keys: u64,
    /// The rate of false positives that is wanted, above 0 and below 1
    #[arg(long, value_name = "RATE", value_parser = number(RATE_EXPECTED))]
    fpr: Option<f64>,
    /// Bits for each key, 1 to 100
    #[arg(long, value_name = "BITS", value_parser = number(BITS_EXPECTED))]
    bits_per_key: Option<f64>,
    /// Bytes for the whole block, such as 1048576, 64MiB or 2GiB
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
    /// Draw the formulas into four files in this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Replace the files of --svg if they exist
    #[arg(long)]
    force: bool,
}

fn memory(text: &str) -> Result<u64, &'static str> {
    filter_choice::bytes(text)
        .ok_or("expected a whole number of bytes, with KiB, MiB, GiB, TiB or nothing behind it; try 64MiB")
}

/// Runs `filterblock plan`.
pub fn run(arguments: &Arguments) -> Outcome {
    let table = Table::new(arguments.keys, budget(arguments)?)?;
    output::check_stdout()?;
    if let Some(dir) = &arguments.svg {
        draw_into(dir, arguments)?;
    }
    match arguments.json {
        true => output::print_json(&table)?,
        false => output::print(&table.to_string())?,
    }
    Ok(Exit::Success)
}

/// The one of the three that is given.
fn budget(arguments: &Arguments) -> Outcome<Budget> {
    let given = [
        arguments.fpr.map(Budget::Rate),
        arguments.bits_per_key.map(Budget::BitsPerKey),
        arguments.memory.map(Budget::Memory),
    ];
    let none = || Failure::Message("one of --fpr, --bits-per-key and --memory is needed".into());
    given.into_iter().flatten().next().ok_or_else(none)
}

/// All pictures are drawn, and all files are known to be writable, before the first is written.
fn draw_into(dir: &Path, arguments: &Arguments) -> Outcome<()> {
    let pictures = draw::all(arguments.keys);
    std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, error))?;
    let files = pictures.into_iter().map(|(name, svg)| {
        let path = dir.join(name);
        Ok((NewFile::create(&path, arguments.force)?, path, svg))
    });
    for (file, path, svg) in files.collect::<Outcome<Vec<_>>>()? {
        file.publish(svg.as_bytes())?;
        message(format_args!("drew {}", path.display()));
    }
    Ok(())
}
