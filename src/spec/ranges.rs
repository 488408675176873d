//! Sets and checks the range length of a specification, as in `grafite:L=1024:fpr=0.01`.

use super::{FilterSpec, check_rate};
use crate::error::{Error, Result};
use crate::filters::{Budget, FilterKind, MAX_RANGE_LEN, MILLIBITS, math, max_keys_of_rate, range_rate};

pub(super) const ONLY_GRAFITE: &str = "only range filters take a range length; try grafite:L=1024:fpr=0.01";
pub(super) const RANGE_LEN_EXPECTED: &str =
    "the range length must be a whole number from 1 to 2^40; try grafite:L=1024:fpr=0.01";
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
    pub(super) fn of_range_rate(kind: FilterKind, rate: f64, range_len: u64) -> Result<Self> {
        check_rate(kind, rate)?;
        // `with_range_len` computes the bits from the rate.
        let bits = Budget::of_millibits(*MILLIBITS.start());
        Self { kind, budget: Budget { rate: Some(rate), ..bits } }.with_range_len(range_len)
    }

    /// Returns whether a filter of this specification answers for ranges of keys.
    pub(crate) fn is_for_ranges(self) -> bool {
        self.kind.info().is_of_ranges
    }

    /// Checks that a range filter of `num_keys` keys can have the requested FPR with codes of 56
    /// bits.
    pub(super) fn check_codes(&self, num_keys: u64) -> Result<()> {
        if num_keys as f64 <= max_keys_of_rate(self.budget) {
            return Ok(());
        }
        Err(Error::invalid("filter", format!("{self} for {num_keys} keys"), TOO_MANY_CODES))
    }
}
