//! Defines the options for opening a store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::wal::log_reader::LogRecovery;
use crate::error::Result;
use crate::sstable::{Compression, FilterMemory, FilterSpecs, check_ranges};
use crate::storage::{Disk, IoMode, Storage};
use filterblock::{
    HashKind, PrefixExtractor, Secret, Verify,
    policy::{ByLevel, FilterPolicy, TableShape},
};

/// The largest number of SSTs that level 0 may need for a map.
pub(super) const MAX_TRIGGER: usize = 128;

/// The condition under which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// A write is acknowledged when it is in the memtable and in the log's buffer. The buffer goes
    /// to the operating system when its 64 KiB are full, and about every 100 ms. A crash may lose
    /// the last writes. If it loses a write, it also loses all later writes.
    #[default]
    Buffered,
    /// A write is acknowledged when it is durable. Writers that wait at the same time share one
    /// sync.
    Sync,
}

/// Whether reads query the filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilterUse {
    /// Reads query the filters.
    #[default]
    Consult,
    /// Reads select SSTs by their key ranges alone. Use this to measure what filters save.
    Ignore,
}

/// The choice of the prefixes that the filters of a store hold beside the keys.
///
/// ```
/// use filterblock_store::lsm::{Options, PrefixChoice};
///
/// let options = Options { prefix_extractor: "fixed:8".parse()?, ..Options::default() };
/// assert_eq!("keep".parse::<PrefixChoice>()?, PrefixChoice::Keep);
/// # Ok::<(), filterblock_store::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PrefixChoice {
    /// The prefixes of the extractor that the manifest names. A new store has none. If the
    /// extractor is not built in, new filters hold no prefixes, and the store reports this.
    #[default]
    Keep,
    /// No prefixes.
    None,
    /// The prefixes of this extractor. If the manifest names another extractor or none, the store
    /// reports how many SSTs lack these prefixes. Scans cannot skip such an SST by its prefixes
    /// until a compaction rewrites it.
    By(PrefixExtractor),
}

impl From<PrefixExtractor> for PrefixChoice {
    fn from(extractor: PrefixExtractor) -> Self {
        Self::By(extractor)
    }
}

impl FromStr for PrefixChoice {
    type Err = filterblock::Error;

    /// Parses `keep`, `none` or the name of a built-in extractor.
    fn from_str(text: &str) -> filterblock::Result<Self> {
        match text {
            "keep" => Ok(Self::Keep),
            "none" => Ok(Self::None),
            name => Ok(Self::By(name.parse()?)),
        }
    }
}

impl fmt::Display for PrefixChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.pad("keep"),
            Self::None => f.pad("none"),
            Self::By(extractor) => f.pad(extractor.name()),
        }
    }
}

/// The options for opening a store. All fields have defaults, so
/// `Options { io: IoMode::Direct, ..Options::default() }` sets one field.
///
/// # Memory
///
/// A store takes memory mainly:
///
/// * for memtables: usually at most `2 * (max_immutable_memtables + 2) * write_buffer_bytes`, 192
///   MiB by default.
/// * for filters: by default 16 bits per key in level 0, 8.1 in bottommost SSTs of deeper levels,
///   and 10 in all other SSTs.
/// * for the map of level 0 ([`Options::run_map_trigger`]): 36 bits per key that it has room for.
///   After an open, it has room for the keys of level 0; later, usually for up to twice as many. A map
///   stays while an SST of level 0 is in it. Below the trigger, 8 bytes per key of level 0 that was
///   written since the open.
/// * for the index of each SST in use: a key and about 20 bytes for each data block.
/// * for the block cache: `block_cache_bytes`.
/// * while it compacts: the filter and the index of one SST of `table_size_bytes`, and about 16
///   bytes per key of this SST. A range filter takes over 10 more bytes per key.
#[derive(Debug, Clone)]
pub struct Options {
    /// The storage that holds the files.
    pub storage: Arc<dyn Storage>,
    /// Whether to create the store if the directory is missing or empty.
    pub create_if_missing: bool,
    /// Chooses the filter of each new SST ([`filterblock::FilterSpec`], [`ByLevel`],
    /// [`filterblock::policy::Monkey`], [`filterblock::policy::MemoryBudget`], or your own function). With `None`,
    /// new SSTs get no filter of keys.
    pub filter: Option<Arc<dyn FilterPolicy>>,
    /// Chooses the range filter of each new SST, beside its filter: a [`filterblock::FilterSpec`]
    /// such as `grafite:fpr=0.01` or `grafite:L=1024:fpr=0.01`, or your own function. Scans then
    /// skip SSTs whose range filter denies the range of the scan. With `None`, new SSTs get no
    /// range filter beside their filter; scans still ask the existing range filters. The choice is
    /// ignored for an SST for which [`Options::filter`] chooses a range filter.
    ///
    /// To save memory, a policy may choose no range filters for bottommost SSTs:
    /// [`filterblock::policy::AboveBottom`].
    pub range_filter: Option<Arc<dyn FilterPolicy>>,
    /// The prefixes that the filters hold beside the keys. Scans within one prefix then skip the
    /// SSTs whose filters deny the prefix. Each distinct prefix takes as much space in a filter as
    /// a key.
    pub prefix_extractor: PrefixChoice,
    /// Whether reads query the filters.
    pub filter_use: FilterUse,
    /// The hash kind for the keys of a new store. `None` means SipHash-1-3 with a secret and XXH3
    /// without one. An existing store keeps its hash kind, and does not open if this field asks for
    /// another one.
    pub hash: Option<HashKind>,
    /// The secret for hashing keys. A store that was created with a secret opens only with the same
    /// secret. A store that was created without a secret opens only without one.
    pub secret: Option<Secret>,
    /// The hash seed of a new store; set it to get the same hashes each time. `None` draws the seed
    /// from the operating system's entropy. An existing store keeps its seed.
    pub hash_seed: Option<u64>,
    /// The condition under which a write is acknowledged.
    pub durability: Durability,
    /// The size at which the memtable becomes immutable and is written to an SST file.
    pub write_buffer_bytes: usize,
    /// The number of immutable memtables at which writers wait for a flush. 0 counts as 1. While
    /// flushes fail, a write that would have to wait is refused
    /// ([`crate::Error::BackgroundFails`]).
    pub max_immutable_memtables: usize,
    /// The size of an SST file at which a compaction starts a new one.
    pub table_size_bytes: u64,
    /// The space to keep free on the disk, so that a full store can be emptied. Puts are refused
    /// ([`crate::Error::NoSpace`]) while the free space is below this reserve plus the space for
    /// the batch and the writes in memory. Deletions are not refused.
    ///
    /// `None` keeps about the space for a manifest and, with `auto_compaction`, for the largest
    /// background merge. 0 keeps nothing and never checks the free space.
    pub reserve_bytes: Option<u64>,
    /// Whether to compact in the background. Without it, writers never wait for compaction. If a
    /// background compaction finds a damaged SST, the store reports the damage. Background
    /// compactions then skip this SST, and every SST that would have to be merged with it, until
    /// the store is reopened.
    pub auto_compaction: bool,
    /// The number of SSTs in level 0 that starts a compaction; 0 counts as 1. Under a fast load,
    /// the compaction may wait until level 0 has more SSTs, so that compactions write fewer bytes
    /// in total.
    pub l0_compaction_trigger: usize,
    /// The number of SSTs in level 0 from which writers wait. A number below
    /// `l0_compaction_trigger` counts as that trigger.
    ///
    /// From three quarters of this number on, but never below `l0_compaction_trigger`, writers are
    /// slowed down by waits of up to 32 ms each.
    ///
    /// Writers do not wait for level 0 without `auto_compaction`, while compactions fail, or if a
    /// damaged SST keeps level 0 from being compacted.
    pub l0_stall_trigger: usize,
    /// The maximum size of level 1. If level 1 is larger, a compaction moves entries to level 2.
    pub level_base_bytes: u64,
    /// The ratio between the maximum sizes of a level and of the level above it. A ratio below 2
    /// counts as 2.
    pub level_size_ratio: u64,
    /// The method that reads data blocks: through the page cache, or by direct I/O.
    pub io: IoMode,
    /// The time at which the pages of filters are verified: at open, or on first touch.
    pub verify: Verify,
    /// The kind of memory that holds filters: the heap or a memory map.
    pub filter_memory: FilterMemory,
    /// The maximum number of bytes that the filters take in memory. With a limit, opening an SST reads no
    /// filter. The first read that needs a filter loads it onto the heap and verifies it, whatever
    /// [`Options::verify`] and [`Options::filter_memory`] say. A filter that does not fit is not asked:
    /// reads search the SST, and count as unfiltered.
    ///
    /// If many reads found no room, a background thread divides the limit anew, as
    /// [`Db::rebalance_filters`](super::Db::rebalance_filters) does, by the number of reads of each SST.
    /// Bumped ribbons first lose the range filters beside them, and then columns: each lost column saves
    /// about one bit per key and doubles the false-positive rate. Then filters that are seldom asked leave
    /// memory. The SST files keep everything.
    ///
    /// An unusable filter is found by the first read that needs it: with [`Options::strict_filters`], this
    /// read returns the error. [`filterblock::FilterCache`] has the details. `None` sets no limit, and
    /// every filter is opened with its SST.
    pub filter_memory_budget: Option<u64>,
    /// The number of SSTs in level 0 from which one map answers for the keys of all of them. A read of
    /// an absent key then asks one cache line instead of one filter for each SST. With fewer SSTs, the
    /// filters find present keys faster. A number below 2 counts as 2, and one above 128 counts as 128.
    /// `None` means that there is no map.
    ///
    /// Below this number, the store keeps the hashes of the keys that it flushes, 8 bytes each. After
    /// an open, a background thread reads the keys of level 0. Until it is done, reads ask the filters.
    /// An SST without a usable filter of keys is never in the map. Gets do not ask the filter of an SST
    /// in the map, so they do not find damage in pages that are verified on first touch. With
    /// [`Options::filter_memory_budget`], there is a map only while it fits in the budget beside the
    /// filters, twice for a moment.
    pub run_map_trigger: Option<usize>,
    /// Whether a damaged filter is an error. Otherwise the filter answers "maybe", and the damage
    /// is counted and reported.
    pub strict_filters: bool,
    /// The compression of data blocks.
    pub compression: Compression,
    /// The maximum size of a data block before compression. A larger entry gets a block of its own.
    pub block_size_bytes: usize,
    /// The size of the cache for data blocks; 0 disables the cache.
    pub block_cache_bytes: u64,
    /// The behaviour of recovery if a write-ahead log is missing or damaged.
    pub recovery: LogRecovery,
}

impl Options {
    /// Asks the policies for the filters of a new SST. Returns an error if the policy for range
    /// filters chooses a kind that is no range filter.
    pub(crate) fn choose_filters(&self, shape: &TableShape) -> Result<FilterSpecs> {
        let choose = |policy: &Option<Arc<dyn FilterPolicy>>| policy.as_ref().and_then(|policy| policy.choose(shape));
        FilterSpecs::of(choose(&self.filter), choose(&self.range_filter))
    }

    /// Asks the policy for range filters about two sample SSTs. Returns an error if the policy
    /// chooses, for one of them, a kind that is no range filter.
    pub(super) fn check(&self) -> Result<()> {
        let Some(policy) = &self.range_filter else { return Ok(()) };
        let shapes = [TableShape::new(1, 0, false), TableShape::new(1, 1, true)];
        shapes.iter().filter_map(|shape| policy.choose(shape)).try_for_each(check_ranges)
    }

    /// Returns the number of SSTs in level 0 from which reads ask its map, or `None` if there is no map.
    pub(super) fn min_mapped(&self) -> Option<usize> {
        let trigger = self.run_map_trigger.filter(|_| self.filter_use == FilterUse::Consult);
        trigger.map(|trigger| trigger.clamp(2, MAX_TRIGGER))
    }

    pub(super) fn size_ratio(&self) -> u64 {
        self.level_size_ratio.max(2)
    }

    pub(super) fn l0_stall(&self) -> usize {
        self.l0_stall_trigger.max(self.l0_compaction_trigger).max(1)
    }

    /// Returns the number of SSTs in level 0 from which writers are slowed down: three quarters of
    /// the number from which they wait, but never before a compaction is due.
    pub(super) fn l0_slowdown(&self) -> usize {
        let stall = self.l0_stall();
        (stall - stall / 4).max(self.l0_compaction_trigger)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            storage: Arc::new(Disk),
            create_if_missing: true,
            filter: Some(Arc::new(ByLevel::default())),
            prefix_extractor: PrefixChoice::default(),
            range_filter: None,
            filter_use: FilterUse::default(),
            hash: None,
            secret: None,
            hash_seed: None,
            durability: Durability::default(),
            write_buffer_bytes: 16 << 20,
            max_immutable_memtables: 4,
            table_size_bytes: 64 << 20,
            reserve_bytes: None,
            auto_compaction: true,
            l0_compaction_trigger: 4,
            l0_stall_trigger: 40,
            level_base_bytes: 256 << 20,
            level_size_ratio: 10,
            io: IoMode::default(),
            verify: Verify::default(),
            filter_memory: FilterMemory::default(),
            filter_memory_budget: None,
            run_map_trigger: Some(12),
            strict_filters: false,
            compression: Compression::None,
            block_size_bytes: 4096,
            block_cache_bytes: 0,
            recovery: LogRecovery::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_slowed_down_only_when_a_compaction_is_due() {
        for (trigger, stall, slowdown) in [(4, 40, 30), (64, 40, 64), (64, 70, 64), (0, 0, 1), (1, 1, 1)] {
            let options = Options { l0_compaction_trigger: trigger, l0_stall_trigger: stall, ..Options::default() };
            assert_eq!(options.l0_slowdown(), slowdown, "{trigger} {stall}");
        }
    }
}
