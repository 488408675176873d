//! Defines a value that a read returns, without a copy if possible.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::lsm::memtable::Memtable;
use crate::lsm::memtable::entry::Entry;
use crate::lsm::memtable::skiplist::Node;
use crate::sstable::{BlockValue, FoundValue};

/// The form in which a read of the store returns a value: a copy, or a [`PinnableSlice`].
pub(crate) trait ReadValue: FoundValue {
    /// Creates the result from a node of a memtable. `value` is the value of that node.
    fn of_memtable(memtable: &Arc<Memtable>, node: Node, value: &[u8]) -> Self;
}

impl ReadValue for Vec<u8> {
    #[inline]
    fn of_memtable(_: &Arc<Memtable>, _: Node, value: &[u8]) -> Self {
        value.to_vec()
    }
}

/// A value that [`crate::lsm::Db::get_pinned`] returns. It dereferences to the bytes of the value, and
/// keeps the memory that holds them:
///
/// * One block of an SST, if the value comes from an SST and there is a block cache
///   ([`crate::Options::block_cache_bytes`]). Its size is about
///   [`crate::Options::block_size_bytes`], or more if a single entry is longer.
/// * The memtable with all its entries ([`crate::Options::write_buffer_bytes`]), if the read found
///   the value in a memtable.
/// * A copy of the value, if it comes from an SST and there is no block cache.
///
/// Flushes, compactions and the block cache do not change this memory, and it outlives the store.
/// The thread that drops the last reference frees it.
pub struct PinnableSlice(Pinned);

enum Pinned {
    Copied(Vec<u8>),
    Block(BlockValue),
    Memtable(Arc<Memtable>, Node),
}

impl Deref for PinnableSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pinned::Copied(value) => value,
            Pinned::Block(value) => value,
            // A memtable keeps all its nodes, and the node of a pinned value is no tombstone.
            Pinned::Memtable(memtable, node) => memtable.version(*node).and_then(Entry::value).unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for PinnableSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnableSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PinnableSlice").field(&&**self).finish()
    }
}

impl FoundValue for PinnableSlice {
    #[inline]
    fn copied(value: &[u8]) -> Self {
        Self(Pinned::Copied(value.to_vec()))
    }

    #[inline]
    fn of_block(value: BlockValue) -> Self {
        Self(Pinned::Block(value))
    }
}

impl ReadValue for PinnableSlice {
    #[inline]
    fn of_memtable(memtable: &Arc<Memtable>, node: Node, _: &[u8]) -> Self {
        Self(Pinned::Memtable(Arc::clone(memtable), node))
    }
}
