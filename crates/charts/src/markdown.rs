//! Writes tables into Markdown pages, between two markers. The rest of a page stays as it is. The
//! markers look like this:
//!
//! ```text
//! <!-- generated: queries 1000000 hash -->
//! ...
//! <!-- end -->
//! ```

use std::fs;
use std::path::Path;

const BEGIN_TAIL: &str = " -->\n";
const END: &str = "<!-- end -->";

/// Replaces the lines between each begin marker of a page and its end marker. A begin marker starts
/// with `begin`. `table` takes the words after `begin` and returns the new lines, `None` to keep the
/// old ones, or what is wrong with the words.
///
/// # Errors
/// Returns an error with the line if a begin marker is incomplete, has no end marker, or has words
/// that `table` refuses.
pub fn fill(
    page: &str,
    begin: &str,
    mut table: impl FnMut(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(begin) {
        let line = page.len() - after.len();
        let line = page.get(..line).unwrap_or_default().matches('\n').count() + 1;
        let (name, after) = after.split_once(BEGIN_TAIL).filter(|(name, _)| !name.contains('\n')).ok_or_else(|| {
            format!("line {line}: the marker must end with \" -->\" and a line feed (LF, not CRLF); correct the line")
        })?;
        let to_end = after.split_once(END).filter(|(old, _)| !old.contains(begin));
        let (old, after) = to_end.ok_or_else(|| {
            format!("line {line}: the marker {begin}{name} --> has no {END}; add {END} below the marker")
        })?;
        let new = table(name).map_err(|why| format!("line {line}: the marker {begin}{name} --> {why}"))?;
        let lines = new.map_or_else(|| old.to_owned(), |table| table + "\n");
        filled += &format!("{before}{begin}{name}{BEGIN_TAIL}{lines}{END}");
        rest = after;
    }
    Ok(filled + rest)
}

/// Replaces the lines between the markers of a file, as [`fill`] does.
///
/// # Errors
/// Returns an error if the file cannot be read or written or has no marker, or an error of [`fill`].
pub fn fill_file(path: &Path, begin: &str, table: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let of_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| of_file(&error))?;
    if !text.contains(begin) {
        return Err(of_file(&format!("no marker {begin}... -->; write it, and {END} below, where the table belongs")));
    }
    let filled = fill(&text, begin, |what| table(what).map(Some)).map_err(|error| of_file(&error))?;
    fs::write(path, filled).map_err(|error| of_file(&error))
}

/// Returns the error of [`fill`] for words that no table has.
pub fn unknown<T>(known: &[&str]) -> Result<T, String> {
    Err(format!("names an unknown table; use one of {}", known.join(", ")))
}

/// The text of a cell that was not measured.
const NOTHING: &str = "-";

pub fn none() -> String {
    NOTHING.into()
}

/// Returns a Markdown table without the columns in which no row has a value. The columns after the
/// first are aligned to the right. If there are no rows, returns a sentence instead of a table.
pub fn table(head: &[&str], lines: &[Vec<String>]) -> String {
    if lines.is_empty() {
        return "Not measured in this record.".into();
    }
    let shown: Vec<usize> = (0..head.len())
        .filter(|&column| lines.iter().any(|line| line.get(column).is_some_and(|cell| cell != NOTHING)))
        .collect();
    let row = |cells: &[String]| {
        let cells: Vec<&str> = shown.iter().filter_map(|&column| cells.get(column).map(String::as_str)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let head_line = row(&head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    let rule = format!("|---|{}\n", "--:|".repeat(shown.len() - 1));
    let body: String = lines.iter().map(|line| row(line)).collect();
    (head_line + &rule + &body).trim_end().to_owned()
}

/// Breaks a text into lines of at most 100 characters. A longer word has a line of its own.
pub fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut len = 0;
    for word in text.split(' ') {
        let word_len = word.chars().count();
        if len > 0 {
            let fits = len + 1 + word_len <= 100;
            wrapped.push(if fits { ' ' } else { '\n' });
            len = if fits { len + 1 } else { 0 };
        }
        wrapped += word;
        len += word_len;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- generated: ";

    #[test]
    fn only_lines_between_markers_are_replaced() {
        let text = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n<!-- generated: kept -->\nc\n<!-- end -->\n";
        let table = |what: &str| Ok((what != "kept").then(|| what.to_uppercase()));
        let filled = fill(text, BEGIN, table).unwrap();
        assert_eq!(filled, text.replace("old", "X Y"));
        assert_eq!(fill(&filled, BEGIN, table).unwrap(), filled);
    }

    #[test]
    fn an_error_names_the_line_and_the_fault() {
        for (page, why) in [
            ("<!-- generated: x -->\n", "line 1: the marker <!-- generated: x --> has no <!-- end -->"),
            (
                "a\n<!-- generated: x -->\n<!-- generated: x -->\n<!-- end -->",
                "line 2: the marker <!-- generated: x --> has",
            ),
            (
                "a\n<!-- generated: x -->\n<!-- end -->",
                "line 2: the marker <!-- generated: x --> names an unknown table",
            ),
            ("a\n<!-- generated: x\nb -->\n<!-- end -->", "line 2: the marker must end"),
        ] {
            let error = fill(page, BEGIN, |_| unknown(&["y"])).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
