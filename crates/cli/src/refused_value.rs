//! Values of options: parsers that say which values work, and the one line with which a wrong value is refused.

use std::error::Error as _;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::text::printable;
use filterblock::Error;

/// A parser of whole numbers in `range`; `example` is one of them.
pub fn whole<T>(
    range: RangeInclusive<T>,
    example: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number
            .ok_or_else(|| format!("expected a whole number from {} to {}; try {example}", range.start(), range.end()))
    }
}

/// What is wrong with a rate that is no number, or out of range.
pub const RATE_EXPECTED: &str = "expected a rate above 0 and below 1; try 0.01";

/// What is wrong with bits per key that are no number, or out of range.
pub const BITS_EXPECTED: &str = "expected 1 to 100 bits; try 10";

/// A parser of numbers whose range is checked later; `expected` says what is expected, and a value that works.
pub fn number(expected: &'static str) -> impl Fn(&str) -> Result<f64, &'static str> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| expected)
}

/// The line that names the option, says what is wrong, and gives a value that works. `None` where no value is wrong: then
/// clap's usage says more.
pub fn line(refused: &clap::Error) -> Option<String> {
    match refused.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {}
        // Which one, clap does not say.
        ErrorKind::InvalidUtf8 => {
            return Some("an argument is not UTF-8, which only keys and paths need not be; write it in UTF-8".into());
        }
        _ => return None,
    }
    let argument = string(refused, ContextKind::InvalidArg)?;
    let option = argument.split(' ').next()?;
    let value = match string(refused, ContextKind::InvalidValue) {
        Some("") | None if refused.kind() == ErrorKind::InvalidValue => {
            return Some(format!("{option}: its value is missing; give {argument}"));
        }
        Some("") | None => "\"\"".to_owned(),
        Some(value) => printable(value),
    };
    let reason = match refused.source() {
        Some(source) => match source.downcast_ref() {
            // The value stands in front of it anyway.
            Some(Error::Invalid { reason, .. }) => reason.clone().into_owned(),
            _ => source.to_string(),
        },
        None => one_of(refused)?,
    };
    Some(format!("{option} {value}: {reason}"))
}

/// Which values there are.
fn one_of(refused: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(values)) = refused.get(ContextKind::ValidValue) else { return None };
    let (last, others) = values.split_last()?;
    let example = string(refused, ContextKind::SuggestedValue).or(others.first().map(String::as_str)).unwrap_or(last);
    Some(match others {
        [] => format!("expected {last}; try {last}"),
        others => format!("expected {} or {last}; try {example}", others.join(", ")),
    })
}

fn string(refused: &clap::Error, kind: ContextKind) -> Option<&str> {
    match refused.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}
