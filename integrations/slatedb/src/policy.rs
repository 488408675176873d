//! Implements the policy that SlateDB calls.

use std::sync::{Arc, OnceLock};

use filterblock::planning::Plan;
use filterblock::{FilterSpec, layout};
use slatedb::{Filter, FilterBuilder, FilterPolicy};

use crate::builder::Builder;
use crate::config::Config;
use crate::filter::Opened;
use crate::ranges::RangeBuilder;

/// Builds and decodes the filters of one configuration.
pub(crate) struct Policy {
    name: String,
    config: Arc<Config>,
    /// The planned length of a filter for the smallest number of keys of each [`step`]. Each length
    /// is planned at its first use.
    planned: Box<[OnceLock<u64>]>,
}

impl Policy {
    pub(crate) fn new(config: Config) -> Self {
        let planned = std::iter::repeat_with(OnceLock::new).take(STEPS).collect();
        Self { name: config.name(), config: Arc::new(config), planned }
    }

    /// Plans the filter block of `num_keys` keys. Returns its length in bytes. If no such filter
    /// can be planned, returns the length of an always-maybe filter.
    fn plan(&self, num_keys: u64) -> u64 {
        let spec = (self.config.choice)(num_keys).unwrap_or(FilterSpec::ALWAYS_MAYBE);
        let (payload, record) =
            Plan::new(spec, num_keys).map_or((0, 0), |plan| (plan.payload_len_bytes(), plan.record_len_bytes()));
        layout::block_len_bytes(payload, record).unwrap_or_default()
    }
}

/// The number of steps between two consecutive powers of two, from 16 keys on. Each of these steps
/// begins at most a sixteenth above the step before it. Below 16 keys, each number is a step of its
/// own.
const STEPS_PER_OCTAVE: u32 = 16;
const STEPS: usize = (u64::BITS * STEPS_PER_OCTAVE) as usize;

/// Returns the index of the step that contains `num_keys`, and the smallest number of keys in that
/// step. 0 keys count as 1.
fn step(num_keys: u64) -> (usize, u64) {
    let octave = num_keys.max(1).ilog2();
    let low_bits = octave.saturating_sub(STEPS_PER_OCTAVE.ilog2());
    let start = num_keys.max(1) >> low_bits << low_bits;
    let within = (start >> low_bits) % u64::from(STEPS_PER_OCTAVE);
    let index = u64::from(octave * STEPS_PER_OCTAVE) + within;
    (usize::try_from(index).unwrap_or(STEPS), start)
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        match self.config.ranges {
            None => Box::new(Builder::new(Arc::clone(&self.config))),
            Some(spec) => Box::new(RangeBuilder::new(Arc::clone(&self.config), spec)),
        }
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(Opened::decode(data, &self.config))
    }

    /// Estimates the length in bytes from the plan for the smallest number of keys in the step of
    /// `num_keys`. Does not count prefixes, because their number is unknown.
    ///
    /// SlateDB calls this method for every write, and a new plan for each call would be slow.
    fn estimate_size(&self, num_keys: usize) -> usize {
        let num_keys = num_keys as u64;
        let (index, start) = step(num_keys);
        let planned = self.planned.get(index).map_or(0, |planned| *planned.get_or_init(|| self.plan(start)));
        let len = u128::from(planned) * u128::from(num_keys) / u128::from(start);
        usize::try_from(len).unwrap_or(usize::MAX)
    }

    fn supports_range_queries(&self) -> bool {
        self.config.ranges.is_some()
    }

    fn supports_prefix_queries(&self) -> bool {
        self.config.prefixes.is_some()
    }
}
