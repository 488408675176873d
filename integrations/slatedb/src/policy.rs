//! The policy that SlateDB calls.

use std::sync::Arc;

use filterblock::planning::Plan;
use filterblock::{FilterSpec, layout};
use slatedb::{Filter, FilterBuilder, FilterPolicy};

use crate::builder::Builder;
use crate::config::Config;
use crate::filter::Opened;

/// Builds and decodes the filters of one configuration.
pub(crate) struct Policy {
    name: String,
    config: Arc<Config>,
}

impl Policy {
    pub(crate) fn new(config: Config) -> Self {
        Self { name: config.name(), config: Arc::new(config) }
    }
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Builder::new(Arc::clone(&self.config)))
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(Opened::decode(data, &self.config))
    }

    /// Plans the filter of so many keys. Prefixes are not counted, because their number is not known.
    fn estimate_size(&self, num_keys: usize) -> usize {
        let num_keys = num_keys as u64;
        let spec = (self.config.choice)(num_keys).unwrap_or(FilterSpec::FULL);
        let (payload, record) =
            Plan::new(spec, num_keys).map_or((0, 0), |plan| (plan.payload_len_bytes(), plan.record_len_bytes()));
        let len = layout::block_len_bytes(payload, record).and_then(|len| usize::try_from(len).ok());
        // SlateDB reserves as many bytes, so a size that no filter has must not be returned.
        len.unwrap_or_default()
    }

    fn supports_prefix_queries(&self) -> bool {
        self.config.prefixes.is_some()
    }
}
