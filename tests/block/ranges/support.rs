//! Provides the tests with keys, bounds, and blocks of range filters.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use filterblock::{Expected, FilterBlock, FilterOptions, KeyHasher, Verify};
use filterblock_testkit::blocks::{SEED, built, spec};

pub use filterblock_testkit::blocks::TABLE;

pub type Keys = BTreeSet<Vec<u8>>;

pub fn hasher() -> KeyHasher {
    KeyHasher::xxh3(SEED)
}

pub fn block(text: &str, keys: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<u8> {
    built(&FilterOptions::new(spec(text)).table_id(TABLE), SEED, keys)
}

/// Builds a filter of the specification `points` with a range filter beside it.
pub fn both(points: &str, ranges: &str, keys: &Keys) -> Vec<u8> {
    built(&FilterOptions::new(spec(points)).table_id(TABLE).ranges(spec(ranges)), SEED, keys)
}

pub fn open<D: AsRef<[u8]>>(bytes: D, verify: Verify) -> filterblock::Result<FilterBlock<D>> {
    FilterBlock::open(bytes, &Expected::of_table(TABLE, &hasher()), verify)
}

/// Returns how the bounds compare, or `None` if one of them is missing.
fn compared(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Option<Ordering> {
    let (Included(lower) | Excluded(lower), Included(upper) | Excluded(upper)) = (lower, upper) else { return None };
    Some(lower.cmp(upper))
}

/// Returns whether the lower bound is above the upper bound.
pub fn is_reversed(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    compared(lower, upper) == Some(Ordering::Greater)
}

/// Returns whether the bounds are equal and exclude their key.
pub fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let is_key = matches!((lower, upper), (Included(_), Included(_)));
    compared(lower, upper) == Some(Ordering::Equal) && !is_key
}

pub fn holds_key(keys: &Keys, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    !is_reversed(lower, upper) && !is_empty(lower, upper) && keys.range::<[u8], _>((lower, upper)).next().is_some()
}

/// Returns the nine combinations of an included, excluded or missing bound on each side.
pub fn forms<'a>(from: &'a [u8], to: &'a [u8]) -> [(Bound<&'a [u8]>, Bound<&'a [u8]>); 9] {
    let (lower, upper) = ([Included(from), Excluded(from), Unbounded], [Included(to), Excluded(to), Unbounded]);
    std::array::from_fn(|i| (lower[i / 3], upper[i % 3]))
}

/// Returns the key itself, and keys near it: just below, just above, shorter, and longer.
pub fn near(key: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![key.to_vec(), [key, &[0]].concat(), [key, &[0xff]].concat()];
    if let Some((&last, front)) = key.split_last() {
        found.push(front.to_vec());
        found.push([front, &[last.wrapping_add(1)]].concat());
        found.push([front, &[last.wrapping_sub(1)]].concat());
        found.push([front, &[last.wrapping_sub(1), 0xff, 0xff]].concat());
    }
    found
}
