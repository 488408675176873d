//! Quotes words, and encodes and decodes hexadecimal digits. The formats of numbers are those of
//! the pictures.

use std::fmt::Write as _;

#[allow(unused_imports, reason = "the web page, which has this file too, formats fewer numbers")]
pub use charts::text::{count, percent, printable, significant, thousands, whole};

/// Returns whether the recorded number of keys is clearly above the number that the fill ratio
/// shows. A merge counts a key several times if several blocks have it.
pub fn is_overstated(recorded: u64, estimated: Option<f64>) -> bool {
    let recorded = recorded as f64;
    // An estimate of few keys may be wrong by one or two.
    estimated.is_some_and(|keys| keys < recorded * 0.9 && keys < recorded - 2.0)
}

/// Returns the text of an error without its advice, which follows the last "; ".
pub fn without_advice(text: &str) -> &str {
    text.rsplit_once("; ").map_or(text, |(problem, _)| problem)
}

/// Quotes a word for a shell, if it needs quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=+:,./@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Quotes the path of a file for a shell, so that a command does not take it for an option.
pub fn quoted_path(path: &str) -> String {
    let start = if path.starts_with('-') { "./" } else { "" };
    quoted(&format!("{start}{path}"))
}

/// Formats bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Appends the bytes that `digits` encode.
///
/// # Errors
/// Returns the position of the first bad digit, counted from 0. If the number of digits is odd,
/// this is the position of the missing digit at the end, unless an earlier digit is bad.
pub fn unhex(digits: &[u8], out: &mut Vec<u8>) -> Result<(), usize> {
    let nibble = |i: usize| {
        let digit = digits.get(i).and_then(|&digit| char::from(digit).to_digit(16)).ok_or(i)?;
        u8::try_from(digit).map_err(|_| i)
    };
    for i in (0..digits.len()).step_by(2) {
        out.push(nibble(i)? << 4 | nibble(i + 1)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        for (word, quoted_word) in [("--fpr=0.01", "--fpr=0.01"), ("a b", "'a b'"), ("", "''"), ("it's", "'it'\\''s'")]
        {
            assert_eq!(quoted(word), quoted_word);
        }
    }

    #[test]
    fn hexadecimal_round_trips_and_names_the_bad_digit() {
        let mut bytes = Vec::new();
        unhex(b"00fFa0", &mut bytes).unwrap();
        assert_eq!(bytes, [0, 255, 160]);
        assert_eq!(hex(&bytes), "00ffa0");
        assert_eq!(unhex(b"00g0", &mut bytes), Err(2));
        assert_eq!(unhex(b"000", &mut bytes), Err(3));
        assert_eq!(unhex("0é".as_bytes(), &mut bytes), Err(1));
    }
}
