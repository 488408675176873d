//! Runs redb, a B-tree. It has no runs and no filters.

use std::path::Path;

use filterblock_testkit::measure::keys::Key;
use redb::{Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};

use crate::engine::{Contender, Engine, Outcome, Settings, Store, text};
use crate::version_of;

const TABLE: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("keys");

pub fn contender() -> Contender {
    Contender { name: "redb", version: version_of("redb").into(), most_runs: 0, batched: false, open }
}

fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let mut builder = Builder::new();
    builder.set_cache_size(settings.cache_bytes);
    let database = builder.create(dir.join("store.redb")).map_err(text)?;
    Ok(Box::new(Redb { reads: None, database }))
}

struct Redb {
    /// The read transaction that answers the gets of one loop.
    reads: Option<ReadOnlyTable<&'static [u8; 16], &'static [u8]>>,
    database: Database,
}

impl Redb {
    fn write(&mut self, pairs: &[(Key, Vec<u8>)], durability: Durability) -> Outcome<()> {
        let mut writes = self.database.begin_write().map_err(text)?;
        writes.set_durability(durability).map_err(text)?;
        {
            let mut table = writes.open_table(TABLE).map_err(text)?;
            for (key, value) in pairs {
                table.insert(key, value.as_slice()).map_err(text)?;
            }
        }
        writes.commit().map_err(text)
    }
}

impl Engine for Redb {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        self.write(pairs, Durability::None)
    }

    fn flush(&mut self) -> Outcome<()> {
        // A commit without durability becomes durable only with a later durable commit.
        self.write(&[], Durability::Immediate)
    }

    fn compact(&mut self) -> Outcome<()> {
        self.reads = None;
        self.database.compact().map(drop).map_err(text)
    }

    fn begin_reads(&mut self) -> Outcome<()> {
        let reads = self.database.begin_read().map_err(text)?;
        self.reads = Some(reads.open_table(TABLE).map_err(text)?);
        Ok(())
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        let reads = self.reads.as_ref().ok_or("no read transaction")?;
        let found = reads.get(key).map_err(text)?;
        Ok(answer(found.as_ref().map(|value| value.value())))
    }

    fn close(mut self) -> Outcome<()> {
        self.reads = None;
        self.database.close().map_err(text)
    }
}
