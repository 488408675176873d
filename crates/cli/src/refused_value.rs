//! Parses the values of options, and explains a wrong command line in one line.

use std::error::Error as _;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::prelude::*;
use filterblock::Error;
use filterblock_store::lsm::PrefixChoice;

/// Returns a parser of whole numbers in `range`, such as `1000000`, `1_000_000` or `1e6`. Errors suggest
/// `example`, a number of the range.
pub fn whole<T>(
    range: RangeInclusive<T>,
    example: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |written| {
        let number = text::parse_whole(written).and_then(|number| number.to_string().parse().ok());
        let number = number.filter(|number| range.contains(number));
        number
            .ok_or_else(|| format!("expected a whole number from {} to {}; try {example}", range.start(), range.end()))
    }
}

/// Returns a parser of names, each with its help and its value.
pub fn choice<T: Clone + Send + Sync + 'static>(
    choices: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let choices: Vec<_> = choices.into_iter().collect();
    let names: Vec<_> = choices.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help)).collect();
    PossibleValuesParser::new(names).map(move |given| {
        let chosen = choices.iter().find(|(name, ..)| *name == given).map(|(.., value)| value.clone());
        chosen.expect("the parser accepts these names only")
    })
}

/// Parses the value of `--prefix`. The library's error about an unknown extractor does not list
/// `none` and `keep`, so this function replaces the list.
pub fn prefix_choice(text: &str) -> Result<PrefixChoice, Error> {
    const EXTRACTORS: [&str; 4] = ["fixed:", "capped:", "delimiter:", "row-column:"];
    const EXPECTED: &str = "expected fixed:LENGTH, capped:LENGTH, delimiter:BYTE, row-column:BYTE, none or keep; try fixed:8; to scan the keys that begin with a text, use --starts-with";
    text.parse().map_err(|error| match error {
        Error::Invalid { what, given, .. } if !EXTRACTORS.iter().any(|name| text.starts_with(name)) => {
            Error::Invalid { what, given, reason: EXPECTED.into() }
        }
        error => error,
    })
}

/// The error message for a false-positive rate that is not a number or is out of range.
pub const RATE_EXPECTED: &str = "the false-positive rate must be a number above 0 and below 1; try 0.01";

/// The error message for bits per key that are not a number or are out of range.
pub const BITS_EXPECTED: &str = "bits per key must be from 1 to 100; try 10";

/// Returns a parser of floating-point numbers. `expected` is the error message for a text that is
/// not a number. The caller checks the range.
pub fn number(expected: &'static str) -> impl Fn(&str) -> Result<f64, &'static str> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| expected)
}

/// Parses a false-positive rate, such as `0.01` or `1%`. The caller checks the range.
pub fn rate(text: &str) -> Result<f64, &'static str> {
    text::parse_share(text).ok_or(RATE_EXPECTED)
}

/// Returns one line that says what is wrong with the command line and what to do. Returns `None`
/// for help, for version, and for a missing subcommand, which prints the help.
pub fn line(refused: &clap::Error) -> Option<String> {
    let line = match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return None;
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => wrong_value(refused),
        // clap does not name the argument.
        ErrorKind::InvalidUtf8 => Some(
            "an argument is not UTF-8; write it in UTF-8 (keys, file paths and the value of \"db put\" may have other bytes)".into(),
        ),
        ErrorKind::UnknownArgument => unknown(refused, ContextKind::InvalidArg, ContextKind::SuggestedArg, "option"),
        ErrorKind::InvalidSubcommand => {
            unknown(refused, ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand, "command")
        }
        ErrorKind::MissingRequiredArgument => missing(refused),
        ErrorKind::ArgumentConflict => conflict(refused),
        ErrorKind::TooManyValues => needless_value(refused),
        _ => None,
    };
    // Other errors are rare: the first line of clap's message says enough.
    let first_line = || {
        let text = refused.render().to_string();
        text.lines().next().map(|line| format!("{}; {}", line.trim_start_matches("error: "), see_help(refused)))
    };
    line.or_else(first_line)
}

/// The commands with an option `--filter`.
const WITH_FILTER: &[&str] = &["build", "convert", "db put", "db load", "bench point-miss", "bench load"];

/// Options of other commands, the commands that lack them, and what to give instead.
const ELSEWHERE: [(&str, &[&str], &str); 7] = [
    ("--fpr", WITH_FILTER, "the rate is a part of the filter: --filter blocked-bloom:fpr=0.01"),
    ("--bits-per-key", WITH_FILTER, "the bits are a part of the filter: --filter blocked-bloom:10"),
    ("--keys", &["verify"], "to look up the keys of a file, use --against KEYFILE"),
    ("--keys", &["build"], "give the file of keys without an option, or - for standard input"),
    (
        "--column",
        &["build"],
        "for the values of a Parquet file, use \"filterblock index build\" or \"filterblock parquet add\"",
    ),
    ("--column", &["index query", "index add"], "an index has one column, so omit the option"),
    ("set", &["db"], "use put"),
];

/// Describes an unknown argument or command. Returns `None` if clap does not give its name.
fn unknown(refused: &clap::Error, given: ContextKind, similar: ContextKind, what: &str) -> Option<String> {
    let given = printable(string(refused, given)?);
    let command = command_of(refused);
    let elsewhere = ELSEWHERE.iter().find(|(option, commands, _)| **option == given && commands.contains(&&*command));
    if let Some((.., next)) = elsewhere {
        return Some(format!("unknown {what} {given}; {next}"));
    }
    let next = match refused.get(similar) {
        Some(ContextValue::String(similar)) => format!("did you mean {similar}?"),
        Some(ContextValue::Strings(similar)) if !similar.is_empty() => {
            format!("did you mean {}?", similar.join(" or "))
        }
        _ => see_help(refused),
    };
    Some(match what {
        "option" if given.starts_with('-') && given.parse::<f64>().is_ok() => {
            format!("unexpected argument {given:?}; options take numbers from 0 on; {next}")
        }
        "option" if !given.starts_with('-') => format!("unexpected argument {given:?}; {next}"),
        _ => format!("unknown {what} {given}; {next}"),
    })
}

fn missing(refused: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = refused.get(ContextKind::InvalidArg) else { return None };
    // clap writes a group of alternatives as `<--one <A>|--two <B>>`.
    let readable = |argument: &String| match argument.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        Some(group) if group.contains('|') => format!("one of {}", group.split('|').collect::<Vec<_>>().join(", ")),
        _ => argument.clone(),
    };
    let missing: Vec<String> = missing.iter().map(readable).collect();
    Some(format!("missing {}; {}", missing.join(" and "), see_help(refused)))
}

/// Describes an option that excludes other given options, or an option that is given twice.
fn conflict(refused: &clap::Error) -> Option<String> {
    let argument = string(refused, ContextKind::InvalidArg)?;
    let others = match refused.get(ContextKind::PriorArg) {
        Some(ContextValue::String(other)) => vec![other.as_str()],
        Some(ContextValue::Strings(others)) => others.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    Some(match others.as_slice() {
        [] => format!("{argument} is given twice; give it once"),
        [other] if *other == argument => format!("{argument} is given twice; give it once"),
        [other] => format!("{argument} cannot be used with {other}; omit one of them"),
        others => {
            let option = argument.split(' ').next().unwrap_or(argument);
            format!("{argument} cannot be used with {}; omit {option}, or omit all the others", others.join(" or "))
        }
    })
}

/// Describes a value that was given to an option without values.
fn needless_value(refused: &clap::Error) -> Option<String> {
    let option = string(refused, ContextKind::InvalidArg)?;
    let value = printable(string(refused, ContextKind::InvalidValue)?);
    Some(format!("{option} takes no value; omit {value:?}"))
}

/// Returns the advice to run the subcommand with `--help`.
fn see_help(refused: &clap::Error) -> String {
    format!("run \"{} --help\"", format!("filterblock {}", command_of(refused)).trim_end())
}

/// Returns the name of the subcommand, such as `db put`. It comes from clap's usage line.
fn command_of(refused: &clap::Error) -> String {
    let usage = match refused.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let names: Vec<&str> =
        usage.split_whitespace().skip_while(|word| *word != "filterblock").skip(1).take_while(is_name).collect();
    names.join(" ")
}

/// Names the option, and says that its value is missing or what is wrong with it.
fn wrong_value(refused: &clap::Error) -> Option<String> {
    let argument = string(refused, ContextKind::InvalidArg)?;
    let option = argument.split(' ').next()?;
    let value = match string(refused, ContextKind::InvalidValue) {
        Some("") | None if refused.kind() == ErrorKind::InvalidValue => {
            return Some(format!("{option}: missing value; give {argument}"));
        }
        Some("") | None => "\"\"".to_owned(),
        Some(value) => printable(value),
    };
    let reason = match refused.source() {
        Some(source) => match source.downcast_ref() {
            // The option and its value precede the reason.
            Some(Error::Invalid { reason, .. }) => reason.clone().into_owned(),
            _ => source.to_string(),
        },
        None => one_of(refused)?,
    };
    Some(format!("{option} {value}: {reason}"))
}

/// Lists the valid values and suggests one. Returns `None` if clap gives no list.
fn one_of(refused: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(values)) = refused.get(ContextKind::ValidValue) else { return None };
    let (last, others) = values.split_last()?;
    let example = string(refused, ContextKind::SuggestedValue).or(others.first().map(String::as_str)).unwrap_or(last);
    if string(refused, ContextKind::InvalidValue) == Some("filterblock-compact") {
        return Some(
            "such a filter has no checksum and no seed, so query the table that has it, without --format".into(),
        );
    }
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
