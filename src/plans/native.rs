//! Plans the filters that this crate builds, by the formulas that the builders use.

use super::check_keys_and_rate;
use crate::error::{Error, Result};
use crate::filters::{Budgets, FilterKind, MILLIBITS, Planned};
use crate::spec::FilterSpec;

/// The maximum number of keys of a plan. Even with 100 bits per key, the number of bits then fits
/// in a `u64`.
pub const MAX_KEYS: u64 = 1 << 56;

/// The reason for refusing a plan of more than [`MAX_KEYS`] keys.
pub const TOO_MANY_KEYS: &str = "a plan takes at most 2^56 keys; plan for fewer keys";

/// The planned size, FPR and query cost of a filter.
///
/// ```
/// use filterblock::{FilterKind, FilterSpec, planning::Plan};
///
/// let plan = Plan::new("bloom:fpr=0.01".parse()?, 1_000_000)?;
/// assert_eq!(plan.payload_len_bytes(), 1_199_128);
/// // The best filter that fits in 1 MiB: 8.388 bits per key.
/// let plan = Plan::largest(FilterKind::Bloom, 1_000_000, 1 << 20)?.expect("1 MiB holds the smallest filter");
/// assert!((plan.expected_fpr() - 0.0178).abs() < 0.0001);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    spec: FilterSpec,
    num_keys: u64,
    planned: Planned,
}

impl Plan {
    /// Plans a filter of `spec` for `num_keys` keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if there are no keys or more than [`MAX_KEYS`]. Returns the same
    /// error if the kind cannot hold this number of keys, or cannot reach the FPR with this number.
    pub fn new(spec: FilterSpec, num_keys: u64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{spec} for {num_keys} keys"), reason);
        // The FPR of a specification was checked when the specification was made.
        check_keys_and_rate(num_keys, 0.5).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_MANY_KEYS));
        }
        spec.check_keys(num_keys)?;
        let planned = spec.kind().plan(spec.budget(), num_keys).map_err(invalid)?;
        Ok(Self { spec, num_keys, planned })
    }

    /// Plans the filter of `kind` that has the lowest FPR in a payload of at most `max_len_bytes`.
    /// Returns `None` if even the smallest filter does not fit.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::new`], and [`Error::Invalid`] if the kind takes no budget.
    pub fn largest(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<Option<Self>> {
        let plan = |bits_per_key| Self::new(FilterSpec::bits_per_key(kind, bits_per_key)?, num_keys);
        let fits = |plan: &Self| plan.payload_len_bytes() <= max_len_bytes;
        let most = match kind.info().budgets {
            Budgets::Widths(widths) => {
                let plans = widths.iter().map(|&width| plan(f64::from(width))).collect::<Result<Vec<_>>>()?;
                return Ok(plans.into_iter().rfind(fits));
            }
            Budgets::UpTo(most) => most,
            Budgets::None => {
                let reason = "this kind takes no budget, so it has no largest filter; try blocked-bloom";
                return Err(Error::invalid("filter kind", kind, reason));
            }
        };
        let of_millibits = |millibits: u32| plan(f64::from(millibits) / 1000.0);
        let (mut low, mut high) = (*MILLIBITS.start(), most);
        let mut best = Some(of_millibits(low)?).filter(fits);
        // Sizes grow with the budget.
        while best.is_some() && low < high {
            let middle = low + (high - low).div_ceil(2);
            let found = of_millibits(middle)?;
            if fits(&found) {
                (low, best) = (middle, Some(found));
            } else {
                high = middle - 1;
            }
        }
        Ok(best)
    }

    /// Returns the specification of the planned filter.
    #[must_use]
    pub fn spec(&self) -> FilterSpec {
        self.spec
    }

    /// Returns the number of distinct keys.
    #[must_use]
    pub fn num_keys(&self) -> u64 {
        self.num_keys
    }

    /// Returns the length of the payload in bytes, without checksums and trailer.
    ///
    /// The number is exact for Bloom filters. It is an estimate for ribbons, binary fuse filters
    /// and range filters, because their sizes also depend on the keys themselves. For a range
    /// filter, the plan omits the mapping, which usually takes at most a few hundred bytes.
    #[must_use]
    pub fn payload_len_bytes(&self) -> u64 {
        self.planned.len_bytes
    }

    /// Returns the length in bytes of the kind's own record in the extension of the filter block,
    /// or 0 if there is no such record. The record of the built filter may have another length.
    #[must_use]
    pub fn record_len_bytes(&self) -> usize {
        self.planned.record_len_bytes
    }

    /// Returns the payload bits per key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.planned.len_bytes as f64 * 8.0 / self.num_keys as f64
    }

    /// Returns the expected FPR: the share of absent keys for which the filter answers "maybe", by
    /// the exact formula of the kind. For a range filter, it is an upper bound for ranges of the
    /// length that the filter is planned for.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.planned.rate
    }

    /// Returns the maximum number of bits that a query tests: probes of a Bloom filter, columns of
    /// a ribbon, bits of a fingerprint. It is 0 for filters without such bits.
    #[must_use]
    pub fn probes(&self) -> u32 {
        self.planned.probes
    }

    /// Returns the mean number of cache lines of 64 bytes that a query of an absent key reads.
    /// Neighbouring lines count separately.
    #[must_use]
    pub fn lines_if_absent(&self) -> f64 {
        self.planned.lines_if_absent
    }

    /// Returns the mean number of cache lines that a query of a present key reads.
    #[must_use]
    pub fn lines_if_present(&self) -> f64 {
        self.planned.lines_if_present
    }
}

/// Returns the lowest FPR of a kind for `num_keys` keys in a payload of `max_len_bytes`. Returns 1
/// if no filter fits.
///
/// # Errors
/// Returns the errors of [`Plan::largest`].
pub fn lowest_fpr_in(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<f64> {
    Ok(Plan::largest(kind, num_keys, max_len_bytes)?.map_or(1.0, |plan| plan.expected_fpr()))
}
