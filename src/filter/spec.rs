//! What filter to build: a kind and a budget, as plain data.

use std::fmt;
use std::str::FromStr;

use super::{FilterKind, binary_fuse, math, ribbon};
use crate::error::{Error, Result};

/// Least and most thousandths of a bit per key: below one bit a filter says "maybe" to nearly everything, above a
/// hundred every kind has long reached a rate that cannot be told from zero.
pub(super) const MILLIBITS: std::ops::RangeInclusive<u32> = 1_000..=100_000;

const UNKNOWN_KIND: &str = "unknown kind; try bloom:10, blocked-bloom:10, bumped-ribbon:8 or another kind";
const BITS_EXPECTED: &str = "expected 1 to 100 bits per key; try 10";
const RATE_EXPECTED: &str = "expected a rate above 0 and below 1; try fpr=0.01";
const NO_BUDGET_TAKEN: &str = "this kind takes no budget; try bloom:10";
const ONLY_BUMPED_RIBBON: &str = "only bumped-ribbon has a compact form; try bumped-ribbon:8:compact";

/// The kind of a filter and its budget, either bits per key or a false-positive rate.
///
/// ```
/// use filterblock::{FilterKind, FilterSpec};
/// let spec: FilterSpec = "blocked-bloom:fpr=0.01".parse()?;
/// assert_eq!(spec.kind(), FilterKind::BlockedBloom);
/// assert!("bloom:0".parse::<FilterSpec>().is_err());
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilterSpec {
    kind: FilterKind,
    millibits: u32,
    /// The rate asked for, when the budget was given as one.
    rate: Option<f64>,
    compact: bool,
}

impl FilterSpec {
    /// A filter that answers "maybe" to everything and takes no space.
    pub const FULL: Self = Self { kind: FilterKind::Full, millibits: 0, rate: None, compact: false };

    /// `blocked-bloom:16`: one cache line a query, 0.08 % false positives.
    pub const LARGE: Self = Self { kind: FilterKind::BlockedBloom, millibits: 16_000, rate: None, compact: false };

    /// A filter of `bits_per_key` bits for each distinct key, kept to a thousandth of a bit.
    ///
    /// A binary fuse filter has fingerprints of 8, 12 or 16 bits, and takes 13 to 30 % more than those in all.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless the kind takes a budget and `1 <= bits_per_key <= 100`.
    pub fn bits_per_key(kind: FilterKind, bits_per_key: f64) -> Result<Self> {
        let millibits = (bits_per_key * 1000.0).round();
        // NaN fails both comparisons.
        // A row of a ribbon has 32 columns at most.
        let most = if kind == FilterKind::Ribbon { ribbon::MAX_COLUMNS * 1000 } else { *MILLIBITS.end() };
        let in_range = if kind == FilterKind::BinaryFuse {
            binary_fuse::WIDTHS.iter().any(|&width| f64::from(width) * 1000.0 == millibits)
        } else {
            millibits >= f64::from(*MILLIBITS.start()) && millibits <= f64::from(most)
        };
        if !in_range || !kind.takes_budget() {
            let reason = if kind.takes_budget() { BITS_EXPECTED } else { NO_BUDGET_TAKEN };
            return Err(Error::InvalidSpec { spec: format!("{kind}:{bits_per_key}"), reason });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in MILLIBITS")]
        let millibits = millibits as u32;
        Ok(Self { kind, millibits, rate: None, compact: false })
    }

    /// The largest filter of a kind for at most so many bits per key; `None` if there is none so small.
    pub(crate) fn at_most(kind: FilterKind, bits_per_key: f64) -> Option<Self> {
        let offered = match kind {
            FilterKind::BinaryFuse => {
                binary_fuse::WIDTHS.iter().map(|&width| f64::from(width)).rfind(|&width| width <= bits_per_key)?
            }
            _ => bits_per_key,
        };
        Self::bits_per_key(kind, offered).ok()
    }

    /// The smallest filter whose expected false-positive rate, by the exact formula of its kind for many keys, is at
    /// most `rate`.
    ///
    /// Each kind has a lowest rate, which more bits do not lower: hashes that are equal in the bits that a kind looks at
    /// are one key to it. A Bloom filter of a few keys comes out above the rate, as its bits are not independent;
    /// [`Plan::expected_rate`](super::planning::Plan::expected_rate) says by how much.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless the kind takes a budget and `0 < rate < 1` can be had for 100 bits per key; it names the
    /// lowest rate that can.
    pub fn false_positive_rate(kind: FilterKind, rate: f64) -> Result<Self> {
        let invalid = |reason| Error::InvalidSpec { spec: format!("{kind}:fpr={rate}"), reason };
        // NaN fails both comparisons.
        if !(rate > 0.0 && rate < 1.0 && kind.takes_budget()) {
            return Err(invalid(if kind.takes_budget() { RATE_EXPECTED } else { NO_BUDGET_TAKEN }));
        }
        let millibits = math::least_millibits(rate, MILLIBITS, |millibits| rate_of_many(kind, millibits));
        let millibits = millibits.ok_or_else(|| invalid(lowest_rate(kind)))?;
        Ok(Self { kind, millibits, rate: Some(rate), compact: false })
    }

    /// Refuses a rate that a filter of so many keys cannot have, whatever its size.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`].
    pub(super) fn check_keys(&self, num_keys: u64) -> Result<()> {
        if self.rate.is_none_or(|rate| math::equal_hash(num_keys) <= rate) {
            return Ok(());
        }
        let reason = super::planning::EQUAL_HASHES;
        Err(Error::InvalidSpec { spec: format!("{self} for {num_keys} keys"), reason })
    }

    /// The same filter in the least space that its kind knows, at the price of a slower build and slightly slower queries.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless the kind is a bumped ribbon.
    pub fn compact(self) -> Result<Self> {
        if self.kind != FilterKind::BumpedRibbon {
            return Err(Error::InvalidSpec { spec: format!("{self}:compact"), reason: ONLY_BUMPED_RIBBON });
        }
        Ok(Self { compact: true, ..self })
    }

    pub(super) fn is_compact(&self) -> bool {
        self.compact
    }

    /// The kind of filter.
    #[must_use]
    pub fn kind(&self) -> FilterKind {
        self.kind
    }

    /// The rate asked for, where the budget was given as one.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// The same budget for another kind, or for a standard Bloom filter where that kind has not the rate.
    pub(super) fn instead(self, kind: FilterKind) -> Self {
        // A standard Bloom filter has any rate that another kind has.
        let of_rate =
            |rate| [kind, FilterKind::Bloom].into_iter().find_map(|kind| Self::false_positive_rate(kind, rate).ok());
        let by_rate = self.rate.and_then(of_rate);
        by_rate.unwrap_or(Self { kind, compact: false, ..self })
    }

    /// Thousandths of a bit per distinct key.
    #[must_use]
    pub fn millibits_per_key(&self) -> u64 {
        self.millibits.into()
    }

    /// The false-positive rate to expect of such a filter of many keys, by the exact formula of its kind.
    ///
    /// A small filter may have a lower one, as its size is rounded up, and a Bloom filter of a few keys and many bits a
    /// higher one. [`Plan::expected_rate`](super::planning::Plan::expected_rate) is that of a number of keys.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        rate_of_many(self.kind, self.millibits)
    }
}

/// What to write after the name of a kind.
fn missing_budget(kind: FilterKind) -> &'static str {
    match kind {
        FilterKind::Empty | FilterKind::Full => NO_BUDGET_TAKEN,
        FilterKind::Bloom => "missing budget; try bloom:10 or bloom:fpr=0.01",
        FilterKind::BlockedBloom => "missing budget; try blocked-bloom:10 or blocked-bloom:fpr=0.01",
        FilterKind::SplitBlock => "missing budget; try split-block:10 or split-block:fpr=0.01",
        FilterKind::SplitBlock512 => "missing budget; try split-block-512:10 or split-block-512:fpr=0.01",
        FilterKind::Ribbon => "missing budget; try ribbon:7 or ribbon:fpr=0.01",
        FilterKind::BumpedRibbon => "missing budget; try bumped-ribbon:7 or bumped-ribbon:fpr=0.01",
        FilterKind::BinaryFuse => "missing budget; try binary-fuse:8 or binary-fuse:fpr=0.01",
    }
}

/// Why a kind has not every rate, and what to use in its place. A test compares the rates with the formulas.
fn lowest_rate(kind: FilterKind) -> &'static str {
    match kind {
        FilterKind::Empty | FilterKind::Full => NO_BUDGET_TAKEN,
        FilterKind::Bloom => "the lowest rate of bloom is 2.8e-11; use a higher rate",
        FilterKind::BlockedBloom => {
            "the lowest rate of blocked-bloom is 1.5e-9; use bumped-ribbon (down to 2.4e-10) or bloom (2.8e-11)"
        }
        FilterKind::SplitBlock => {
            "the lowest rate of split-block is 1.3e-7; use bumped-ribbon (down to 2.4e-10) or bloom (2.8e-11)"
        }
        FilterKind::SplitBlock512 => {
            "the lowest rate of split-block-512 is 2.7e-8; use bumped-ribbon (down to 2.4e-10) or bloom (2.8e-11)"
        }
        FilterKind::Ribbon | FilterKind::BumpedRibbon => {
            "the lowest rate of a ribbon is 2.4e-10; use bloom (down to 2.8e-11)"
        }
        FilterKind::BinaryFuse => {
            "the lowest rate of binary-fuse is 1.6e-5; use bumped-ribbon (down to 2.4e-10) or bloom (2.8e-11)"
        }
    }
}

fn rate_of_many(kind: FilterKind, millibits: u32) -> f64 {
    // Any number of keys will do that is large enough for the size to be no multiple of a granule.
    const KEYS: u64 = 512_000_000;
    match kind {
        FilterKind::Bloom => {
            let bits = KEYS / 1000 * u64::from(millibits);
            // Of the other kinds, what equal hashes add is less than they let through anyway, and whole columns and
            // fingerprints are to have whole powers of two.
            math::with_equal_hashes(math::bloom_rate(KEYS, bits, math::bloom_probes(millibits.into())), KEYS)
        }
        FilterKind::BlockedBloom => {
            let lines = KEYS / 1000 * u64::from(millibits) / math::LINE_BITS;
            math::blocked_bloom_rate(KEYS, lines, math::line_probes(millibits.into()))
        }
        // A column halves the rate; what else a ribbon takes depends on the number of keys and is small.
        FilterKind::SplitBlock => math::split_block_rate(KEYS, KEYS / 1000 * u64::from(millibits) / 256, 32),
        FilterKind::SplitBlock512 => math::split_block_rate(KEYS, KEYS / 1000 * u64::from(millibits) / 512, 64),
        // The rate goes by the width of the fingerprint, of which there are three.
        FilterKind::BinaryFuse => {
            let fitting = binary_fuse::WIDTHS.iter().rev().find(|&&width| width * 1000 <= millibits);
            fitting.map_or(1.0, |&width| (-f64::from(width)).exp2())
        }
        // Neither has more columns, whatever it is given.
        FilterKind::Ribbon | FilterKind::BumpedRibbon if millibits > ribbon::MAX_COLUMNS * 1000 => {
            (-f64::from(ribbon::MAX_COLUMNS)).exp2()
        }
        FilterKind::Ribbon | FilterKind::BumpedRibbon => (-f64::from(millibits) / 1000.0).exp2(),
        FilterKind::Empty | FilterKind::Full => 1.0,
    }
}

impl Default for FilterSpec {
    /// `blocked-bloom:10`: one cache line a query, 0.97 % false positives.
    fn default() -> Self {
        Self { kind: FilterKind::BlockedBloom, millibits: 10_000, rate: None, compact: false }
    }
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            _ if !self.kind.takes_budget() => write!(f, "{}", self.kind),
            Some(rate) => write!(f, "{}:fpr={rate}", self.kind),
            None => write!(f, "{}:{}", self.kind, f64::from(self.millibits) / 1000.0),
        }?;
        f.write_str(if self.compact { ":compact" } else { "" })
    }
}

impl FromStr for FilterSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason| Error::InvalidSpec { spec: text.to_owned(), reason };
        let named = |error| match error {
            Error::InvalidSpec { reason, .. } => Error::InvalidSpec { spec: text.to_owned(), reason },
            other => other,
        };
        if let Some(usual) = text.strip_suffix(":compact") {
            return usual.parse::<Self>().and_then(Self::compact).map_err(named);
        }
        if text == FilterKind::Full.name() {
            return Ok(Self::FULL);
        }
        let (name, budget) = text.split_once(':').unwrap_or((text, ""));
        let kind = FilterKind::from_name(name).ok_or_else(|| invalid(UNKNOWN_KIND))?;
        if budget.is_empty() {
            return Err(invalid(missing_budget(kind)));
        }
        let spec = match budget.strip_prefix("fpr=") {
            Some(rate) => Self::false_positive_rate(kind, rate.parse().map_err(|_| invalid(RATE_EXPECTED))?),
            None => Self::bits_per_key(kind, budget.parse().map_err(|_| invalid(BITS_EXPECTED))?),
        };
        spec.map_err(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_without_room_is_told_of() {
        struct NoRoom;
        impl fmt::Write for NoRoom {
            fn write_str(&mut self, _: &str) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        use fmt::Write as _;
        assert!(write!(NoRoom, "{}", "bloom:10".parse::<FilterSpec>().unwrap()).is_err());
    }

    #[test]
    fn specs_survive_their_text() {
        for text in [
            "bloom:10",
            "blocked-bloom:9.5",
            "bloom:fpr=0.01",
            "blocked-bloom:fpr=0.000001",
            "split-block:12",
            "split-block-512:fpr=0.001",
            "ribbon:7.5",
            "bumped-ribbon:fpr=0.01",
            "bumped-ribbon:8:compact",
            "binary-fuse:12",
            "full",
        ] {
            let spec: FilterSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn a_missing_budget_is_named_with_two_examples_that_parse() {
        let error = "bloom".parse::<FilterSpec>().unwrap_err();
        assert!(error.to_string().ends_with(": missing budget; try bloom:10 or bloom:fpr=0.01"), "{error}");
        for kind in FilterKind::ALL.into_iter().filter(|kind| kind.takes_budget()) {
            let (example, other) = missing_budget(kind).split_once("try ").unwrap().1.split_once(" or ").unwrap();
            for text in [example, other] {
                assert_eq!(text.parse::<FilterSpec>().unwrap().kind(), kind, "{text}");
            }
        }
    }

    #[test]
    fn impossible_budgets_are_refused() {
        for budget in
            ["0", "-1", "NaN", "inf", "1000000000", "0.5", "", "ten", "fpr=0", "fpr=1", "fpr=2", "fpr=NaN", "fpr=1e-30"]
        {
            for kind in ["bloom", "blocked-bloom", "split-block", "split-block-512"] {
                let text = format!("{kind}:{budget}");
                let error = text.parse::<FilterSpec>().unwrap_err();
                assert!(matches!(&error, Error::InvalidSpec { spec, .. } if *spec == text), "{error}");
            }
        }
        for text in ["", "bloom", "cuckoo:10", "empty:10", "full:10", ":", "bloom:10:10", "bloom:10:compact"] {
            assert!(text.parse::<FilterSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_below_that_of_all_columns_is_refused_and_not_promised() {
        for kind in ["ribbon", "bumped-ribbon"] {
            assert!(format!("{kind}:fpr=0.0000000003").parse::<FilterSpec>().is_ok(), "{kind}");
            assert!(format!("{kind}:fpr=0.0000000002").parse::<FilterSpec>().is_err(), "{kind}");
        }
        let most = FilterSpec::bits_per_key(FilterKind::BumpedRibbon, 100.0).unwrap();
        assert_eq!(most.expected_rate(), (-32.0f64).exp2());
    }

    #[test]
    fn refusals_name_the_lowest_rate_of_the_kind() {
        for kind in FilterKind::ALL.into_iter().filter(|kind| kind.takes_budget()) {
            let Err(Error::InvalidSpec { reason, .. }) = FilterSpec::false_positive_rate(kind, 1e-20) else {
                panic!("{kind}: 1e-20")
            };
            let named = reason.split_once(" is ").unwrap().1;
            let named: f64 = named.split(';').next().unwrap().parse().unwrap();
            let lowest = rate_of_many(kind, *MILLIBITS.end());
            // Rounded up to two digits, so that it can be had.
            assert!(named >= lowest && named < lowest * 1.1, "{kind}: {named:e} named, {lowest:e}");
            assert!(FilterSpec::false_positive_rate(kind, named).is_ok(), "{kind}: {named:e}");
        }
    }

    #[test]
    fn every_kind_tells_the_rate_to_expect_of_its_budget() {
        for (text, rate) in [
            ("bloom:10", 8.194e-3),
            ("blocked-bloom:10", 9.662e-3),
            // Putze, Sanders and Singler's formula with a Poisson load.
            ("split-block:10", 1.265e-2),
            ("split-block-512:10", 1.049e-2),
            ("ribbon:1", 0.5),
            ("ribbon:8", 2f64.powi(-8)),
            ("ribbon:32", 2f64.powi(-32)),
            ("bumped-ribbon:7.5", 2f64.powf(-7.5)),
            ("bumped-ribbon:33", 2f64.powi(-32)),
            ("binary-fuse:8", 2f64.powi(-8)),
            ("binary-fuse:12", 2f64.powi(-12)),
            ("binary-fuse:16", 2f64.powi(-16)),
            ("full", 1.0),
        ] {
            let found = text.parse::<FilterSpec>().unwrap().expected_rate();
            assert!((found / rate - 1.0).abs() < 1e-3, "{text}: {found} for {rate}");
        }
    }

    #[test]
    fn a_ribbon_takes_32_bits_at_most_and_other_kinds_a_hundred() {
        for (text, is_taken) in [
            ("ribbon:32", true),
            ("ribbon:32.001", false),
            ("bumped-ribbon:33", true),
            ("bloom:100", true),
            ("blocked-bloom:100", true),
            ("split-block:100", true),
            ("bloom:100.001", false),
            ("bloom:0.999", false),
            ("bloom:1", true),
            ("binary-fuse:9", false),
            ("binary-fuse:32", false),
        ] {
            assert_eq!(text.parse::<FilterSpec>().is_ok(), is_taken, "{text}");
        }
    }

    #[test]
    fn without_a_word_it_is_ten_bits_in_lines() {
        assert_eq!(FilterSpec::default().to_string(), "blocked-bloom:10");
    }

    #[test]
    fn another_kind_in_its_place_keeps_the_rate_or_else_the_bits() {
        let instead = |text: &str| text.parse::<FilterSpec>().unwrap().instead(FilterKind::BlockedBloom).to_string();
        assert_eq!(instead("bumped-ribbon:12.5:compact"), "blocked-bloom:12.5");
        assert_eq!(instead("ribbon:fpr=0.003"), "blocked-bloom:fpr=0.003");
        assert_eq!(instead("ribbon:fpr=0.000000001"), "bloom:fpr=0.000000001");
    }

    #[test]
    fn the_largest_filter_for_a_number_of_bits_has_no_more() {
        for (kind, bits, wanted) in [
            (FilterKind::Bloom, 9.5, Some("bloom:9.5")),
            (FilterKind::Bloom, 0.9, None),
            (FilterKind::BinaryFuse, 7.9, None),
            (FilterKind::BinaryFuse, 8.0, Some("binary-fuse:8")),
            (FilterKind::BinaryFuse, 11.9, Some("binary-fuse:8")),
            (FilterKind::BinaryFuse, 12.0, Some("binary-fuse:12")),
            (FilterKind::BinaryFuse, 50.0, Some("binary-fuse:16")),
        ] {
            let found = FilterSpec::at_most(kind, bits).map(|spec| spec.to_string());
            assert_eq!(found.as_deref(), wanted, "{kind:?} {bits}");
        }
    }

    #[test]
    fn a_rate_becomes_the_least_size_that_reaches_it() {
        let bits = |text: &str| text.parse::<FilterSpec>().unwrap().millibits_per_key();
        assert_eq!(bits("bloom:fpr=0.01"), 9_593);
        assert_eq!(bits("blocked-bloom:fpr=0.0097"), 9_992);
    }
}
