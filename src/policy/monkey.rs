//! Filter memory spread over the levels of a tree so that a read of an absent key costs the fewest block reads.
//!
//! A read of a key that is not there asks one filter in each run and reads a block for each that errs: `sum(p_i)` in all,
//! for rates `p_i`. The filters take `sum(n_i * bits(p_i))`. With `bits(p)` linear in `ln(1/p)`, as for all good filters
//! nearly, Lagrange's condition for the least sum at a given memory is `p_i = lambda * n_i`: rates proportional to the
//! runs' sizes, so that a level ten times smaller has a tenth of the rate, for 4.8 bits a key more where there are a
//! tenth of the keys (Dayan, Athanassoulis, Idreos, "Monkey: optimal navigable key-value store", 2017). `lambda` follows
//! from the memory by bisection, through the kind's own `bits(p)`. Where that would make `p_i` more than one, the run
//! gets no filter and leaves its memory to the others, which are smaller and need it more.

use super::curve::{Curve, LEAST_LN_RATE};
use super::{FilterPolicy, LevelShape, TableShape};
use crate::error::Result;
use crate::kinds::FilterKind;
use crate::spec::FilterSpec;

/// Halvings of an interval of some seventy nats: beyond them nothing changes in a thousandth of a bit.
const BISECTIONS: u32 = 50;

/// The kind of filter at the bottom, and that of all levels above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) upper: FilterKind,
    pub(super) bottom: FilterKind,
}

impl Kinds {
    pub(super) fn new(upper: FilterKind, bottom: FilterKind) -> Result<Self> {
        for kind in [upper, bottom] {
            // Of any size: whether the kind takes one at all.
            FilterSpec::false_positive_rate(kind, 0.01)?;
        }
        Ok(Self { upper, bottom })
    }

    /// The filter of each level that together take `budget_bits` at most, for the fewest block reads.
    pub(super) fn spread(self, levels: &[LevelShape], budget_bits: f64) -> Vec<FilterSpec> {
        let deepest = levels.iter().rposition(|level| level.num_keys > 0);
        let kind = |number| if Some(number) == deepest { self.bottom } else { self.upper };
        let runs: Vec<Runs> = levels.iter().enumerate().map(|(i, level)| Runs::of(i, level, kind(i))).collect();
        let bits = best_bits(&runs, budget_bits);
        bits.into_iter().enumerate().map(|(number, bits)| spec(kind(number), bits)).collect()
    }
}

/// A filter of no more than so many bits per key.
fn spec(kind: FilterKind, bits: f64) -> FilterSpec {
    // Rounded down to the thousandth that a specification keeps, a billionth aside that is an error of arithmetic.
    let bits = ((bits + 1e-9) * 1000.0).floor() / 1000.0;
    FilterSpec::at_most(kind, bits).unwrap_or(FilterSpec::FULL)
}

/// The runs of a level.
struct Runs {
    count: f64,
    /// Of each run.
    keys: f64,
    curve: std::sync::Arc<Curve>,
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

    /// Bits per key under the multiplier `lambda`.
    fn bits(&self, ln_lambda: f64) -> f64 {
        if self.count == 0.0 {
            return self.curve.bits(LEAST_LN_RATE);
        }
        self.curve.bits((ln_lambda + self.keys.ln()).clamp(LEAST_LN_RATE, 0.0))
    }
}

/// Block reads to expect of a read of an absent key.
fn reads(runs: &[Runs], bits: &[f64]) -> f64 {
    runs.iter().zip(bits).map(|(run, &bits)| run.count * run.curve.ln_rate(bits).exp()).sum()
}

fn total(runs: &[Runs], bits: &[f64]) -> f64 {
    runs.iter().zip(bits).map(|(run, &bits)| run.count * run.keys * bits).sum()
}

/// Bits per key of each level.
fn best_bits(runs: &[Runs], budget_bits: f64) -> Vec<f64> {
    let at = |ln_lambda: f64| -> Vec<f64> { runs.iter().map(|run| run.bits(ln_lambda)).collect() };
    let sizes = || runs.iter().map(|run| run.keys).filter(|&keys| keys > 0.0);
    let (least_keys, most_keys) = (sizes().fold(1.0, f64::min), sizes().fold(1.0, f64::max));
    // From the best filters everywhere to none anywhere.
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
    // A kind that goes by steps, or a budget too small for a filter at the bottom, may leave much of it unused.
    let keys: f64 = runs.iter().map(|run| run.count * run.keys).sum();
    let uniform = vec![budget_bits / keys; runs.len()];
    if reads(runs, &uniform) < reads(runs, &proportional) { uniform } else { proportional }
}

/// Rates proportional to the sizes of the levels, for so many bits per key on average over the whole store.
///
/// Each table is given the rate that is best for the store as it is when the table is written; the levels change, but
/// the tables of all levels but the last are written anew long before those have grown by much. The average counts the
/// filters' own bits, without checksums and trailer (some 70 bytes a table and a thousandth), and what is written, not
/// what an earlier policy left.
///
/// ```
/// use filterblock::{FilterKind, LevelShape, Monkey};
///
/// let policy = Monkey::new(FilterKind::Bloom, 10.0)?;
/// let full = [0, 1_000, 10_000, 100_000, 1_000_000].map(|keys| LevelShape::new(keys, 1));
/// let rates: Vec<f64> = policy.specs(&full).iter().map(|spec| spec.expected_rate()).collect();
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
    /// Filters of one kind.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) unless the kind takes a budget and `1 <= bits_per_key <= 100`.
    pub fn new(kind: FilterKind, bits_per_key: f64) -> Result<Self> {
        FilterSpec::bits_per_key(kind, bits_per_key)?;
        Ok(Self { kinds: Kinds::new(kind, kind)?, bits_per_key })
    }

    /// Another kind in the deepest level: a small one, under fast ones.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) unless it takes a budget.
    pub fn with_bottom(self, kind: FilterKind) -> Result<Self> {
        Ok(Self { kinds: Kinds::new(self.kinds.upper, kind)?, ..self })
    }

    /// The filter of each of a store's levels: [`FilterSpec::FULL`] where memory is so short that none is best.
    #[must_use]
    pub fn specs(&self, levels: &[LevelShape]) -> Vec<FilterSpec> {
        let keys: f64 = levels.iter().map(|level| level.num_keys as f64).sum();
        self.kinds.spread(levels, keys * self.bits_per_key)
    }
}

impl FilterPolicy for Monkey {
    fn choose(&self, table: &TableShape) -> Option<FilterSpec> {
        let levels = table.known_levels();
        Some(self.specs(&levels).get(table.level).copied().unwrap_or(FilterSpec::FULL))
    }
}
