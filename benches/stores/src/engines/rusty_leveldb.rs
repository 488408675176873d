//! Runs rusty-leveldb. It compacts in the thread of its caller, even during gets.

use std::path::Path;
use std::rc::Rc;

use filterblock_testkit::measure::keys::Key;
use rusty_leveldb::{BloomPolicy, DB, Options, WriteBatch};

use crate::engine::{BITS_PER_KEY, BLOCK_BYTES, Contender, Engine, Outcome, Settings, Store, text};
use crate::version_of;

/// A key above all keys of the store.
const HIGHEST: [u8; 17] = [0xff; 17];

pub fn contender() -> Contender {
    Contender { name: "rusty-leveldb", version: version_of("rusty-leveldb").into(), most_runs: 0, batched: false, open }
}

fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let options = Options {
        write_buffer_size: settings.write_buffer_bytes,
        block_cache_capacity_bytes: settings.cache_bytes,
        block_size: BLOCK_BYTES,
        filter_policy: Rc::new(Box::new(BloomPolicy::new(BITS_PER_KEY.into()))),
        // The write-ahead log becomes an SST when the store is reopened.
        reuse_logs: false,
        ..Options::default()
    };
    Ok(Box::new(RustyLevelDb(DB::open(dir, options).map_err(text)?)))
}

struct RustyLevelDb(DB);

impl Engine for RustyLevelDb {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        self.0.write(batch, false).map_err(text)
    }

    fn compact(&mut self) -> Outcome<()> {
        self.0.compact_range(&[], &HIGHEST).map_err(text)
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        Ok(answer(self.0.get(key).as_deref()))
    }

    fn close(mut self) -> Outcome<()> {
        self.0.close().map_err(text)
    }
}
