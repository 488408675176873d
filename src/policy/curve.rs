//! Computes the bits per key that a kind of filter needs for an FPR: the inverse of the formula of
//! the kind.

use std::sync::{Arc, Mutex, PoisonError};

use crate::filters::FilterKind;
use crate::spec::FilterSpec;

/// The distance between two samples in bits per key.
const STEP: f64 = 0.25;
/// The number of samples, from 1 to 100 bits per key.
const SAMPLES: u32 = 397;
/// The natural logarithm of the lowest FPR considered. This FPR is 2^-30: one block read in a
/// billion queries of absent keys. A lower FPR makes no measurable difference.
pub(super) const LEAST_LN_RATE: f64 = -30.0 * std::f64::consts::LN_2;

/// The FPR of a kind as a function of its bits per key, sampled at each quarter of a bit.
///
/// Between two samples, the logarithm of the FPR is interpolated linearly, unless the FPR falls in
/// a step. No closed formula is right for all kinds.
#[derive(Debug)]
pub(super) struct Curve {
    /// Pairs of the bits per key and the natural logarithm of the FPR. The bits ascend, and the
    /// logarithms do not increase.
    samples: Vec<(f64, f64)>,
}

/// A cache of all curves of the process. A curve takes up to 397 evaluations of a formula, which is
/// too slow for every new SST.
static CURVES: Mutex<Vec<(FilterKind, Arc<Curve>)>> = Mutex::new(Vec::new());

impl Curve {
    pub(super) fn of(kind: FilterKind) -> Arc<Self> {
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
    pub(super) fn bits(&self, ln_rate: f64) -> f64 {
        let index = self.samples.partition_point(|&(_, sample)| sample > ln_rate);
        let Some(&(bits_above, above)) = self.samples.get(index) else {
            return self.samples.last().map_or(0.0, |&(bits, _)| bits);
        };
        let Some(&(bits_below, below)) = index.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return if ln_rate > above { 0.0 } else { bits_above };
        };
        // No kind halves its FPR with less than one bit. So more than two halvings per bit between
        // two samples are a step.
        let is_step = below - above > 2.0 * std::f64::consts::LN_2 * (bits_above - bits_below);
        if is_step {
            return bits_above;
        }
        bits_above - (bits_above - bits_below) * (ln_rate - above) / (below - above)
    }

    /// Returns the natural logarithm of the FPR of a filter with `bits` bits per key. Returns 0,
    /// which is an FPR of 1, if the smallest filter has more bits.
    pub(super) fn ln_rate(&self, bits: f64) -> f64 {
        let index = self.samples.partition_point(|&(sample, _)| sample <= bits);
        let Some(&(bits_below, below)) = index.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return 0.0;
        };
        let Some(&(bits_above, above)) = self.samples.get(index) else { return below };
        if below - above > 2.0 * std::f64::consts::LN_2 * (bits_above - bits_below) {
            return below;
        }
        below - (below - above) * (bits - bits_below) / (bits_above - bits_below)
    }
}
