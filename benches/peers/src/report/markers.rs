//! Replaces the lines between two markers of a page, and leaves the rest of the page as it is. The
//! markers look like this:
//!
//! ```text
//! <!-- generated: queries 1000000 hash -->
//! ...
//! <!-- end -->
//! ```
//!
//! `benches/stores` uses this file too, so it depends on no other one.

use std::fs;
use std::path::Path;

const BEGIN_TAIL: &str = " -->";
const END: &str = "<!-- end -->";

/// Replaces the lines between each begin marker of a file and its end marker. A begin marker starts
/// with `begin`. `table` takes the words after `begin` and returns the new lines.
///
/// # Errors
/// Returns an error if the file cannot be read or written, if a begin marker is incomplete or has
/// no end marker, or if `table` returns an error.
pub fn in_file(path: &Path, begin: &str, table: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let of_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| of_file(&error))?;
    let filled = fill(&text, begin, table).map_err(|error| of_file(&error))?;
    fs::write(path, filled).map_err(|error| of_file(&error))
}

fn fill(text: &str, begin: &str, table: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(begin) {
        let (what, after) = after
            .split_once(BEGIN_TAIL)
            .ok_or_else(|| format!("the line of a marker {begin:?} does not end in {BEGIN_TAIL:?}"))?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("no {END} follows the marker of {what}"))?;
        filled += &format!("{before}{begin}{what}{BEGIN_TAIL}\n{}\n{END}", table(what)?);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- generated: ";

    #[test]
    fn only_lines_between_markers_are_replaced() {
        let text = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n";
        let filled = fill(text, BEGIN, |what| Ok(what.to_uppercase())).unwrap();
        assert_eq!(filled, "a\n<!-- generated: x y -->\nX Y\n<!-- end -->\nb\n");
        assert_eq!(fill(&filled, BEGIN, |what| Ok(what.to_uppercase())).unwrap(), filled);
        assert!(fill("<!-- generated: x -->\n", BEGIN, |_| Ok(String::new())).is_err());
    }
}
