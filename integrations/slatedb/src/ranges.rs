//! Builds the range filter of one SST.

use std::sync::Arc;

use filterblock::{FilterBuilder, FilterSpec, KeyHash};
use slatedb::{Filter, RowEntry};

use crate::config::{Config, RANGES_TABLE_ID};
use crate::filter::Opened;

/// Collects the keys of an SST. They come in ascending order, so a key takes the bytes in which it
/// differs from the key before it, and two more.
pub(crate) struct RangeBuilder {
    config: Arc<Config>,
    /// `None` after the first call of `build`.
    keys: Option<FilterBuilder>,
    built: Opened,
}

impl RangeBuilder {
    pub(crate) fn new(config: Arc<Config>, spec: FilterSpec) -> Self {
        let builder = |spec| FilterBuilder::new(spec, &config.hasher).with_table_id(RANGES_TABLE_ID);
        // A filter that denies nothing, until there is a better one. Empty bytes are not a filter
        // block, so they deny nothing, too.
        let always_maybe = builder(FilterSpec::ALWAYS_MAYBE).finish_with(&[KeyHash::from_raw(0)]).unwrap_or_default();
        let built = Opened::open(&always_maybe, &config).1;
        Self { keys: Some(builder(spec)), built, config }
    }

    fn encode(&self, keys: FilterBuilder) -> filterblock::Result<Opened> {
        let (opened, filter) = Opened::open(&keys.finish()?, &self.config);
        opened.map(|()| filter)
    }
}

impl slatedb::FilterBuilder for RangeBuilder {
    /// Adds the key of an entry of any type: a value, a merge operand or a tombstone.
    fn add_entry(&mut self, entry: &RowEntry) {
        match &mut self.keys {
            Some(keys) => keys.add(&entry.key),
            // The filter is built already, and would deny this key.
            None => self.built = Opened::open(&[], &self.config).1,
        }
    }

    /// Builds the filter. If that fails, returns a filter that denies nothing. A second call returns
    /// the same filter.
    fn build(&mut self) -> Arc<dyn Filter> {
        if let Some(keys) = self.keys.take() {
            let built = self.encode(keys);
            self.config.counters.count_build(built.is_ok());
            match built {
                Ok(built) => self.built = built,
                Err(error) => self.config.report(&error),
            }
        }
        Arc::new(self.built.clone())
    }
}
