//! Plans of the filters that this crate builds, each by the formulas that its builder goes by.

use super::{TOO_LARGE, check_keys_and_rate};
use crate::error::{Error, Result};
use crate::kinds::{Budgets, FilterKind, MILLIBITS, Planned};
use crate::spec::FilterSpec;

/// Plans are made for so many keys at most: with a hundred bits for each, sizes fit 64 bits.
pub const MAX_KEYS: u64 = 1 << 56;

/// What a filter of a specification over so many keys will be.
///
/// ```
/// use filterblock::{FilterKind, FilterSpec, planning::Plan};
///
/// let plan = Plan::new("bloom:fpr=0.01".parse()?, 1_000_000)?;
/// assert_eq!(plan.payload_len_bytes(), 1_199_128);
/// // All that fits in a megabyte: 8.388 bits a key.
/// let plan = Plan::largest(FilterKind::Bloom, 1_000_000, 1 << 20)?.expect("more than a bit for each key");
/// assert!((plan.expected_rate() - 0.0178).abs() < 0.0001);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    spec: FilterSpec,
    num_keys: u64,
    planned: Planned,
}

impl Plan {
    /// Plans a filter.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there are no keys, more than [`MAX_KEYS`], or more than a filter of the kind can hold or
    /// can have the rate with.
    pub fn new(spec: FilterSpec, num_keys: u64) -> Result<Self> {
        let invalid = |reason| Error::invalid("filter", format!("{spec} for {num_keys} keys"), reason);
        // Of a specification the rate was checked when it was made.
        check_keys_and_rate(num_keys, 0.5).map_err(invalid)?;
        if num_keys > MAX_KEYS {
            return Err(invalid(TOO_LARGE));
        }
        spec.check_keys(num_keys)?;
        let planned = spec.kind().plan(spec.budget(), num_keys).map_err(invalid)?;
        Ok(Self { spec, num_keys, planned })
    }

    /// The filter of a kind with the lowest rate whose payload has `max_len_bytes` at most; `None` where the smallest is
    /// larger than that.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`Plan::new`], and where the kind takes no budget.
    pub fn largest(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<Option<Self>> {
        let plan = |bits_per_key| Self::new(FilterSpec::bits_per_key(kind, bits_per_key)?, num_keys);
        let fits = |plan: &Self| plan.payload_len_bytes() <= max_len_bytes;
        let most = match kind.budgets() {
            Budgets::Widths(widths) => {
                let plans = widths.iter().map(|&width| plan(f64::from(width))).collect::<Result<Vec<_>>>()?;
                return Ok(plans.into_iter().rfind(fits));
            }
            Budgets::UpTo(most) => most,
            // The first plan is the error.
            Budgets::None => *MILLIBITS.start(),
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

    /// What is to be built.
    #[must_use]
    pub fn spec(&self) -> FilterSpec {
        self.spec
    }

    /// The number of distinct keys.
    #[must_use]
    pub fn num_keys(&self) -> u64 {
        self.num_keys
    }

    /// Bytes of the filter itself, without checksums and trailer.
    ///
    /// Exact for the Bloom filters. A binary fuse filter or a ribbon is larger in the rare case that its first system has
    /// no solution; of a bumped ribbon, how many keys are bumped differs from one set of keys to the next: by a twentieth
    /// of a per cent of a million keys, by up to one of a few thousand.
    #[must_use]
    pub fn payload_len_bytes(&self) -> u64 {
        self.planned.len_bytes
    }

    /// Bytes of the record of layers, which only ribbons have, in the extension of a block's trailer; as exact.
    #[must_use]
    pub fn record_len_bytes(&self) -> usize {
        self.planned.record_len_bytes
    }

    /// Bits of the payload for each key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.planned.len_bytes as f64 * 8.0 / self.num_keys as f64
    }

    /// The share of absent keys that will be answered "maybe", by the exact formula of the kind.
    #[must_use]
    pub fn expected_rate(&self) -> f64 {
        self.planned.rate
    }

    /// Cache lines of 64 bytes that a query of an absent key reads on average, neighbours counted one by one: the cache
    /// misses of a filter that lies in memory alone.
    #[must_use]
    pub fn lines_if_absent(&self) -> f64 {
        self.planned.lines_if_absent
    }

    /// The same for a key that was added.
    #[must_use]
    pub fn lines_if_present(&self) -> f64 {
        self.planned.lines_if_present
    }
}

/// The lowest rate that a kind of filter has for `num_keys` keys in a payload of `max_len_bytes`; 1 where it has none.
///
/// # Errors
/// [`Error::Invalid`] as [`Plan::largest`].
pub fn least_rate_in(kind: FilterKind, num_keys: u64, max_len_bytes: u64) -> Result<f64> {
    Ok(Plan::largest(kind, num_keys, max_len_bytes)?.map_or(1.0, |plan| plan.expected_rate()))
}
