//! Runs SurrealKV.

use std::path::Path;

use filterblock_testkit::measure::keys::Key;
use surrealkv::{CompactRangeOptions, Mode, Options, Transaction, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::engine::{BLOCK_BYTES, Contender, Engine, Outcome, Settings, Store, text};
use crate::version_of;

/// An upper limit for the number of SSTs in level 0. No layout reaches this limit.
const NO_COMPACTION: usize = 10_000;

/// Returns the contender. Its default filter, a Bloom filter of ten bits per key, stays.
pub fn contender() -> Contender {
    Contender {
        name: "surrealkv",
        version: version_of("surrealkv").into(),
        most_runs: NO_COMPACTION - 1,
        batched: false,
        open,
    }
}

fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(text)?;
    let mut options = Options::new()
        .with_path(dir.into())
        .with_block_size(BLOCK_BYTES)
        .with_block_cache_capacity(settings.cache_bytes as u64)
        .with_max_memtable_size(settings.write_buffer_bytes)
        .without_compression();
    if !settings.compacts {
        options.level0_max_files = NO_COMPACTION;
        options.l0_stall_threshold = NO_COMPACTION;
    }
    let tree = {
        let _in_runtime = runtime.enter();
        TreeBuilder::with_options(options).build().map_err(text)?
    };
    Ok(Box::new(SurrealKv { reads: None, tree, runtime }))
}

struct SurrealKv {
    /// The read transaction that answers the gets of one loop.
    reads: Option<Transaction>,
    tree: Tree,
    runtime: Runtime,
}

impl SurrealKv {
    fn compact_to(&self, target_level: Option<u8>) -> Outcome<()> {
        let options = CompactRangeOptions { target_level, ..CompactRangeOptions::default() };
        let _in_runtime = self.runtime.enter();
        self.tree.compact_range(None, None, &options).map_err(text)
    }
}

impl Engine for SurrealKv {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        let mut writes = self.tree.begin_with_mode(Mode::WriteOnly).map_err(text)?;
        pairs.iter().try_for_each(|(key, value)| writes.set(key, value)).map_err(text)?;
        self.runtime.block_on(writes.commit()).map_err(text)
    }

    fn flush(&mut self) -> Outcome<()> {
        // A compaction into level 0 only writes the memtable.
        self.compact_to(Some(0))
    }

    fn compact(&mut self) -> Outcome<()> {
        self.compact_to(None)
    }

    fn begin_reads(&mut self) -> Outcome<()> {
        self.reads = Some(self.tree.begin_with_mode(Mode::ReadOnly).map_err(text)?);
        Ok(())
    }

    #[inline]
    fn get<R>(&mut self, key: &Key, answer: impl FnOnce(Option<&[u8]>) -> R) -> Outcome<R> {
        let reads = self.reads.as_ref().ok_or("no read transaction")?;
        reads.get(key).map(|found| answer(found.as_deref())).map_err(text)
    }

    fn close(mut self) -> Outcome<()> {
        self.reads = None;
        self.runtime.block_on(self.tree.close()).map_err(text)
    }
}
