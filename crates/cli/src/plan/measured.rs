//! Reads measured query times from the tables of docs/BENCHMARKS.md.

use std::fmt;

use serde::Serialize;

use filterblock::FilterKind;

const PAGE: &str = include_str!("../../../../docs/BENCHMARKS.md");

/// The largest ratio between the measured and the planned number of keys. Beyond it, the two
/// filters may fit different cache levels.
const KEYS_APART: f64 = 10.0;
/// The largest ratio between the measured and the planned bits per key. Beyond it, the two filters
/// usually differ in the number of probes or columns.
const BITS_APART: f64 = 4.0 / 3.0;

/// The machine and the conditions of the measurements, as the page describes them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Machine(String);

impl Machine {
    /// Returns the recorded machine, or `None` if the page has none.
    pub fn recorded() -> Option<Self> {
        let text = sections().find(|(name, _)| *name == "machine").map(|(_, text)| text)?;
        // The page wraps its lines.
        Some(Self(text.lines().collect::<Vec<_>>().join(" ")))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end_matches('.'))
    }
}

/// A measured query time and its filter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    pub ns_if_absent: f64,
    pub filter: &'static str,
    pub keys: u64,
}

impl Measured {
    /// Returns the measurement of this kind whose number of keys is nearest to `keys`. Among
    /// several such measurements, returns the one with the nearest bits per key. Measurements that
    /// differ by a factor above [`KEYS_APART`] or [`BITS_APART`] do not count. Returns `None` if no
    /// measurement counts.
    pub fn nearest(kind: FilterKind, bits_per_key: f64, keys: u64) -> Option<Self> {
        let tables = sections().filter_map(|(name, text)| Some((name.strip_prefix("sizes ")?, text)));
        let rows = tables.flat_map(|(sizes, text)| text.lines().flat_map(move |line| row(kind, sizes, line)));
        let apart = |one: f64, other: f64| (one / other).max(other / one);
        let keys_apart = |row: &(f64, Self)| apart(row.1.keys as f64, keys as f64);
        let bits_apart = |row: &(f64, Self)| apart(row.0, bits_per_key);
        let near = rows.filter(|row| keys_apart(row) <= KEYS_APART && bits_apart(row) <= BITS_APART);
        let nearest = near.min_by(|one, other| {
            keys_apart(one).total_cmp(&keys_apart(other)).then(bits_apart(one).total_cmp(&bits_apart(other)))
        });
        nearest.map(|(_, measured)| measured)
    }
}

/// Returns the name and the text of each generated section of the page.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = PAGE.split("<!-- generated: ").skip(1);
    parts.filter_map(|part| {
        let (name, rest) = part.split_once(" -->\n")?;
        Some((name, rest.split_once("<!-- end -->")?.0))
    })
}

/// Parses a line of the table of sizes. For each of `sizes`, the line has the bits per key and the
/// time in ns to query one absent key. Returns the bits and the measurement of each size. Returns
/// nothing for lines that are no rows of filterblock's filters, for other kinds, and for compact
/// filters, which plans do not offer.
fn row(kind: FilterKind, sizes: &str, line: &'static str) -> Vec<(f64, Measured)> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let filter = cells.next().and_then(|cell| cell.strip_prefix("**`")?.strip_suffix("`**"));
    let is_wanted = |filter: &&str| {
        filter.split_once(':').is_some_and(|(name, budget)| name == kind.name() && !budget.ends_with(":compact"))
    };
    let Some(filter) = filter.filter(is_wanted) else { return Vec::new() };
    let mut measured = |keys: &str| {
        let (bits, ns) = (cells.next()?, cells.next()?);
        Some((bits.parse().ok()?, Measured { ns_if_absent: ns.parse().ok()?, filter, keys: keys.parse().ok()? }))
    };
    sizes.split(' ').filter_map(&mut measured).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::KINDS;
    use super::*;

    #[test]
    fn every_kind_was_measured_and_the_nearest_is_taken() {
        assert!(Machine::recorded().unwrap().0.contains("cores"));
        for kind in KINDS {
            // Binary fuse filters of few keys take more bits per key than those of many keys.
            // Within [`BITS_APART`], 9.9 bits are near both.
            let bits = if kind == FilterKind::Ribbon { 8.4 } else { 9.9 };
            for (keys, nearest) in [(1_000, 10_000), (90_000, 10_000), (110_000, 1_000_000), (300_000_000, 30_000_000)]
            {
                let found = Measured::nearest(kind, bits, keys).unwrap();
                assert_eq!(found.keys, nearest, "{kind}");
                assert!(found.filter.starts_with(kind.name()) && found.ns_if_absent > 0.5, "{found:?}");
            }
            for (keys, bits) in [(999, bits), (301_000_000, bits), (10_000, 40.0), (10_000, 4.0)] {
                assert_eq!(Measured::nearest(kind, bits, keys), None, "{kind} {keys} {bits}");
            }
        }
        for (bits, filter) in [(6.7, "bumped-ribbon:fpr=0.01"), (8.1, "bumped-ribbon:fpr=0.00390625")] {
            assert_eq!(Measured::nearest(FilterKind::BumpedRibbon, bits, 1_000_000).unwrap().filter, filter);
        }
    }
}
