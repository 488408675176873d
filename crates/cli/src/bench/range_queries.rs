//! Makes the keys and the queries of `bench range-miss`: ranges without a key, and absent rows.

use super::super::failure::{Failure, Outcome};
use super::source::{Random, Strings, mix};

/// The number of columns of each row.
pub const COLUMNS: u64 = 10;
/// The maximum number of attempts to find a range without a key.
const TRIES_MAX: u32 = 10_000;

/// The positions of the empty ranges among the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Anywhere between the smallest and the largest key.
    Uniform,
    /// Beginning at the integer after a loaded key.
    Beside,
}

impl Place {
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Beside];

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Beside => "beside a key",
        }
    }
}

/// Distinct random integers, in ascending order.
#[derive(Debug)]
pub struct Integers(Vec<u64>);

impl Integers {
    /// Draws `count` integers. The same seed gives the same integers.
    pub fn new(count: u64, seed: u64) -> Self {
        // `mix` is a bijection, so all numbers are distinct.
        let mut all: Vec<u64> = (0..count).map(|i| mix(i ^ mix(seed))).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Returns the integers as keys of eight bytes, in ascending order.
    pub fn keys(&self) -> Strings {
        let mut keys = Strings::default();
        self.0.iter().for_each(|&integer| keys.push(&key(integer)));
        keys
    }

    /// Draws `count` ranges of `range_len` integers that contain no key. Returns the first and the
    /// last integer of each range as big-endian bytes. Returns an error if [`TRIES_MAX`] attempts
    /// find no range.
    pub fn empty_ranges(
        &self,
        place: Place,
        range_len: u64,
        count: u64,
        seed: u64,
    ) -> Outcome<Vec<([u8; 8], [u8; 8])>> {
        let mut random = Random::new(seed);
        let (Some(&first), Some(&last)) = (self.0.first(), self.0.last()) else { return Ok(Vec::new()) };
        let mut draw = || {
            let from = match place {
                Place::Uniform => first + 1 + random.below(last - first),
                Place::Beside => {
                    let index = usize::try_from(random.below(self.0.len() as u64 - 1)).unwrap_or_default();
                    self.0.get(index).map_or(first, |&integer| integer) + 1
                }
            };
            let to = from.checked_add(range_len - 1)?;
            let next = self.0.get(self.0.partition_point(|&integer| integer < from))?;
            (to < *next).then(|| (key(from), key(to)))
        };
        (0..count)
            .map(|_| {
                (0..TRIES_MAX).find_map(|_| draw()).ok_or_else(|| {
                    Failure::Message(format!(
                        "--length {range_len}: cannot find ranges of this length without a key; give a smaller number"
                    ))
                })
            })
            .collect()
    }
}

/// Returns the key of an integer: its eight bytes, big-endian.
#[expect(clippy::big_endian_bytes, reason = "the order of such keys is that of the integers")]
fn key(integer: u64) -> [u8; 8] {
    integer.to_be_bytes()
}

/// Returns the keys of `count / COLUMNS` rows, [`COLUMNS`] keys for each row.
pub fn rows(count: u64, seed: u64) -> Strings {
    let mut keys = Strings::default();
    for number in 0..count / COLUMNS {
        let row = row(number, seed);
        (0..COLUMNS).for_each(|column| keys.push(&[row.as_slice(), format!("{column}/value").as_bytes()].concat()));
    }
    keys
}

/// Returns the prefixes of `count` rows that are absent from the keys of `rows(loaded, seed)`. They
/// are spread over the same key space as the loaded rows.
pub fn absent_rows(count: u64, loaded: u64, seed: u64) -> Vec<Vec<u8>> {
    let first = loaded / COLUMNS;
    (first..first + count).map(|number| row(number, seed)).collect()
}

fn row(number: u64, seed: u64) -> Vec<u8> {
    format!("{:016x}/", mix(number ^ mix(seed))).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_ranges_hold_no_key_and_fit_their_place() {
        let integers = Integers::new(1_000, 3);
        for place in Place::ALL {
            for (from, to) in integers.empty_ranges(place, 1 << 40, 300, 5).unwrap() {
                let keys: Vec<[u8; 8]> = integers.0.iter().map(|&integer| key(integer)).collect();
                let below = keys.partition_point(|key| *key < from);
                assert!(from < to && keys[below] > to && below > 0);
                let is_beside = u64::from_str_radix(&hex(&from), 16).unwrap() == integers.0[below - 1] + 1;
                assert_eq!(is_beside, place == Place::Beside);
            }
        }
        assert!(integers.empty_ranges(Place::Uniform, u64::MAX, 1, 5).is_err());
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn absent_rows_are_not_loaded() {
        let rows = rows(1_000, 7);
        let absent = absent_rows(100, 1_000, 7);
        assert_eq!((rows.len(), absent.len()), (1_000, 100));
        assert!(absent.iter().all(|row| rows.iter().all(|key| !key.starts_with(row))));
    }
}
