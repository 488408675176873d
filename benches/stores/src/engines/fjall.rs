//! Runs fjall.

use std::path::Path;
use std::sync::Arc;

use filterblock_testkit::measure::keys::Key;
use fjall::compaction::Leveled;
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};

use crate::engine::{BITS_PER_KEY, Contender, Engine, Outcome, Settings, Store, text};
use crate::version_of;

pub fn contender() -> Contender {
    Contender {
        name: "fjall",
        version: version_of("fjall").into(),
        // With 20 runs, fjall slows down writers until a compaction ends.
        most_runs: 19,
        batched: false,
        open,
    }
}

fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let database = Database::builder(dir).cache_size(settings.cache_bytes as u64).open().map_err(text)?;
    let options = || {
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BITS_PER_KEY.into()));
        let options = KeyspaceCreateOptions::default()
            .filter_policy(FilterPolicy::all(bloom))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .max_memtable_size(settings.write_buffer_bytes as u64);
        if settings.compacts {
            options
        } else {
            options.compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(u8::MAX)))
        }
    };
    let keyspace = database.keyspace("keys", options).map_err(text)?;
    Ok(Box::new(Fjall { database, keyspace }))
}

struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Engine for Fjall {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        let mut batch = self.database.batch();
        pairs.iter().for_each(|(key, value)| batch.insert(&self.keyspace, key, value.as_slice()));
        batch.commit().map_err(text)
    }

    fn flush(&mut self) -> Outcome<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(text)
    }

    fn compact(&mut self) -> Outcome<()> {
        self.keyspace.major_compact().map_err(text)
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        self.keyspace.get(key).map(|found| answer(found.as_deref())).map_err(text)
    }
}
