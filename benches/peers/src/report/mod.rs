//! Tables and plots from a CSV: what stands between two markers of docs/BENCHMARKS.md, or of docs/VARIANTS.md, is written anew,
//! the rest is left.
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

/// Writes the tables into BENCHMARKS.md, and the plots beside it; or into VARIANTS.md what `peers variants` measured.
///
/// # Errors
/// What the operating system says, and where a marker asks for a table that there is none of.
pub fn write(args: &Report) -> Result<(), String> {
    if let Ok((machine, rows)) = record::read(&args.csv) {
        return in_file(&args.docs.join("VARIANTS.md"), |what| variants::table(what, &machine, &rows));
    }
    let (machine, rows) = record::read(&args.csv)?;
    if rows.is_empty() {
        return Err(format!("{}: no measurements", args.csv.display()));
    }
    in_file(&args.docs.join("BENCHMARKS.md"), |what| tables::table(what, &machine, &rows))?;
    for (name, svg) in plots::all(&rows) {
        let path = args.docs.join(name);
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fills the markers of a file.
fn in_file(path: &Path, table: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    fs::write(path, fill(&text, table)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Replaces what stands between markers by what `table` makes of their words.
fn fill(text: &str, table: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (what, after) = after.split_once(BEGIN_TAIL).ok_or("a marker without an end")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("no {END} behind the marker of {what}"))?;
        filled += &format!("{before}{BEGIN}{what}{BEGIN_TAIL}\n{}\n{END}", table(what)?);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_markers_is_replaced() {
        let text = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n";
        let filled = fill(text, |what| Ok(what.to_uppercase())).unwrap();
        assert_eq!(filled, "a\n<!-- generated: x y -->\nX Y\n<!-- end -->\nb\n");
        assert_eq!(fill(&filled, |what| Ok(what.to_uppercase())).unwrap(), filled);
        assert!(fill("<!-- generated: x -->\n", |_| Ok(String::new())).is_err());
    }
}
