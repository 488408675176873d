//! Runs filterblock-store, once with its defaults and once with 10 bits per key and no map of runs.

use std::path::Path;
use std::sync::Arc;

use filterblock::FilterSpec;
use filterblock_store::lsm::{Db, Options, WriteBatch};
use filterblock_testkit::measure::keys::Key;

use crate::engine::{BLOCK_BYTES, Contender, Engine, Outcome, Settings, Store, text};
use crate::version_of;

/// Returns a contender with the default options, and one that can be compared with the other stores
/// filter by filter: about 10 bits per key in all levels, and no map of runs.
pub fn contenders() -> Vec<Contender> {
    let contender = |name, open| Contender {
        name,
        version: version_of("filterblock-store").into(),
        most_runs: usize::MAX,
        batched: true,
        open,
    };
    vec![contender("filterblock", open_default), contender("filterblock blocked-bloom:10", open_blocked)]
}

fn open_default(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    open(dir, settings, Options::default())
}

fn open_blocked(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let filter: FilterSpec = "blocked-bloom:10".parse().map_err(text)?;
    open(dir, settings, Options { filter: Some(Arc::new(filter)), run_map_trigger: None, ..Options::default() })
}

fn open(dir: &Path, settings: &Settings, options: Options) -> Outcome<Box<dyn Store>> {
    let options = Options {
        write_buffer_bytes: settings.write_buffer_bytes,
        auto_compaction: settings.compacts,
        block_size_bytes: BLOCK_BYTES,
        block_cache_bytes: settings.cache_bytes as u64,
        ..options
    };
    Ok(Box::new(Filterblock(Db::open(dir, options).map_err(text)?)))
}

struct Filterblock(Db);

impl Engine for Filterblock {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        let mut batch = WriteBatch::new();
        pairs.iter().try_for_each(|(key, value)| batch.put(key, value)).map_err(text)?;
        self.0.write(batch).map_err(text)
    }

    fn flush(&mut self) -> Outcome<()> {
        self.0.flush().map_err(text)
    }

    fn compact(&mut self) -> Outcome<()> {
        self.0.compact_range(..).map_err(text)
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        self.0.get(key).map(|found| answer(found.as_deref())).map_err(text)
    }

    fn multi_get(&mut self, keys: &[Key], mut answer: impl FnMut(usize, Option<&[u8]>)) -> Outcome<()> {
        let found = self.0.multi_get(keys).map_err(text)?;
        found.iter().enumerate().for_each(|(i, value)| answer(i, value.as_deref()));
        Ok(())
    }

    fn close(self) -> Outcome<()> {
        self.0.close().map_err(text)
    }
}
