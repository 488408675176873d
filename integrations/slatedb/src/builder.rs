//! Builds the filter of one SST.

use std::sync::Arc;

use filterblock::{FilterBuilder, FilterOptions, FilterSpec, KeyHash};
use slatedb::bytes::Bytes;
use slatedb::{Filter, PrefixTarget, RowEntry};

use crate::config::{Config, TABLE_ID};
use crate::filter::Opened;

/// Collects the hashes of the keys and prefixes of an SST.
pub(crate) struct Builder {
    config: Arc<Config>,
    hashes: Vec<KeyHash>,
    /// The hash of the last prefix. The keys come in ascending order, so equal prefixes usually
    /// come in a row.
    last_prefix: Option<KeyHash>,
    /// The reason why the filter cannot be built. A filter without some of the hashes would deny
    /// keys.
    incomplete: Option<filterblock::Error>,
    /// Whether a key is being added. If the extractor panics, this stays `true`.
    is_adding: bool,
}

impl Builder {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self { config, hashes: Vec::new(), last_prefix: None, incomplete: None, is_adding: false }
    }

    fn add_prefix_of(&mut self, key: &Bytes) -> filterblock::Result<()> {
        let Some(prefixes) = &self.config.prefixes else { return Ok(()) };
        let Some(prefix) = prefixes.of(key, PrefixTarget::Point)? else { return Ok(()) };
        let hash = self.config.hasher.of(prefix);
        if self.last_prefix == Some(hash) {
            return Ok(());
        }
        self.last_prefix = Some(hash);
        self.push(hash)
    }

    fn add_key(&mut self, key: &Bytes) -> filterblock::Result<()> {
        self.add_prefix_of(key)?;
        if self.config.has_whole_keys() {
            let hash = self.config.hasher.of(key);
            // Versions of one key come in a row.
            if self.hashes.last() != Some(&hash) {
                self.push(hash)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, hash: KeyHash) -> filterblock::Result<()> {
        let too_large = |_| filterblock::Error::TooLarge { what: "a list of the hashes of an SST's keys" };
        self.hashes.try_reserve(1).map_err(too_large)?;
        self.hashes.push(hash);
        Ok(())
    }

    fn encode(&mut self) -> filterblock::Result<Opened> {
        if let Some(error) = self.incomplete.take() {
            return Err(error);
        }
        if self.is_adding {
            return Err(filterblock::Error::Invalid {
                what: "prefix extractor",
                given: self.config.name(),
                reason: "it panicked, so prefixes of a key are missing; correct the extractor".into(),
            });
        }
        let spec = (self.config.choice)(self.hashes.len() as u64).unwrap_or(FilterSpec::ALWAYS_MAYBE);
        let mut builder = self.core_builder(spec)?;
        builder.add_hashes(&self.hashes);
        let (opened, filter) = Opened::open(&builder.finish()?.bytes, &self.config);
        opened.map(|()| filter)
    }

    fn core_builder(&self, spec: FilterSpec) -> filterblock::Result<FilterBuilder> {
        let mut options = FilterOptions::new(spec).table_id(TABLE_ID);
        if let Some(prefixes) = &self.config.prefixes {
            options = options.prefixes_by_host(prefixes.extractor.name(), prefixes.whole_keys);
        }
        options.builder(&self.config.hasher)
    }

    /// Returns a filter that answers "maybe" to every key.
    fn always_maybe(&self) -> Opened {
        let block = self.core_builder(FilterSpec::ALWAYS_MAYBE).and_then(FilterBuilder::finish);
        // If the build fails, the bytes are empty. They are not a filter block, so the filter
        // answers "maybe", too.
        Opened::open(&block.map(|built| built.bytes).unwrap_or_default(), &self.config).1
    }
}

impl slatedb::FilterBuilder for Builder {
    /// Adds an entry of any type: a value, a merge operand or a tombstone.
    fn add_entry(&mut self, entry: &RowEntry) {
        if self.incomplete.is_some() || self.is_adding {
            return;
        }
        self.is_adding = true;
        if let Err(error) = self.add_key(&entry.key) {
            self.incomplete = Some(error);
            self.hashes = Vec::new();
        }
        self.is_adding = false;
    }

    /// Builds the filter, and counts the build. If the build fails, reports the error and returns
    /// an always-maybe filter. The hashes stay, so a second call returns the same filter.
    fn build(&mut self) -> Arc<dyn Filter> {
        let built = self.encode();
        self.config.counters.count_build(built.is_ok());
        Arc::new(built.unwrap_or_else(|error| {
            self.config.report(&error);
            self.incomplete = Some(error);
            self.always_maybe()
        }))
    }
}
