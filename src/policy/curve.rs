//! How many bits a key a kind of filter needs for a rate: its own formula turned round.

use std::sync::{Arc, Mutex, PoisonError};

use crate::kinds::FilterKind;
use crate::spec::FilterSpec;

/// Bits per key between two samples.
const STEP: f64 = 0.25;
/// Samples from 1 to 100 bits.
const SAMPLES: u32 = 397;
/// A better filter than this would not be told from it: 2^-30, one block read in a billion.
pub(super) const LEAST_LN_RATE: f64 = -30.0 * std::f64::consts::LN_2;

/// The rate of a kind at each quarter of a bit per key.
///
/// Between two samples the logarithm of the rate is taken to be straight, which is wrong by less than a thousandth of the
/// rate for Bloom filters. No formula in closed form, as that would be wrong for every kind but one: a blocked Bloom
/// filter needs more bits for each further halving of the rate, and a kind with whole bits goes by steps.
#[derive(Debug)]
pub(super) struct Curve {
    /// Bits per key and the natural logarithm of the rate, which falls or stays.
    samples: Vec<(f64, f64)>,
}

/// Those made so far: some ten milliseconds each, once in a process.
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
            // Between the widths that a kind has, the bits beyond the lower one are of no use.
            let spec = FilterSpec::at_most(kind, bits)?;
            least = least.min(spec.expected_rate().ln()).max(LEAST_LN_RATE);
            Some((bits, least))
        };
        let mut samples: Vec<_> = (0..SAMPLES).filter_map(&mut at).collect();
        // What lies beyond the largest is not offered.
        while samples.pop_if(|&mut (bits, _)| FilterSpec::bits_per_key(kind, bits).is_err()).is_some() {}
        Self { samples }
    }

    /// The least bits per key with a rate of `ln_rate` at most: none for a rate that the smallest filter is better than,
    /// and those of the largest for one that none has.
    pub(super) fn bits(&self, ln_rate: f64) -> f64 {
        let place = self.samples.partition_point(|&(_, sample)| sample > ln_rate);
        let Some(&(bits_above, above)) = self.samples.get(place) else {
            return self.samples.last().map_or(0.0, |&(bits, _)| bits);
        };
        let Some(&(bits_below, below)) = place.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return if ln_rate > above { 0.0 } else { bits_above };
        };
        // No kind halves its rate with less than a bit: where it seems to, it goes by steps.
        let is_step = below - above > 2.0 * std::f64::consts::LN_2 * (bits_above - bits_below);
        if is_step {
            return bits_above;
        }
        bits_above - (bits_above - bits_below) * (ln_rate - above) / (below - above)
    }

    /// The logarithm of the rate that so many bits per key give: 0 where they are too few for any filter.
    pub(super) fn ln_rate(&self, bits: f64) -> f64 {
        let place = self.samples.partition_point(|&(sample, _)| sample <= bits);
        let Some(&(bits_below, below)) = place.checked_sub(1).and_then(|before| self.samples.get(before)) else {
            return 0.0;
        };
        let Some(&(bits_above, above)) = self.samples.get(place) else { return below };
        if below - above > 2.0 * std::f64::consts::LN_2 * (bits_above - bits_below) {
            return below;
        }
        below - (below - above) * (bits - bits_below) / (bits_above - bits_below)
    }
}
