//! Spreads filter memory over the levels of an LSM tree, so that a read of an absent key costs the
//! fewest block reads.
//!
//! A read of an absent key asks at most one filter in each run, and reads a block for each false
//! positive. Run `i` has `n_i` keys, and its filter has a false-positive rate (FPR) of `p_i`. So
//! the expected number of block reads is `sum(p_i)`, and the filters take `sum(n_i * bits(p_i))`.
//! For most kinds, `bits(p)` is nearly linear in `ln(1/p)`. Then Lagrange's condition for the
//! fewest reads at a given memory is `p_i = lambda * n_i`: the FPRs are proportional to the sizes
//! of the runs. A level ten times smaller has a tenth of the FPR. With Bloom filters this level
//! takes 4.8 bits per key more, but it has only a tenth of the keys (Dayan, Athanassoulis, Idreos,
//! "Monkey: optimal navigable key-value store", 2017).
//!
//! The code finds `lambda` for the given memory by bisection, with the `bits(p)` of the kind. If
//! `p_i` would exceed one, the run gets an always-maybe filter, which takes no memory.

use std::sync::{Arc, Mutex, PoisonError};

use super::{FilterPolicy, LevelShape, TableShape};
use crate::error::{Error, Result};
use crate::filters::FilterKind;
use crate::spec::FilterSpec;

/// The distance between two samples in bits per key.
const STEP: f64 = 0.25;
/// The number of samples, from 1 to 100 bits per key.
const SAMPLES: u32 = 397;
/// The natural logarithm of the lowest FPR considered. This FPR is 2^-30: one block read in a
/// billion queries of absent keys. A lower FPR makes no measurable difference.
const LEAST_LN_RATE: f64 = -30.0 * std::f64::consts::LN_2;

/// The FPR of a kind as a function of its bits per key, sampled at each quarter of a bit.
///
/// Between two samples, the logarithm of the FPR is interpolated linearly, unless the FPR falls in
/// a step. No closed formula is right for all kinds.
#[derive(Debug)]
struct Curve {
    /// Pairs of the bits per key and the natural logarithm of the FPR. The bits ascend, and the
    /// logarithms do not increase.
    samples: Vec<(f64, f64)>,
}

/// A cache of all curves of the process. A curve takes up to 397 evaluations of a formula, which is
/// too slow for every new SST.
static CURVES: Mutex<Vec<(FilterKind, Arc<Curve>)>> = Mutex::new(Vec::new());

impl Curve {
    fn of(kind: FilterKind) -> Arc<Self> {
        let mut curves = CURVES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, curve)) = curves.iter().find(|(found, _)| *found == kind) {
            return Arc::clone(curve);
        }
        let curve = Arc::new(Self::sample(kind));
        curves.push((kind, Arc::clone(&curve)));
        curve
    }

    fn sample(kind: FilterKind) -> Self {
        let mut least = 0.0_f64;
        let mut at = |i| {
            let bits = 1.0 + f64::from(i) * STEP;
            // If a kind takes only certain numbers of bits, bits between two of them do not lower
            // the FPR.
            let spec = FilterSpec::at_most(kind, bits)?;
            least = least.min(spec.expected_fpr().ln()).max(LEAST_LN_RATE);
            Some((bits, least))
        };
        let mut samples: Vec<_> = (0..SAMPLES).filter_map(&mut at).collect();
        // Removes samples with more bits than the largest filter of the kind.
        while samples.pop_if(|&mut (bits, _)| FilterSpec::bits_per_key(kind, bits).is_err()).is_some() {}
        Self { samples }
    }

    /// Returns the fewest bits per key for an FPR whose natural logarithm is at most `ln_rate`.
    /// Returns 0 if even the smallest filter has a lower FPR. Returns the bits per key of the
    /// largest filter if no filter reaches the FPR.
    fn bits(&self, ln_rate: f64) -> f64 {
        let index = self.samples.partition_point(|&(_, sample)| sample > ln_rate);
        let Some(&(bits_above, above)) = self.samples.get(index) else {
            return self.samples.last().map_or(0.0, |&(bits, _)| bits);
        };
        let Some(&(bits_below, below)) = index.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return if ln_rate > above { 0.0 } else { bits_above };
        };
        if is_step(below - above, bits_above - bits_below) {
            return bits_above;
        }
        bits_above - (bits_above - bits_below) * (ln_rate - above) / (below - above)
    }

    /// Returns the natural logarithm of the FPR of a filter with `bits` bits per key. Returns 0,
    /// which is an FPR of 1, if the smallest filter has more bits.
    fn ln_rate(&self, bits: f64) -> f64 {
        let index = self.samples.partition_point(|&(sample, _)| sample <= bits);
        let Some(&(bits_below, below)) = index.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return 0.0;
        };
        let Some(&(bits_above, above)) = self.samples.get(index) else { return below };
        if is_step(below - above, bits_above - bits_below) {
            return below;
        }
        below - (below - above) * (bits - bits_below) / (bits_above - bits_below)
    }
}

/// Returns whether the FPR falls in a step between two samples. No kind halves its FPR with less than one
/// bit, so more than two halvings per bit are a step.
fn is_step(nats: f64, bits: f64) -> bool {
    nats > 2.0 * std::f64::consts::LN_2 * bits
}

/// The number of bisection steps. They shrink an interval of at most seventy nats to less than a
/// thousandth of a bit per key.
const BISECTIONS: u32 = 50;

/// The kind of the deepest level that has keys, and the kind of all other levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) upper: FilterKind,
    pub(super) bottom: FilterKind,
}

impl Kinds {
    pub(super) fn new(upper: FilterKind, bottom: FilterKind) -> Result<Self> {
        for kind in [upper, bottom] {
            if kind.info().is_of_ranges {
                let reason = "this policy spreads memory for point reads, and a range filter answers no query by \
                              hash; try bumped-ribbon";
                return Err(Error::invalid("filter kind", kind, reason));
            }
            if !kind.takes_budget() {
                let reason = "this policy gives each filter a budget, and this kind takes none; try blocked-bloom";
                return Err(Error::invalid("filter kind", kind, reason));
            }
        }
        Ok(Self { upper, bottom })
    }

    /// Returns one specification for each level. Over all keys, their bits per key add up to at
    /// most `budget_bits`. [`best_bits`] distributes the bits over the levels.
    pub(super) fn spread(self, levels: &[LevelShape], budget_bits: f64) -> Vec<FilterSpec> {
        let deepest = levels.iter().rposition(|level| level.num_keys > 0);
        let kind = |number| if Some(number) == deepest { self.bottom } else { self.upper };
        let runs: Vec<Runs> = levels.iter().enumerate().map(|(i, level)| Runs::of(i, level, kind(i))).collect();
        let bits = best_bits(&runs, budget_bits);
        bits.into_iter().enumerate().map(|(number, bits)| spec(kind(number), bits)).collect()
    }
}

/// Returns the specification of the largest filter with at most `bits` bits per key. Returns
/// [`FilterSpec::ALWAYS_MAYBE`] if [`FilterSpec::at_most`] returns `None`.
fn spec(kind: FilterKind, bits: f64) -> FilterSpec {
    // A specification keeps thousandths of a bit, so `bits` is rounded down to thousandths. The
    // addition of a billionth makes up for rounding errors.
    let bits = ((bits + 1e-9) * 1000.0).floor() / 1000.0;
    FilterSpec::at_most(kind, bits).unwrap_or(FilterSpec::ALWAYS_MAYBE)
}

struct Runs {
    count: f64,
    /// The number of keys of each run.
    keys: f64,
    curve: Arc<Curve>,
}

impl Runs {
    fn of(number: usize, level: &LevelShape, kind: FilterKind) -> Self {
        let count = match number {
            _ if level.num_keys == 0 => 0.0,
            0 => level.num_tables.max(1) as f64,
            _ => 1.0,
        };
        Self { count, keys: level.num_keys as f64 / f64::max(count, 1.0), curve: Curve::of(kind) }
    }

    /// Returns the bits per key at the multiplier `lambda`. `ln_lambda` is its natural logarithm.
    /// For a level without keys, returns the bits per key of the lowest FPR, because a filter
    /// without keys takes no memory.
    fn bits(&self, ln_lambda: f64) -> f64 {
        if self.count == 0.0 {
            return self.curve.bits(LEAST_LN_RATE);
        }
        self.curve.bits((ln_lambda + self.keys.ln()).clamp(LEAST_LN_RATE, 0.0))
    }
}

/// Returns the expected number of block reads for one read of an absent key.
fn reads(runs: &[Runs], bits: &[f64]) -> f64 {
    runs.iter().zip(bits).map(|(run, &bits)| run.count * run.curve.ln_rate(bits).exp()).sum()
}

fn total(runs: &[Runs], bits: &[f64]) -> f64 {
    runs.iter().zip(bits).map(|(run, &bits)| run.count * run.keys * bits).sum()
}

/// Returns the bits per key of each level, within the budget. Normally, the FPRs are proportional
/// to the sizes of the runs. All levels get the same bits per key if that causes fewer block reads.
fn best_bits(runs: &[Runs], budget_bits: f64) -> Vec<f64> {
    let at = |ln_lambda: f64| -> Vec<f64> { runs.iter().map(|run| run.bits(ln_lambda)).collect() };
    let sizes = || runs.iter().map(|run| run.keys).filter(|&keys| keys > 0.0);
    let (least_keys, most_keys) = (sizes().fold(1.0, f64::min), sizes().fold(1.0, f64::max));
    // At `low`, each level has its lowest FPR. At `high`, no level with keys has a filter.
    let (mut low, mut high) = (LEAST_LN_RATE - most_keys.ln(), -least_keys.ln());
    if total(runs, &at(low)) <= budget_bits {
        return at(low);
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if total(runs, &at(middle)) <= budget_bits {
            high = middle;
        } else {
            low = middle;
        }
    }
    let proportional = at(high);
    // Much of the budget may stay unused, for example if the FPR of the kind falls in steps. Then
    // the same bits per key on all levels may cause fewer reads.
    let keys: f64 = runs.iter().map(|run| run.count * run.keys).sum();
    let uniform = vec![budget_bits / keys; runs.len()];
    if reads(runs, &uniform) < reads(runs, &proportional) { uniform } else { proportional }
}

/// A policy that makes the FPRs proportional to the sizes of the runs. If the same bits per key on
/// all levels cause fewer block reads, it chooses these. In both cases, it gives at most
/// `bits_per_key` bits per key on average over the whole store.
///
/// The policy computes the bits of an SST from the levels at the time when the SST is written. It
/// counts no checksums and trailers, and ignores the filters that the store already has.
///
/// ```
/// use filterblock::{FilterKind, policy::{LevelShape, Monkey}};
///
/// let policy = Monkey::new(FilterKind::Bloom, 10.0)?;
/// let full = [0, 1_000, 10_000, 100_000, 1_000_000].map(|keys| LevelShape::new(keys, 1));
/// let rates: Vec<f64> = policy.specs(&full).iter().map(|spec| spec.expected_fpr()).collect();
/// assert!(rates[1..].iter().sum::<f64>() < 4.0 * 0.0082 / 2.7);
/// assert!((rates[3] / rates[4] - 0.1).abs() < 0.001);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Monkey {
    kinds: Kinds,
    bits_per_key: f64,
}

impl Monkey {
    /// Creates a policy for filters of one kind.
    ///
    /// # Errors
    /// Returns the errors of [`FilterSpec::bits_per_key`]: the kind must accept `bits_per_key` as a
    /// budget. Returns [`Error::Invalid`](crate::Error::Invalid) if the kind is a range filter.
    pub fn new(kind: FilterKind, bits_per_key: f64) -> Result<Self> {
        FilterSpec::bits_per_key(kind, bits_per_key)?;
        Ok(Self { kinds: Kinds::new(kind, kind)?, bits_per_key })
    }

    /// Sets another kind for the deepest level that has keys.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`](crate::Error::Invalid) if the kind takes no budget or is a range
    /// filter.
    pub fn with_bottom(self, kind: FilterKind) -> Result<Self> {
        Ok(Self { kinds: Kinds::new(self.kinds.upper, kind)?, ..self })
    }

    /// Returns the specification of each level of a store. If the share of a level is too small for
    /// the smallest filter of its kind, the level gets [`FilterSpec::ALWAYS_MAYBE`].
    #[must_use]
    pub fn specs(&self, levels: &[LevelShape]) -> Vec<FilterSpec> {
        let keys: f64 = levels.iter().map(|level| level.num_keys as f64).sum();
        self.kinds.spread(levels, keys * self.bits_per_key)
    }
}

impl FilterPolicy for Monkey {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        let levels = table.known_levels();
        Some(self.specs(&levels).get(table.level).copied().unwrap_or(FilterSpec::ALWAYS_MAYBE))
    }
}
