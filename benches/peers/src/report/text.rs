//! Writes numbers and tables as Markdown.
//!
//! `benches/stores` uses this file too, so it depends on no other one.

/// The text of a cell that was not measured.
const NOTHING: &str = "-";

pub fn none() -> String {
    NOTHING.into()
}

/// Returns a Markdown table without the columns in which no row has a value. The columns after the
/// first are aligned to the right. If there are no rows, returns a sentence instead of a table.
pub fn markdown(head: &[&str], lines: &[Vec<String>]) -> String {
    if lines.is_empty() {
        return "Not measured in this record.".into();
    }
    let shown: Vec<usize> =
        (0..head.len()).filter(|&column| lines.iter().any(|line| line[column] != NOTHING)).collect();
    let row = |cells: &[String]| {
        let cells: Vec<&str> = shown.iter().map(|&column| cells[column].as_str()).collect();
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

pub fn short(ns: f64) -> String {
    if ns < 99.5 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

/// Returns a number as text with commas between thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!([1, 999, 1_000, 30_000_000].map(grouped), ["1", "999", "1,000", "30,000,000"]);
        assert_eq!([1.234, 99.46, 123.4].map(short), ["1.2", "99.5", "123"]);
        assert_eq!([0.0051, 0.4427].map(percent), ["0.51 %", "44 %"]);
    }
}
