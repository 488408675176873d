//! Makes the tables and pictures of docs/BENCHMARKS.md and docs/VARIANTS.md from a CSV.

mod plots;
mod speed;
mod tables;

use std::fs;

use charts::markdown;
use filterblock_testkit::measure::csv_file;

use crate::args::Report;

/// The start of a begin marker, except for the tables of range filters.
const BEGIN: &str = "<!-- generated: ";

/// Writes the tables of one record into its page: `peers measure` and `peers ranges` into
/// BENCHMARKS.md, `peers variants` into VARIANTS.md. Writes the pictures of `peers measure` to
/// files in the folder of BENCHMARKS.md. With `--table`, prints one table of `peers measure`
/// instead.
pub fn write(args: &Report) -> Result<(), String> {
    if let Ok((machine, rows)) = csv_file::read(&args.csv)
        && !rows.is_empty()
    {
        return markdown::fill_file(&args.docs.join("VARIANTS.md"), BEGIN, |what| {
            table(what, &machine, || speed::of_variants(&rows))
        });
    }
    let benchmarks = args.docs.join("BENCHMARKS.md");
    if let Ok((machine, rows)) = csv_file::read(&args.csv)
        && !rows.is_empty()
    {
        return markdown::fill_file(&benchmarks, "<!-- ranges: ", |what| {
            table(what, &machine, || speed::of_ranges(&rows))
        });
    }
    let (machine, rows) = csv_file::read(&args.csv)?;
    if rows.is_empty() {
        return Err(format!("{}: no measurements; `peers measure --out` writes them", args.csv.display()));
    }
    if let Some(what) = &args.table {
        println!("{}", tables::table(what, &machine, &rows)?);
        return Ok(());
    }
    let shown: Vec<_> = rows.iter().filter(|row| !tables::LEFT_OUT.contains(&row.filter.as_str())).cloned().collect();
    markdown::fill_file(&benchmarks, BEGIN, |what| tables::table(what, &machine, &shown))?;
    for (name, svg) in plots::all(&rows) {
        let path = args.docs.join(name);
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns the table that `what` names. `what` is the text of a marker.
fn table(what: &str, machine: &str, speed: impl Fn() -> String) -> Result<String, String> {
    match what {
        "machine" => Ok(markdown::wrapped(&format!("{machine}."))),
        "speed" => Ok(speed()),
        _ => markdown::unknown(&["machine", "speed"]),
    }
}
