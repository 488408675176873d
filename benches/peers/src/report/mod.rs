//! Makes tables and pictures from a CSV. The report replaces the lines between two markers of
//! docs/BENCHMARKS.md or docs/VARIANTS.md, and leaves the rest of the page as it is:
//!
//! ```text
//! <!-- generated: queries 1000000 hash -->
//! ...
//! <!-- end -->
//! ```

mod labels;
#[allow(dead_code, reason = "the command `filterblock` draws with more of it")]
#[path = "../../../../crates/cli/src/picture/mod.rs"]
mod picture;
mod plots;
mod tables;
mod variants;

use std::fs;
use std::path::Path;

use crate::args::Report;
use crate::record;

const BEGIN: &str = "<!-- generated: ";
const BEGIN_TAIL: &str = " -->";
const END: &str = "<!-- end -->";

/// Writes the tables of `peers measure` into BENCHMARKS.md and the pictures beside it, or the
/// tables of `peers variants` into VARIANTS.md.
///
/// # Errors
/// Returns the error of the operating system, and refuses a page with an unknown or unfinished
/// marker.
pub fn write(args: &Report) -> Result<(), String> {
    if let Ok((machine, rows)) = record::read(&args.csv) {
        return in_file(&args.docs.join("VARIANTS.md"), |what| variants::table(what, &machine, &rows));
    }
    let (machine, rows) = record::read(&args.csv)?;
    if rows.is_empty() {
        return Err(format!("{}: no measurements; `peers measure --out` writes them", args.csv.display()));
    }
    in_file(&args.docs.join("BENCHMARKS.md"), |what| tables::table(what, &machine, &rows))?;
    for (name, svg) in plots::all(&rows) {
        let path = args.docs.join(name);
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Replaces the lines between the markers of a file.
fn in_file(path: &Path, table: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    fs::write(path, fill(&text, table)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Replaces the lines between markers. `table` returns the new lines for the words of a marker.
fn fill(text: &str, table: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (what, after) =
            after.split_once(BEGIN_TAIL).ok_or_else(|| format!("a marker {BEGIN:?} has no {BEGIN_TAIL:?}"))?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("no {END} follows the marker of {what}"))?;
        filled += &format!("{before}{BEGIN}{what}{BEGIN_TAIL}\n{}\n{END}", table(what)?);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_between_markers_are_replaced() {
        let text = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n";
        let filled = fill(text, |what| Ok(what.to_uppercase())).unwrap();
        assert_eq!(filled, "a\n<!-- generated: x y -->\nX Y\n<!-- end -->\nb\n");
        assert_eq!(fill(&filled, |what| Ok(what.to_uppercase())).unwrap(), filled);
        assert!(fill("<!-- generated: x -->\n", |_| Ok(String::new())).is_err());
    }
}
