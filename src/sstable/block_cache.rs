//! Verified data blocks kept in memory, shared by any number of tables.

use std::fmt;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The content of a data block on the heap: checked, unpacked.
pub(super) type BlockContent = Arc<Vec<u8>>;

/// Which block: the number of the open table (never used twice in a process) and the block's offset.
type Place = (u64, u64);

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Place, BlockContent> for Bytes {
    fn weight(&self, _: &Place, content: &BlockContent) -> u64 {
        content.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// What an entry takes beside the block's content, roughly: key, pointer, counters, hash table slot.
const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// A cache of data blocks, bounded in bytes.
pub struct BlockCache(Cache<Place, BlockContent, Bytes>);

impl BlockCache {
    /// A cache of at most about `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let estimated_blocks = usize::try_from(capacity_bytes / 4096).unwrap_or(usize::MAX).clamp(1, 1 << 24);
        Self(Cache::with_weighter(estimated_blocks, capacity_bytes, Bytes))
    }

    /// The bytes in use.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(super) fn get(&self, table: u64, offset: u64) -> Option<BlockContent> {
        self.0.get(&(table, offset))
    }

    pub(super) fn insert(&self, table: u64, offset: u64, content: BlockContent) {
        self.0.insert((table, offset), content);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("blocks", &self.0.len()).field("bytes", &self.0.weight()).finish()
    }
}
