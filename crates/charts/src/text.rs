//! Formats numbers for people, and escapes texts.

use std::fmt::Write as _;

/// Returns the distinct items, each at the place of its first occurrence.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Formats an integer with thousands separators: `1,234,567`. The integer must fit into 64 bits.
pub fn thousands(value: impl TryInto<u64>) -> String {
    let digits = value.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Parses a whole number as people write it: `1000000`, `1_000_000`, `1,000,000`, `1e6` or `2.5e6`. Returns
/// `None` for any other text, such as a decimal comma, and for a number that does not fit into 64 bits.
pub fn parse_whole(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeros = exponent.parse::<usize>().ok().filter(|&exponent| exponent < 100)?.checked_sub(fraction.len())?;
    let mut groups = whole.split([',', '\'', ' ']);
    let is_first = |group: &str| !group.is_empty() && (group.len() == whole.len() || group.len() <= 3);
    let is_grouped = groups.next().is_some_and(is_first) && groups.all(|group| group.len() == 3);
    let whole = whole.replace([',', '\'', ' '], "");
    let is_number = is_grouped && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok().filter(|_| is_number)
}

/// The units of bytes, with their sizes.
pub const BYTE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

/// Parses a number of bytes with an optional unit such as `MiB` or `MB`. A number with a unit may have decimals;
/// a fraction of a byte is dropped.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = BYTE_UNITS.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let Some((number, bytes)) = unit else { return parse_whole(text) };
    if let Some(whole) = parse_whole(number) {
        return whole.checked_mul(bytes);
    }
    let (whole, decimals) = number.trim_end().split_once('.').filter(|(whole, _)| !whole.contains(['e', 'E']))?;
    let is_fraction = (1..=18).contains(&decimals.len()) && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let scale = 10u128.pow(u32::try_from(decimals.len()).ok().filter(|_| is_fraction)?);
    let fraction = u128::from(decimals.parse::<u64>().ok()?) * u128::from(bytes) / scale;
    parse_whole(whole)?.checked_mul(bytes)?.checked_add(u64::try_from(fraction).ok()?)
}

/// Parses a number that may have decimals: `9.5`, `1e-3` or `1_000.5`. Returns `None` for any other text, and for a
/// number that is not finite.
pub fn parse_number(text: &str) -> Option<f64> {
    let text: String = text.chars().filter(|letter| !"_ ".contains(*letter)).collect();
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a share of 1: `0.01` or `1%`.
pub fn parse_share(text: &str) -> Option<f64> {
    let Some(percent) = text.trim().strip_suffix('%') else { return parse_number(text) };
    // Decimal digits are shifted as text, because a division by 100 may round.
    let shifted = || parse_number(&format!("{}e-2", percent.trim_end()));
    parse_number(percent).and_then(|percent| shifted().or(Some(percent / 100.0)))
}

/// Rounds to the nearest integer. A negative number or NaN gives 0, and a number that is too large
/// gives [`u64::MAX`].
pub fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let rounded = value.round() as u64;
    rounded
}

/// Formats a number with its unit: `1 key`, `2 keys`. The plural of `unit` must be `unit` and an
/// `s`.
pub fn count(value: u64, unit: &str) -> String {
    format!("{} {unit}{}", thousands(value), if value == 1 { "" } else { "s" })
}

/// Formats a fraction of 1 as a percentage, with as many digits as [`significant`] gives.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// Formats a number with three significant digits, or with two below 0.001. From 1,000 on, the
/// number is rounded to an integer with thousands separators. Zero becomes `0`. A number that
/// rounds to less than 0.0000001 becomes `<0.0000001`, and no number has an exponent. An infinite
/// number or NaN is formatted as in Rust.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let size = value.abs();
    if size >= 999.5 {
        let digits = thousands(whole(size));
        return if value < 0.0 { format!("-{digits}") } else { digits };
    }
    let decimals = match size {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        size if size >= 0.009995 => 4,
        size if size >= 0.0009995 => 5,
        size if size >= 0.000_099_5 => 5,
        size if size >= 0.000_009_95 => 6,
        size if size >= 0.000_000_995 => 7,
        size if size >= 0.000_000_099_5 => 8,
        _ => return "<0.0000001".into(),
    };
    format!("{value:.decimals$}")
}

/// Formats a time with at most one decimal.
pub fn short(ns: f64) -> String {
    if ns < 99.5 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

/// Formats a fraction of 1 as a percentage with at most two decimals.
pub fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

/// Escapes the control characters of an untrusted text, so that a terminal can show it.
pub fn printable(text: &str) -> String {
    let spell = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(spell).collect()
}

/// Escapes a text for the content or a double-quoted attribute of an element.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

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

/// Formats a factor, or returns `None` if it is below 1.05.
#[must_use]
pub fn times(ratio: f64) -> Option<String> {
    match ratio {
        ratio if ratio < 1.05 => None,
        ratio if ratio < 9.95 => Some(format!("{ratio:.1}")),
        ratio => Some(thousands(whole(ratio))),
    }
}

/// Returns how many times less some queries cost with filters: a range like `2.5 to 84 times less`, or
/// the maximum if filters do not always help. Returns `None` if they never help.
#[must_use]
pub fn headline(ratios: impl Iterator<Item = f64>) -> Option<String> {
    let ends = ratios.filter(|ratio| ratio.is_finite()).fold(None, |ends, ratio| {
        let (low, high) = ends.unwrap_or((ratio, ratio));
        Some((ratio.min(low), ratio.max(high)))
    });
    let (low, high) = ends?;
    match (times(low), times(high)?) {
        (Some(low), high) if low == high => Some(format!("{high} times less")),
        (Some(low), high) => Some(format!("{low} to {high} times less")),
        (None, high) => Some(format!("up to {high} times less")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded_for_reading() {
        let cases = [(0u64, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(thousands(value), text);
        }
        let cases = [(0.0, "0"), (0.00955, "0.00955"), (0.96, "0.960"), (62.34, "62.3"), (2_345.6, "2,346")];
        let tiny = [(0.000_821, "0.00082"), (0.000_082_1, "0.000082"), (8.21e-7, "0.00000082"), (1e-20, "<0.0000001")];
        for (value, text) in cases.into_iter().chain(tiny) {
            assert_eq!(significant(value), text);
        }
        assert_eq!(percent(0.0095), "0.950 %");
        assert_eq!((count(1, "table"), count(0, "key")), ("1 table".into(), "0 keys".into()));
        assert_eq!([1.234, 99.46, 123.4].map(short), ["1.2", "99.5", "123"]);
        assert_eq!([0.0051, 0.4427].map(short_percent), ["0.51 %", "44 %"]);
    }

    #[test]
    fn whole_numbers_are_parsed_as_people_write_them() {
        for (text, value) in
            [("0", 0), ("007", 7), ("1_000_000", 1_000_000), ("1,000,000", 1_000_000), ("1e6", 1_000_000)]
                .into_iter()
                .chain([("2.5e6", 2_500_000), ("1'000 000", 1_000_000), ("18446744073709551615", u64::MAX), ("1E0", 1)])
        {
            assert_eq!(parse_whole(text), Some(value), "{text}");
        }
        for text in [
            "",
            "-1",
            "+1",
            "1.5",
            "1.25e1",
            "e6",
            "1e",
            "1e-1",
            "1e20",
            "1e99999999999",
            "18446744073709551616",
            "0x1",
            ".",
            "1,5",
            "1,5e6",
            "1000,000",
            ",000",
            "1,000,",
        ] {
            assert_eq!(parse_whole(text), None, "{text}");
        }
        let bytes =
            [("256MB", Some(256_000_000)), ("1_024 KiB", Some(1 << 20)), ("64MiB", Some(64 << 20)), ("12", Some(12))];
        let decimals =
            [("1.5MiB", Some(3 << 19)), ("0.3 KiB ", Some(307)), ("1.5", None), ("1e3.5kB", None), (".kB", None)];
        let wrong = [("MB", None), ("1mb", None), ("2,5MB", None), ("99999999999TiB", None), ("16777216.5TiB", None)];
        for (text, value) in bytes.into_iter().chain(decimals).chain(wrong) {
            assert_eq!(parse_bytes(text), value, "{text}");
        }
    }

    #[test]
    fn shares_are_parsed_as_fractions_and_as_percentages() {
        for (text, share) in [("0.01", 0.01), ("1%", 0.01), ("0.7 %", 0.007), ("1e-1%", 0.001), (" 1_0%", 0.1)] {
            assert_eq!(parse_share(text), Some(share), "{text}");
        }
        for text in ["", "%", "abc", "0,01", "nan", "inf%", "1%%", "1/100"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("naïve \u{1b}[31m\n"), "naïve \\u{1b}[31m\\u{a}");
    }

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

    #[test]
    fn a_headline_names_the_range_of_the_factors() {
        for (ratios, less) in [
            (&[27.3, 2406.2, 84.0][..], Some("27 to 2,406 times less")),
            (&[33.2], Some("33 times less")),
            (&[0.9, 5.04], Some("up to 5.0 times less")),
            (&[0.9, 1.04, f64::NAN, f64::INFINITY], None),
            (&[], None),
        ] {
            assert_eq!(headline(ratios.iter().copied()).as_deref(), less, "{ratios:?}");
        }
    }
}
