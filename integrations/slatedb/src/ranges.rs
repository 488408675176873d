//! Builds the range filter of one SST.

use std::sync::Arc;

use filterblock::{FilterBuilder, FilterOptions, FilterSpec, KeyHash};
use slatedb::{Filter, RowEntry};

use crate::config::{Config, RANGES_TABLE_ID};
use crate::filter::Opened;

/// Collects the keys of an SST, which come in ascending order.
pub(crate) struct RangeBuilder {
    config: Arc<Config>,
    /// The builder of the range filter. It is `None` after the first call of `build`.
    keys: Option<FilterBuilder>,
    /// The result of `build`. It is an always-maybe filter before the first call.
    built: Opened,
}

impl RangeBuilder {
    pub(crate) fn new(config: Arc<Config>, spec: FilterSpec) -> Self {
        let builder = |spec| FilterOptions::new(spec).table_id(RANGES_TABLE_ID).builder(&config.hasher);
        let always_maybe = builder(FilterSpec::ALWAYS_MAYBE).and_then(|mut builder| {
            builder.add_hash(KeyHash::from_raw(0));
            Ok(builder.finish()?.bytes)
        });
        // If even the always-maybe filter cannot be built, the bytes are empty. They are not a
        // filter block, so the filter answers "maybe".
        let built = Opened::open(&always_maybe.unwrap_or_default(), &config).1;
        Self { keys: builder(spec).ok(), built, config }
    }

    fn encode(&self, keys: FilterBuilder) -> filterblock::Result<Opened> {
        let (opened, filter) = Opened::open(&keys.finish()?.bytes, &self.config);
        opened.map(|()| filter)
    }
}

impl slatedb::FilterBuilder for RangeBuilder {
    /// Adds the key of an entry of any type: a value, a merge operand or a tombstone.
    fn add_entry(&mut self, entry: &RowEntry) {
        match &mut self.keys {
            Some(keys) => keys.add(self.config.hasher.key(&entry.key)),
            // The built filter would deny this key. A filter of empty bytes answers "maybe".
            None => self.built = Opened::open(&[], &self.config).1,
        }
    }

    /// Builds the filter, and counts the build. If the build fails, reports the error and returns
    /// an always-maybe filter. A second call returns the same filter, unless a key was added in
    /// between.
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
