//! Specifies a filter by its kind and its budget, and parses the text form of a specification:
//! `KIND[:L=LEN]:BUDGET[:compact]`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::filters::{Budget, Budgets, FilterKind, MAX_RANGE_LEN, MILLIBITS, math, max_keys_of_rate, range_rate};

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
pub const EQUAL_HASHES: &str = "hashes have 64 bits, so a filter of n keys has a false-positive rate of at least \
                                       n / 2^64; use a higher FPR, or filters of fewer keys";

pub(crate) fn no_memory(spec: FilterSpec) -> Error {
    Error::invalid(
        "filter",
        spec,
        "too large for this machine's memory; use fewer bits per key or a higher FPR, or filters of fewer keys",
    )
}

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

const ONLY_GRAFITE: &str = "only range filters take a range length; try grafite:L=1024:fpr=0.01";
const RANGE_LEN_EXPECTED: &str = "the range length must be a whole number from 1 to 2^40; try grafite:L=1024:fpr=0.01";
/// The reason for refusing an FPR that a range filter of the given number of keys cannot have.
const TOO_MANY_CODES: &str = "the codes of a range filter have 56 bits, so the number of keys times the range length \
                              (16 without L) is at most 2^56 times the FPR; use a higher FPR, a smaller L, or \
                              filters of fewer keys";

impl FilterSpec {
    /// Returns the specification of a range filter for ranges of at most `range_len` integers. Keys
    /// of a fixed length count as big-endian integers. The budget (bits per key or an FPR) then
    /// applies to ranges of this length. The text form is `grafite:L=1024:fpr=0.01`.
    ///
    /// The FPR holds for keys that have at most 15 bytes after a common prefix. A filter drops
    /// further bytes, so ranges directly beside a longer key may always get "maybe".
    ///
    /// [`FilterSpec::false_positive_rate`] refuses an FPR below 6.1e-14. Parse the text form for a
    /// lower FPR, which ranges of fewer than 16 integers can have.
    ///
    /// Without a range length, a range filter suits short scans, such as a scan from one key of the
    /// store to the next. It adapts to the distances between the keys.
    ///
    /// ```
    /// use filterblock::FilterSpec;
    /// let spec: FilterSpec = "grafite:fpr=0.01".parse()?;
    /// assert_eq!(spec.with_range_len(1024)?, "grafite:L=1024:fpr=0.01".parse()?);
    /// # Ok::<(), filterblock::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the kind is not [`FilterKind::Grafite`], if `range_len` is 0
    /// or more than 2^40, or if no budget reaches the FPR.
    pub fn with_range_len(self, range_len: u64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{self} with L={range_len}"), reason);
        if !self.is_for_ranges() {
            return Err(invalid(ONLY_GRAFITE));
        }
        if !(1..=MAX_RANGE_LEN).contains(&range_len) {
            return Err(invalid(RANGE_LEN_EXPECTED));
        }
        let millibits = match self.budget.rate {
            None => Some(self.budget.millibits),
            Some(rate) => math::least_millibits(rate, MILLIBITS, |millibits| range_rate(range_len, millibits)),
        };
        let reason = "no filter for ranges of this length has such a low FPR; use a higher FPR, or shorter ranges";
        let millibits = millibits.ok_or_else(|| invalid(reason))?;
        Ok(Self { budget: Budget { range_len, millibits, ..self.budget }, ..self })
    }

    /// Returns the specification of a range filter with the FPR `rate` for ranges of at most
    /// `range_len` integers. A kind that is not for ranges is an error.
    ///
    /// A scan has 16 cells, so a short range can have a lower FPR than
    /// [`FilterSpec::false_positive_rate`] accepts.
    fn of_range_rate(kind: FilterKind, rate: f64, range_len: u64) -> Result<Self> {
        check_rate(kind, rate)?;
        // `with_range_len` computes the bits from the rate.
        let bits = Budget::of_millibits(*MILLIBITS.start());
        Self { kind, budget: Budget { rate: Some(rate), ..bits } }.with_range_len(range_len)
    }

    pub(crate) fn is_for_ranges(self) -> bool {
        self.kind.info().is_of_ranges
    }

    /// Checks that a range filter of `num_keys` keys can have the requested FPR with codes of 56
    /// bits.
    fn check_codes(&self, num_keys: u64) -> Result<()> {
        if num_keys as f64 <= max_keys_of_rate(self.budget) {
            return Ok(());
        }
        Err(Error::invalid("filter", format!("{self} for {num_keys} keys"), TOO_MANY_CODES))
    }
}

const COMPACT_TWICE: &str = "compact is given twice; give it once, as in bumped-ribbon:8:compact";
const COMPACT_COMES_LAST: &str = "compact comes after the budget; try bumped-ribbon:8:compact";
const RANGE_LEN_TWICE: &str = "the range length is given twice; give it once, as in grafite:L=1024:fpr=0.01";
const RANGE_LEN_COMES_FIRST: &str = "the range length comes before the budget; try grafite:L=1024:fpr=0.01";

impl FromStr for FilterSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason: String| Error::invalid("filter", text, reason);
        let named = |error| match error {
            Error::Invalid { reason, .. } => Error::invalid("filter", text, reason),
            other => other,
        };
        if let Some(usual) = text.strip_suffix(":compact") {
            // This check also limits the recursion to one level.
            if usual.ends_with(":compact") {
                let name = text.split(':').next().unwrap_or_default();
                let has_compact = FilterKind::from_name(name).is_none_or(|kind| kind.info().has_compact_build);
                return Err(invalid(if has_compact { COMPACT_TWICE } else { ONLY_BUMPED_RIBBON }.to_owned()));
            }
            return usual.parse::<Self>().and_then(Self::compact).map_err(named);
        }
        if text == FilterKind::AlwaysMaybe.name() {
            return Ok(Self::ALWAYS_MAYBE);
        }
        let (name, parts) = text.split_once(':').unwrap_or((text, ""));
        let kind = FilterKind::from_name(name).ok_or_else(|| invalid(unknown_kind(name)))?;
        let (range_len, budget) = match parts.strip_prefix("L=") {
            None => (None, parts),
            Some(rest) => {
                let (len, budget) = rest.split_once(':').unwrap_or((rest, ""));
                (Some(len.parse().map_err(|_| invalid(RANGE_LEN_EXPECTED.to_owned()))?), budget)
            }
        };
        if budget.is_empty() {
            return Err(invalid(missing_budget(kind)));
        }
        if let Some(reason) = excess(kind, range_len.is_some(), budget) {
            return Err(invalid(reason));
        }
        let rate = budget.strip_prefix("fpr=").map(|rate| rate.parse().map_err(|_| invalid(rate_expected(kind))));
        let spec = match (rate.transpose()?, range_len) {
            (Some(rate), None) => Self::false_positive_rate(kind, rate),
            (Some(rate), Some(range_len)) => Self::of_range_rate(kind, rate, range_len),
            (None, range_len) => {
                let spec = Self::bits_per_key(kind, budget.parse().map_err(|_| invalid(bits_expected(kind)))?);
                spec.and_then(|spec| range_len.map_or(Ok(spec), |range_len| spec.with_range_len(range_len)))
            }
        };
        spec.map_err(named)
    }
}

/// Returns the reason for refusing a budget that has parts besides one number. Returns `None` if
/// another check refuses the budget, or if there is nothing to refuse.
fn excess(kind: FilterKind, has_range_len: bool, budget: &str) -> Option<String> {
    let parts = || budget.split(':');
    if !kind.takes_budget() || parts().any(str::is_empty) {
        return None;
    }
    if parts().any(|part| part.starts_with("L=")) {
        let reason = if has_range_len { RANGE_LEN_TWICE } else { RANGE_LEN_COMES_FIRST };
        return Some(if kind.info().is_of_ranges { reason } else { ONLY_GRAFITE }.to_owned());
    }
    let mut budgets = parts().filter(|&part| part != "compact");
    match (budgets.next(), budgets.next()) {
        (Some(one), Some(other)) => Some(format!("it has two budgets, {one} and {other}; give one budget")),
        _ if parts().all(|part| part != "compact") => None,
        _ if kind.info().has_compact_build => Some(COMPACT_COMES_LAST.to_owned()),
        _ => Some(ONLY_BUMPED_RIBBON.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
