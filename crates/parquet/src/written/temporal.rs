//! Converts the text of dates, times and timestamps to the plain encoding. A text without the zone of the
//! column, or with digits below its unit, is an error, because the answer "absent" would hide the mistake.

use crate::schema::PhysicalType;

const DAY_SECONDS: i128 = 86_400;

/// A type of dates, times or timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temporal {
    has_date: bool,
    /// The unit and the zone of the time, or `None` for dates.
    time: Option<Time>,
    len_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Time {
    /// The number of digits after the point: 3, 6 or 9.
    digits: usize,
    /// Whether the time is in UTC. Otherwise it is the local time of an unknown zone.
    is_utc: bool,
}

impl Temporal {
    /// Returns the type of a column. Returns `None` for other logical types, and for a physical type that does
    /// not store them.
    pub(super) fn of(physical: PhysicalType, logical: &str) -> Option<Self> {
        use PhysicalType::{Int32, Int64};
        if logical == "date" {
            return (physical == Int32).then_some(Self { has_date: true, time: None, len_bytes: 4 });
        }
        let (name, unit, zone) = logical.strip_suffix(')').and_then(|text| {
            let (name, parts) = text.split_once('(')?;
            let (unit, zone) = parts.split_once(',')?;
            Some((name, unit, zone))
        })?;
        let digits = ["ms", "us", "ns"].into_iter().position(|known| known == unit)? * 3 + 3;
        let is_short = name == "time" && digits == 3;
        let fits = physical == if is_short { Int32 } else { Int64 };
        let is_known = ["time", "timestamp"].contains(&name) && fits;
        let time = Some(Time { digits, is_utc: zone == "utc" });
        let len_bytes = if is_short { 4 } else { 8 };
        is_known.then_some(Self { has_date: name == "timestamp", time, len_bytes })
    }

    /// Returns what the column has, with its unit and zone, and a value.
    fn texts(self) -> (String, String) {
        let date = if self.has_date { "2024-02-29" } else { "" };
        let Some(Time { digits, is_utc }) = self.time else { return ("date".to_owned(), date.to_owned()) };
        let unit = ["milliseconds", "microseconds", "nanoseconds"].get(digits / 3 - 1).copied().unwrap_or_default();
        let zone = if is_utc { "in UTC" } else { "in local time" };
        let (name, gap) = if self.has_date { ("timestamp", "T") } else { ("time", "") };
        let end = if is_utc { "Z" } else { "" };
        (format!("{name} {zone} in {unit}"), format!("{date}{gap}12:30:00.{:0>digits$}{end}", 1))
    }

    /// Returns the plain encoding of a date such as `2024-02-29`, of a time such as `12:30:00.5Z`, or of both
    /// with a `T` or a space between them.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        let wrong = |why: &str| {
            let (name, example) = self.texts();
            let bits = self.len_bytes * 8;
            format!("not a value of type {name}: {why}; try {example}, or give the stored number with --type int{bits}")
        };
        let (date, time) = match (self.has_date, self.time) {
            (true, None) => (text, None),
            (true, Some(time)) => {
                let (date, written) =
                    text.split_once(['T', 't', ' ']).ok_or_else(|| wrong("expected a date and a time"))?;
                (date, Some((time, written)))
            }
            (false, time) => ("1970-01-01", time.map(|time| (time, text))),
        };
        let mut number = days(date).ok_or_else(|| wrong("there is no such day"))?;
        if let Some((Time { digits, is_utc }, written)) = time {
            let (clock, zone) = split_zone(written);
            let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
            let seconds = seconds(clock).ok_or_else(|| wrong("there is no such time"))?;
            let offset = match zone {
                "" if is_utc => return Err(wrong("the zone is missing: add Z for UTC, or an offset such as +02:00")),
                "" => 0,
                _ if !is_utc => return Err(wrong("the column has no zone: omit the zone")),
                "Z" | "z" => 0,
                _ if !self.has_date => return Err(wrong("without a date, the zone can only be Z")),
                zone => offset(zone).ok_or_else(|| wrong("there is no such zone"))?,
            };
            let fraction = fraction.trim_end_matches('0');
            let is_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
            if !is_digits || fraction.len() > digits {
                return Err(wrong(&format!("expected at most {digits} digits after the point")));
            }
            let fraction = format!("{fraction:0<digits$}").parse::<i128>().unwrap_or_default();
            let scale = 10_i128.pow(u32::try_from(digits).unwrap_or_default());
            number = (number * DAY_SECONDS + seconds - offset) * scale + fraction;
        }
        let limit = 1_i128 << (self.len_bytes * 8 - 1);
        if !(-limit..limit).contains(&number) {
            return Err(wrong("outside of the range of the column"));
        }
        Ok(number.to_le_bytes().into_iter().take(self.len_bytes).collect())
    }
}

/// Returns the value of exactly `len` digits.
fn digits(text: &str, len: usize) -> Option<i128> {
    let is_number = text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns the number of days from 1970-01-01 to a day of the Gregorian calendar, written as `YYYY-MM-DD`.
fn days(text: &str) -> Option<i128> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let leaps = |year: i128| year / 4 - year / 100 + year / 400;
    let is_leap = leaps(year) > leaps(year - 1);
    let lens = [31, if is_leap || year == 0 { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    let before: i128 = lens.iter().take(month).sum();
    let exists = lens.get(month).is_some_and(|len| (1..=*len).contains(&day));
    // The year 0 is a leap year, and the 366 days before the year 1 are not in `leaps`.
    let start = if year == 0 { -366 } else { (year - 1) * 365 + leaps(year - 1) };
    exists.then_some(start + before + day - 1 - 719_162)
}

/// Returns the seconds of a time written as `HH:MM` or `HH:MM:SS`.
fn seconds(text: &str) -> Option<i128> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "00"));
    let below = |text, limit| digits(text, 2).filter(|number| *number < limit);
    Some(below(hours, 24)? * 3600 + below(minutes, 60)? * 60 + below(seconds, 60)?)
}

/// Splits the zone from a time: `Z`, or an offset such as `+02:00`. The zone is empty if there is none.
fn split_zone(text: &str) -> (&str, &str) {
    text.split_at(text.find(['Z', 'z', '+', '-']).unwrap_or(text.len()))
}

/// Returns the seconds of an offset such as `+02:00`.
fn offset(zone: &str) -> Option<i128> {
    let (sign, rest) = zone.split_at_checked(1)?;
    let offset = seconds(rest).filter(|_| rest.len() == 5)?;
    Some(if sign == "-" { -offset } else { offset }).filter(|_| ["+", "-"].contains(&sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use PhysicalType::{Int32, Int64};

    fn number(physical: PhysicalType, logical: &str, text: &str) -> Result<i64, String> {
        let mut bytes = Temporal::of(physical, logical).unwrap().encode(text)?;
        let sign = if bytes.last().unwrap() & 0x80 != 0 { 0xff } else { 0 };
        bytes.resize(8, sign);
        Ok(i64::from_le_bytes(bytes.try_into().unwrap()))
    }

    /// Counts the days of 10,000 years one by one.
    #[test]
    fn each_day_has_its_number_and_no_other_text_is_a_day() {
        let mut day = -719_528;
        for year in 0..10_000_u32 {
            for month in 1..=12 {
                for number_of_day in 0..=32 {
                    let text = format!("{year:04}-{month:02}-{number_of_day:02}");
                    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
                    let len = match month {
                        2 => 28 + u32::from(is_leap),
                        4 | 6 | 9 | 11 => 30,
                        _ => 31,
                    };
                    let found = days(&text);
                    if (1..=len).contains(&number_of_day) {
                        assert_eq!(found, Some(day), "{text}");
                        day += 1;
                    } else {
                        assert_eq!(found, None, "{text}");
                    }
                }
            }
        }
        assert_eq!(number(Int32, "date", "1970-01-01"), Ok(0));
        for text in ["", "2024-2-29", "24-02-29", "2024-13-01", "2024-00-01", "+024-01-01", "2024-01-01Z", "20240101"] {
            assert!(number(Int32, "date", text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_and_the_zone_of_the_column() {
        for (physical, logical, text, expected) in [
            (Int32, "time(ms,utc)", "00:00:01.5Z", 1_500),
            (Int64, "time(us,local)", "23:59:59.999999", 86_399_999_999),
            (Int64, "time(ns,utc)", "00:01Z", 60_000_000_000),
            (Int64, "timestamp(ms,utc)", "1969-12-31T23:59:59.999Z", -1),
            (Int64, "timestamp(us,utc)", "2024-02-29 12:30:00.000001Z", 1_709_209_800_000_001),
            (Int64, "timestamp(us,utc)", "2024-02-29T14:30:00.00000100+02:00", 1_709_209_800_000_001),
            (Int64, "timestamp(us,utc)", "2024-02-29t07:00-05:30", 1_709_209_800_000_000),
            (Int64, "timestamp(ns,local)", "2262-04-11T23:47:16.854775807", i64::MAX),
        ] {
            assert_eq!(number(physical, logical, text), Ok(expected), "{text}");
        }
        for (physical, logical, text, why) in [
            (Int64, "timestamp(us,utc)", "2024-02-29T12:30:00", "the zone is missing: add Z for UTC"),
            (Int64, "timestamp(us,local)", "2024-02-29T12:30:00Z", "omit the zone; try 2024-02-29T12:30:00.000001"),
            (Int64, "timestamp(ms,utc)", "2024-02-29T12:30:00.0001Z", "at most 3 digits"),
            (Int64, "timestamp(ms,utc)", "2024-02-30T12:30:00Z", "no such day; try 2024-02-29T12:30:00.001Z"),
            (Int64, "timestamp(ms,utc)", "2024-02-29T24:00:00Z", "no such time"),
            (Int64, "timestamp(ms,utc)", "2024-02-29T12:30:00+0200", "no such zone"),
            (Int64, "timestamp(ms,utc)", "2024-02-29", "expected a date and a time"),
            (Int64, "timestamp(ms,utc)", "1709209800000", "timestamp in UTC in milliseconds"),
            (Int64, "timestamp(ns,local)", "2262-04-11T23:47:16.854775808", "outside of the range"),
            (Int32, "time(ms,utc)", "12:30:00+02:00", "can only be Z"),
            (Int32, "time(ms,local)", "12:30:00.-1", "no zone"),
        ] {
            let refused = number(physical, logical, text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        for (physical, logical) in [
            (Int64, "date"),
            (Int64, "time(ms,utc)"),
            (Int32, "timestamp(ms,utc)"),
            (Int64, "time(unknown,utc)"),
            (Int64, "x(ms,utc)"),
        ] {
            assert_eq!(Temporal::of(physical, logical), None, "{logical}");
        }
    }
}
