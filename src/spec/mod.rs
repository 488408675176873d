//! Specifies a filter by its kind and its budget.

mod parse;
mod ranges;

use std::fmt;

use crate::error::{Error, Result};
use crate::filters::{Budget, Budgets, FilterKind, math, range_rate};

const EMPTY_TAKES_NO_SPEC: &str =
    "the kind empty cannot be requested, because the builder chooses it if no key is added; try bloom:10";
const ALWAYS_MAYBE_TAKES_NO_BUDGET: &str =
    "always-maybe takes no budget; try always-maybe, or bloom:10 for a filter with a budget";
const ONLY_BUMPED_RIBBON: &str = "only bumped-ribbon takes :compact; try bumped-ribbon:8:compact";

/// The kind of a filter and its budget: either bits per key or a false-positive rate (FPR). The
/// kind `always-maybe` takes no budget.
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
    budget: Budget,
}

impl FilterSpec {
    /// The always-maybe filter. It answers "maybe" for every key, and its payload is empty.
    pub const ALWAYS_MAYBE: Self = Self { kind: FilterKind::AlwaysMaybe, budget: Budget::of_millibits(0) };

    /// `blocked-bloom:16`: one cache line per query, FPR 0.08 %.
    pub const LARGE: Self = Self { kind: FilterKind::BlockedBloom, budget: Budget::of_millibits(16_000) };

    /// `bumped-ribbon:8`: about three cache lines per query, FPR 0.39 %, 8.1 bits per key with
    /// 10,000 keys.
    pub const SMALL: Self = Self { kind: FilterKind::BumpedRibbon, budget: Budget::of_millibits(8_000) };

    /// Returns the specification of a filter with `bits_per_key` bits for each distinct key,
    /// rounded to a thousandth of a bit.
    ///
    /// For a binary fuse filter, `bits_per_key` is the width of a fingerprint: 8, 12 or 16 bits.
    /// With a million keys, the filter takes 14 % more space than one fingerprint per key.
    /// [`Plan`](crate::planning::Plan) computes the size for a number of keys.
    ///
    /// Two kinds may use fewer bits than the budget. A bumped ribbon of a million keys uses at most
    /// 32.1 bits per key. The codes of a range filter have at most 56 bits, so a range filter of a
    /// million keys uses at most 38.1 bits per key.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the kind does not take this budget. A binary fuse filter takes
    /// 8, 12 or 16 bits per key, a standard ribbon 1 to 32, and a range filter (`grafite`) 1 to 50.
    /// The kinds `empty` and `always-maybe` take no budget. Every other kind takes 1 to 100 bits
    /// per key.
    pub fn bits_per_key(kind: FilterKind, bits_per_key: f64) -> Result<Self> {
        let millibits = (bits_per_key * 1000.0).round();
        if !kind.info().budgets.take(millibits) {
            return Err(Error::invalid("filter", format!("{kind}:{bits_per_key}"), bits_expected(kind)));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in MILLIBITS")]
        let millibits = millibits as u32;
        Ok(Self { kind, budget: Budget::of_millibits(millibits) })
    }

    /// Returns the specification of the largest filter of a kind with at most `bits_per_key` bits
    /// per key, rounded to a thousandth of a bit. Returns `None` if the smallest filter of the kind
    /// is larger, or if the kind takes no budget. For a kind without fixed widths, also returns
    /// `None` if `bits_per_key` exceeds the largest budget of the kind.
    pub(crate) fn at_most(kind: FilterKind, bits_per_key: f64) -> Option<Self> {
        let offered = match kind.info().budgets {
            Budgets::Widths(widths) => {
                widths.iter().map(|&width| f64::from(width)).rfind(|&width| width <= bits_per_key)?
            }
            Budgets::None | Budgets::UpTo(_) => bits_per_key,
        };
        Self::bits_per_key(kind, offered).ok()
    }

    /// Returns the specification of a kind with the lowest FPR that the kind supports, or `None` if
    /// the kind takes no budget.
    #[must_use]
    pub fn of_lowest_fpr(kind: FilterKind) -> Option<Self> {
        let most = match kind.info().budgets {
            Budgets::None => return None,
            Budgets::UpTo(millibits) => f64::from(millibits) / 1000.0,
            Budgets::Widths(widths) => f64::from(*widths.last()?),
        };
        Self::bits_per_key(kind, most).ok()
    }

    /// Returns the specification of the smallest filter with an expected FPR of at most `rate`. The
    /// exact formula of the kind for many keys gives the expected FPR.
    ///
    /// A filter of a few keys may exceed `rate`. To compute the expected FPR for a number of keys,
    /// use [`Plan::expected_fpr`](crate::planning::Plan::expected_fpr).
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the kind takes no budget, if `rate` is not above 0 and below
    /// 1, or if no budget of the kind reaches `rate`. In the last case, the error names the lowest
    /// rate that the kind reaches.
    pub fn false_positive_rate(kind: FilterKind, rate: f64) -> Result<Self> {
        check_rate(kind, rate)?;
        let too_low = || Error::invalid("filter", format!("{kind}:fpr={rate}"), kind.info().lowest_rate);
        Ok(Self { kind, budget: kind.budget_of_rate(rate).ok_or_else(too_low)? })
    }

    /// Checks that a filter of `num_keys` keys can have the requested FPR at all.
    pub(crate) fn check_keys(&self, num_keys: u64) -> Result<()> {
        if self.is_for_ranges() {
            return self.check_codes(num_keys);
        }
        if self.budget.rate.is_none_or(|rate| math::equal_hash(num_keys) <= rate) {
            return Ok(());
        }
        Err(Error::invalid("filter", format!("{self} for {num_keys} keys"), EQUAL_HASHES))
    }

    /// Returns the specification with `:compact`. A filter of many keys takes slightly less space
    /// (under 0.1 %). The build takes more time and memory, and queries take slightly more time.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the kind is not a bumped ribbon.
    pub fn compact(self) -> Result<Self> {
        if !self.kind.info().has_compact_build {
            return Err(Error::invalid("filter", format!("{self}:compact"), ONLY_BUMPED_RIBBON));
        }
        Ok(Self { budget: Budget { compact: true, ..self.budget }, ..self })
    }

    /// Returns the kind of filter.
    #[must_use]
    pub fn kind(&self) -> FilterKind {
        self.kind
    }

    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns the budget in thousandths of a bit per distinct key. For a budget given as an FPR,
    /// the result is the smallest number that reaches the FPR by the formula for many keys. For
    /// [`FilterSpec::ALWAYS_MAYBE`], the result is 0.
    #[must_use]
    pub fn millibits_per_key(&self) -> u64 {
        self.budget.millibits.into()
    }

    /// Returns the expected FPR of a filter of this specification with many keys.
    ///
    /// A filter of a few keys may have a lower or a higher FPR. A ribbon with a budget in bits
    /// usually has a higher FPR, because the formula does not count spare slots and bumped keys.
    /// [`Plan::expected_fpr`](crate::planning::Plan::expected_fpr) returns the expected FPR for a
    /// number of keys.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        match self.budget.range_len {
            0 => self.kind.rate_of_many(self.budget.millibits),
            range_len => range_rate(range_len, self.budget.millibits),
        }
    }
}

/// The reason for refusing an FPR that no filter of the given number of keys reaches, even with
/// more bits.
pub(crate) const EQUAL_HASHES: &str = "hashes have 64 bits, so a filter of n keys has a false-positive rate of at least \
                                       n / 2^64; use a higher FPR, or filters of fewer keys";

/// Returns the error of a filter of `spec` that does not fit in memory.
pub(crate) fn no_memory(spec: FilterSpec) -> Error {
    Error::invalid(
        "filter",
        spec,
        "too large for this machine's memory; use fewer bits per key or a higher FPR, or filters of fewer keys",
    )
}

/// Returns the reason for refusing a kind without a budget, or a budget for a kind that takes none.
fn missing_budget(kind: FilterKind) -> String {
    match kind {
        FilterKind::Empty => EMPTY_TAKES_NO_SPEC.to_owned(),
        _ if !kind.takes_budget() => ALWAYS_MAYBE_TAKES_NO_BUDGET.to_owned(),
        _ => format!("missing budget; try {kind}:{} or {kind}:fpr=0.01", kind.info().example_bits),
    }
}

impl Default for FilterSpec {
    /// Returns `blocked-bloom:10`: one cache line per query, FPR 0.97 %.
    fn default() -> Self {
        Self { kind: FilterKind::BlockedBloom, budget: Budget::of_millibits(10_000) }
    }
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.budget.range_len > 0 {
            write!(f, ":L={}", self.budget.range_len)?;
        }
        match self.budget.rate {
            _ if !self.kind.takes_budget() => Ok(()),
            Some(rate) => write!(f, ":fpr={rate}"),
            None => write!(f, ":{}", f64::from(self.budget.millibits) / 1000.0),
        }?;
        f.write_str(if self.budget.compact { ":compact" } else { "" })
    }
}

/// Returns the reason for refusing a number of bits per key.
fn bits_expected(kind: FilterKind) -> String {
    let info = kind.info();
    let range = match info.budgets {
        Budgets::None => return missing_budget(kind),
        Budgets::UpTo(millibits) => format!("from 1 to {}", millibits / 1000),
        Budgets::Widths(widths) => {
            let widths: Vec<String> = widths.iter().map(u32::to_string).collect();
            match widths.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => return missing_budget(kind),
            }
        }
    };
    format!("bits per key must be {range}; try {kind}:{}", info.example_bits)
}

/// Checks that a kind takes a budget, and that `rate` is above 0 and below 1.
fn check_rate(kind: FilterKind, rate: f64) -> Result<()> {
    // NaN fails both comparisons.
    if rate > 0.0 && rate < 1.0 && kind.takes_budget() {
        return Ok(());
    }
    Err(Error::invalid("filter", format!("{kind}:fpr={rate}"), rate_expected(kind)))
}

/// Returns the reason for refusing a false-positive rate.
fn rate_expected(kind: FilterKind) -> String {
    if !kind.takes_budget() {
        return missing_budget(kind);
    }
    format!("the false-positive rate must be a number above 0 and below 1; try {kind}:fpr=0.01")
}

/// Returns the reason for refusing the name of a kind. If a kind has a similar name, the reason
/// suggests it.
fn unknown_kind(name: &str) -> String {
    let kinds = FilterKind::ALL.into_iter().filter(|kind| kind.takes_budget() || *kind == FilterKind::AlwaysMaybe);
    let nearest = kinds.map(|kind| (edit_distance(name, kind.name()), kind)).min_by_key(|&(distance, _)| distance);
    match nearest {
        Some((1 | 2, kind)) => format!("unknown kind {name:?}; did you mean {kind}?"),
        _ => format!("unknown kind {name:?}; try bloom:10, blocked-bloom:10 or bumped-ribbon:8"),
    }
}

/// Returns the Levenshtein distance of two texts, in bytes.
fn edit_distance(one: &str, other: &str) -> usize {
    let mut costs: Vec<usize> = (1..=other.len()).collect();
    for (i, byte) in one.bytes().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (cost, other) in costs.iter_mut().zip(other.bytes()) {
            let least = (diagonal + usize::from(byte != other)).min(left + 1).min(*cost + 1);
            (diagonal, left) = (*cost, least);
            *cost = least;
        }
    }
    costs.last().copied().unwrap_or(one.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::MILLIBITS;

    #[test]
    fn display_returns_the_error_of_its_writer() {
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
    fn specs_survive_a_round_trip_through_text() {
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
            "grafite:12.7",
            "grafite:fpr=0.01",
            "grafite:L=1024:fpr=0.01",
            "grafite:L=16:12.7",
            "always-maybe",
        ] {
            let spec: FilterSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn a_missing_budget_error_gives_two_valid_examples() {
        let error = "bloom".parse::<FilterSpec>().unwrap_err();
        assert!(error.to_string().ends_with(": missing budget; try bloom:10 or bloom:fpr=0.01"), "{error}");
        for kind in FilterKind::ALL.into_iter().filter(|kind| kind.takes_budget()) {
            let reason = missing_budget(kind);
            let (example, other) = reason.split_once("try ").unwrap().1.split_once(" or ").unwrap();
            for text in [example, other] {
                assert_eq!(text.parse::<FilterSpec>().unwrap().kind(), kind, "{text}");
            }
        }
    }

    #[test]
    fn an_unknown_kind_is_answered_with_a_similar_one() {
        for (text, reason) in [
            ("blom:10", "unknown kind \"blom\"; did you mean bloom?"),
            ("bumped-ribon", "unknown kind \"bumped-ribon\"; did you mean bumped-ribbon?"),
            ("always-mabe", "unknown kind \"always-mabe\"; did you mean always-maybe?"),
            ("cuckoo:8", "unknown kind \"cuckoo\"; try bloom:10, blocked-bloom:10 or bumped-ribbon:8"),
            ("binary-fuse:9", "bits per key must be 8, 12 or 16; try binary-fuse:8"),
            ("ribbon:33", "bits per key must be from 1 to 32; try ribbon:7"),
            ("bloom:fpr=2", "the false-positive rate must be a number above 0 and below 1; try bloom:fpr=0.01"),
        ] {
            let error = text.parse::<FilterSpec>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid filter {text:?}: {reason}"));
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
                assert!(matches!(&error, Error::Invalid { what: "filter", given, .. } if *given == text), "{error}");
            }
        }
        for text in ["", "bloom", "cuckoo:10", "empty:10", "always-maybe:10", ":", "bloom:10:10", "bloom:10:compact"] {
            assert!(text.parse::<FilterSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_repeated_part_is_refused_by_its_name() {
        const COMPACT_TWICE: &str = "compact is given twice; give it once, as in bumped-ribbon:8:compact";
        for (text, reason) in [
            ("bumped-ribbon:8:compact:compact", COMPACT_TWICE),
            ("bumped-ribbon:8:compact:compact:compact", COMPACT_TWICE),
            ("bumped-ribbon:compact:8:compact", "compact comes after the budget; try bumped-ribbon:8:compact"),
            ("bumped-ribbon:8:compact:9", "it has two budgets, 8 and 9; give one budget"),
            ("bloom:10:10", "it has two budgets, 10 and 10; give one budget"),
            ("bloom:10:fpr=0.01", "it has two budgets, 10 and fpr=0.01; give one budget"),
            ("grafite:L=16:12:fpr=0.01", "it has two budgets, 12 and fpr=0.01; give one budget"),
            ("bloom:10:compact:compact", ONLY_BUMPED_RIBBON),
            ("bloom:compact:10", ONLY_BUMPED_RIBBON),
            ("bloom:10:", "bits per key must be from 1 to 100; try bloom:10"),
            ("always-maybe:10:10", ALWAYS_MAYBE_TAKES_NO_BUDGET),
        ] {
            let error = text.parse::<FilterSpec>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid filter {text:?}: {reason}"));
        }
        // A text from a damaged or hostile file must not overflow the stack.
        assert!(format!("bumped-ribbon:8{}", ":compact".repeat(100_000)).parse::<FilterSpec>().is_err());
    }

    #[test]
    fn a_rate_below_the_rate_of_all_columns_is_refused() {
        for kind in ["ribbon", "bumped-ribbon"] {
            assert!(format!("{kind}:fpr=0.0000000003").parse::<FilterSpec>().is_ok(), "{kind}");
            assert!(format!("{kind}:fpr=0.0000000002").parse::<FilterSpec>().is_err(), "{kind}");
        }
        let most = FilterSpec::bits_per_key(FilterKind::BumpedRibbon, 100.0).unwrap();
        assert_eq!(most.expected_fpr(), (-32.0f64).exp2());
    }

    #[test]
    fn refusals_name_the_lowest_rate_of_the_kind() {
        for kind in FilterKind::ALL.into_iter().filter(|kind| kind.takes_budget()) {
            let Err(Error::Invalid { what: "filter", reason, .. }) = FilterSpec::false_positive_rate(kind, 1e-20)
            else {
                panic!("{kind}: 1e-20")
            };
            let named = reason.split_once(" is ").unwrap().1;
            let named: f64 = named.split([',', ':']).next().unwrap().parse().unwrap();
            let lowest = kind.rate_of_many(*MILLIBITS.end());
            // The named rate is rounded up to two digits, so that the kind reaches it.
            assert!(named >= lowest && named < lowest * 1.1, "{kind}: {named:e} named, {lowest:e}");
            assert!(FilterSpec::false_positive_rate(kind, named).is_ok(), "{kind}: {named:e}");
        }
    }

    #[test]
    fn every_kind_returns_the_expected_rate_of_its_budget() {
        for (text, rate) in [
            ("bloom:10", 8.194e-3),
            ("blocked-bloom:10", 9.662e-3),
            // The FPRs of split blocks come from the formula of Putze, Sanders and Singler with a
            // Poisson load.
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
            ("always-maybe", 1.0),
        ] {
            let found = text.parse::<FilterSpec>().unwrap().expected_fpr();
            assert!((found / rate - 1.0).abs() < 1e-3, "{text}: {found} for {rate}");
        }
    }

    #[test]
    fn a_ribbon_takes_at_most_32_bits_and_bloom_kinds_100() {
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
    fn the_default_is_a_blocked_bloom_filter_of_ten_bits() {
        assert_eq!(FilterSpec::default().to_string(), "blocked-bloom:10");
    }

    #[test]
    fn at_most_returns_no_more_bits_than_asked_for() {
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
    fn a_rate_gives_the_smallest_filter_that_reaches_it() {
        let bits = |text: &str| text.parse::<FilterSpec>().unwrap().millibits_per_key();
        assert_eq!(bits("bloom:fpr=0.01"), 9_593);
        assert_eq!(bits("blocked-bloom:fpr=0.0097"), 9_992);
    }
}
