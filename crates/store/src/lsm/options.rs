//! How a store is opened.

use std::sync::Arc;

use super::log_reader::LogRecovery;
use crate::sstable::{Compression, FilterMemory};
use crate::storage::{Disk, IoMode, Storage};
use filterblock::Verify;
use filterblock::{ByLevel, FilterPolicy};
use filterblock::{HashKind, Secret};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// When it is in memory and in the log's buffer, which goes to the operating system when 64 KiB have gathered and
    /// every tenth of a second. A crash may lose the last writes, never one before a write that it kept.
    #[default]
    Buffered,
    /// When it is on the disk. Writers that wait together share one sync.
    Sync,
}

/// Whether reads ask the filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilterUse {
    /// Yes.
    #[default]
    Consult,
    /// No: every table whose range holds the key is searched. For measuring what filters save.
    Ignore,
}

/// How a store is opened. All fields have defaults: `Options { io: IoMode::Direct, ..Options::default() }`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where files live.
    pub storage: Arc<dyn Storage>,
    /// Create the store if the directory is missing or empty.
    pub create_if_missing: bool,
    /// Chooses the filter of each table written ([`filterblock::FilterSpec`], [`ByLevel`], [`filterblock::Monkey`],
    /// [`filterblock::MemoryBudget`], or a function of your own); `None` writes tables without filters.
    pub filter: Option<Arc<dyn FilterPolicy>>,
    /// Whether reads ask the filters.
    pub filter_use: FilterUse,
    /// What hashes the keys of a new store; `None` is SipHash-1-3 if there is a secret, and XXH3 if not. An existing store
    /// keeps its own, and does not open if another one is asked for here.
    pub hash: Option<HashKind>,
    /// The secret under which keys are hashed. A store made with one opens with no other and not without, one made
    /// without opens with none.
    pub secret: Option<Secret>,
    /// The seed of a new store's key hashes, for files that are to be the same each time; `None` draws it from the
    /// operating system's entropy. An existing store keeps its own.
    pub hash_seed: Option<u64>,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Writes gather in memory up to about this size before they become a table.
    pub write_buffer_bytes: usize,
    /// Full write buffers that may wait for the disk before writers do. Where they cannot be written to it, further writes
    /// are refused until they can ([`crate::Error::BackgroundFails`]).
    pub max_waiting_buffers: usize,
    /// Compaction starts a new table at this size.
    pub table_size_bytes: u64,
    /// What is kept free on the disk, so that a full store can be emptied: while less is free, puts are refused
    /// ([`crate::Error::NoSpace`]), deletions not. `None` keeps what a manifest and the largest merge take: all of
    /// levels 0 and 1, or some `table_size_bytes * (level_size_ratio + 3)` where a deeper merge takes more. Without
    /// `auto_compaction` it keeps the manifest's share alone. 0 keeps nothing and never looks at what is free.
    pub reserve_bytes: Option<u64>,
    /// Compact in the background. Without it, writers never wait for compaction either. When a compaction meets a damaged
    /// table, that is reported, and the table, with whatever would have to be merged with it, is left out until the store
    /// is reopened.
    pub auto_compaction: bool,
    /// Tables in level 0 that start a compaction.
    pub l0_compaction_trigger: usize,
    /// Tables in level 0 from which on writers wait.
    pub l0_stall_trigger: usize,
    /// The size of level 1.
    pub level_base_bytes: u64,
    /// Each further level may be so many times as large as the one above it; at least twice.
    pub level_size_ratio: u64,
    /// How data blocks are read.
    pub io: IoMode,
    /// When pages of filters are compared with their checksums.
    pub verify: Verify,
    /// Where filters lie in memory.
    pub filter_memory: FilterMemory,
    /// Make a damaged filter an error, instead of "maybe", a count and a report.
    pub strict_filters: bool,
    /// How data blocks are compressed.
    pub compression: Compression,
    /// Data blocks are about so large before compression.
    pub block_size_bytes: usize,
    /// Data blocks kept in memory; 0 is no cache.
    pub block_cache_bytes: u64,
    /// What to do about damage in the middle of a write-ahead log.
    pub recovery: LogRecovery,
}

impl Options {
    /// How many times as large as the level above it a level may be.
    pub(super) fn size_ratio(&self) -> u64 {
        self.level_size_ratio.max(2)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            storage: Arc::new(Disk),
            create_if_missing: true,
            filter: Some(Arc::new(ByLevel::default())),
            filter_use: FilterUse::default(),
            hash: None,
            secret: None,
            hash_seed: None,
            durability: Durability::default(),
            write_buffer_bytes: 16 << 20,
            max_waiting_buffers: 4,
            table_size_bytes: 64 << 20,
            reserve_bytes: None,
            auto_compaction: true,
            l0_compaction_trigger: 4,
            l0_stall_trigger: 20,
            level_base_bytes: 256 << 20,
            level_size_ratio: 10,
            io: IoMode::default(),
            verify: Verify::default(),
            filter_memory: FilterMemory::default(),
            strict_filters: false,
            compression: Compression::None,
            block_size_bytes: 4096,
            block_cache_bytes: 0,
            recovery: LogRecovery::default(),
        }
    }
}
