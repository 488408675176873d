//! Publishes the state of the store that reads use, and the last write that reads may see. Defines
//! the forms in which a read returns a value.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Version;
use super::batch_read::Batch;
use super::level::Probe;
use crate::error::Result;
use crate::lsm::memtable::Memtable;
use crate::lsm::memtable::skiplist::{Entry, Node};
use crate::lsm::stats::Recorder;
use crate::lsm::wal::batch::WriteBatch;
use crate::sstable::{BlockValue, CachedBlock, FoundValue};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{ArcSwap, Mutex, lock};
use filterblock::KeyHasher;

/// The memtables and the SSTs that a read uses. Writes add to the memtable. Any other change
/// replaces the whole state.
#[derive(Debug, Clone)]
pub(crate) struct ReadState {
    pub(crate) memtable: Arc<Memtable>,
    /// Immutable memtables that wait for their flush, newest first.
    pub(crate) immutable: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

#[derive(Debug)]
pub(crate) struct Published {
    state: ArcSwap<ReadState>,
    /// Held while `state` is replaced.
    change: Mutex<()>,
    /// The sequence number of the last write that reads may see.
    visible: AtomicU64,
    /// Replaced states that reads may still use. A read that dropped the last reference to a state
    /// would close and remove the files of replaced SSTs. The references in this list prevent that
    /// while the store is open.
    replaced: Mutex<Vec<Arc<ReadState>>>,
}

impl Published {
    pub(crate) fn new(state: ReadState, last_sequence: u64) -> Self {
        let visible = AtomicU64::new(last_sequence);
        Self { state: ArcSwap::from_pointee(state), change: Mutex::default(), visible, replaced: Mutex::default() }
    }

    #[inline]
    pub(crate) fn load(&self) -> impl Deref<Target = Arc<ReadState>> {
        self.state.load()
    }

    pub(crate) fn load_full(&self) -> Arc<ReadState> {
        self.state.load_full()
    }

    /// Returns the state, and the sequence number of the last write that a reader of the state may
    /// see.
    #[inline]
    pub(crate) fn moment(&self) -> (impl Deref<Target = Arc<ReadState>>, u64) {
        let state = self.state.load();
        // Load the sequence number after the state. SSTs do not store the sequence numbers of their
        // writes, so the number must cover every write in the SSTs of the state.
        (state, self.last_visible())
    }

    #[inline]
    pub(crate) fn last_visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Lets reads see all writes up to `sequence`. These writes must already be in memtables or in
    /// SSTs.
    pub(crate) fn make_visible(&self, sequence: u64) {
        self.visible.store(sequence, Ordering::Release);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ReadState)) {
        let _guard = lock(&self.change);
        let mut state = ReadState::clone(&self.state.load());
        change(&mut state);
        let replaced = self.state.swap(Arc::new(state));
        lock(&self.replaced).push(replaced);
    }

    /// Drops the replaced states that no read uses any more. This may free memtables and remove the
    /// files of replaced SSTs.
    pub(crate) fn drop_replaced(&self) {
        // A count of 1 cannot grow again: reads find only the current state. The swap that replaced
        // a state has added the reads in progress to the count of that state.
        let is_unused = |state: &mut Arc<ReadState>| Arc::strong_count(state) == 1;
        let unused: Vec<_> = lock(&self.replaced).extract_if(.., is_unused).collect();
        drop(unused);
    }

    /// Inserts batches into the memtable and then makes all their writes visible at once. The first
    /// write has the number `first`. Returns the number of the last write. Only one thread at a
    /// time may call this function, and no thread may replace the memtable meanwhile.
    ///
    /// # Errors
    /// After an error, the memtable may hold a part of the batches, which must never become
    /// visible.
    pub(crate) fn apply(&self, batches: &[&WriteBatch], first: u64, hasher: &KeyHasher) -> Result<u64> {
        let state = self.state.load();
        let mut sequence = first;
        for op in batches.iter().flat_map(|batch| batch.iter()) {
            let op = op?;
            state.memtable.insert(op.key(), op.value(), hasher.of(op.key()), sequence)?;
            sequence += 1;
        }
        self.make_visible(sequence - 1);
        Ok(sequence - 1)
    }
}

impl ReadState {
    /// Replaces the memtable. If the old memtable holds entries, it becomes immutable and waits for
    /// its flush.
    pub(crate) fn rotate(&mut self, memtable: Arc<Memtable>) {
        let full = std::mem::replace(&mut self.memtable, memtable);
        if !full.is_empty() {
            self.immutable.insert(0, full);
        }
    }

    /// Returns the newest version of a key in the memtables, as of the write with the number
    /// `sequence`. The outer `None` means that there is no version; the inner `None` is a
    /// tombstone.
    #[inline]
    pub(crate) fn get_from_memory<V: ReadValue>(&self, probe: &Probe<'_>, sequence: u64) -> Option<Option<V>> {
        let get = |memtable: &Arc<Memtable>| {
            let (node, version) = memtable.get(probe.key, probe.hash, sequence)?;
            Some(version.value().map(|value| V::of_memtable(memtable, node, value)))
        };
        let found = get(&self.memtable);
        if found.is_some() || self.immutable.is_empty() {
            return found;
        }
        self.immutable.iter().find_map(get)
    }

    pub(crate) fn get_batch_from_memory(
        &self,
        batch: &mut Batch<'_>,
        values: &mut [Option<Vec<u8>>],
        sequence: u64,
        recorder: Recorder<'_>,
    ) {
        if self.memtable.is_empty() && self.immutable.is_empty() {
            return;
        }
        for (place, value) in (0u32..).zip(values) {
            let found = batch.probe(place).and_then(|probe| self.get_from_memory(&probe, sequence));
            let Some(found) = found else { continue };
            *value = found;
            batch.open &= !(1 << place);
            recorder.memory_hit();
        }
    }
}

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

/// A value that [`crate::Db::get_pinned`] returns. It dereferences to the bytes of the value, and
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
    fn of_block(block: CachedBlock<'_>, value: &[u8]) -> Option<Self> {
        BlockValue::new(block, value).map(|value| Self(Pinned::Block(value)))
    }
}

impl ReadValue for PinnableSlice {
    #[inline]
    fn of_memtable(memtable: &Arc<Memtable>, node: Node, _: &[u8]) -> Self {
        Self(Pinned::Memtable(Arc::clone(memtable), node))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_read_never_drops_the_last_reference_to_a_state() {
        let state = ReadState { memtable: Arc::new(Memtable::new(1, 0)), immutable: vec![], version: Arc::default() };
        let published = Published::new(state, 0);
        let (read, other_read) = (published.load_full(), published.load_full());
        let first = Arc::downgrade(&read);
        published.change(|state| state.memtable = Arc::new(Memtable::new(2, 0)));
        published.drop_replaced();
        drop(read);
        published.drop_replaced();
        assert!(first.upgrade().is_some(), "the state was dropped while another read used it");
        drop(other_read);
        assert!(first.upgrade().is_some(), "a read dropped the state");
        published.drop_replaced();
        assert!(first.upgrade().is_none());
        assert_eq!(published.load().memtable.log_number, 2);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use filterblock::HashSeed;

    const KEYS: [&[u8]; 2] = [b"a", b"b"];

    /// Writes one batch as the leader of a write group does. All its values are `number`.
    fn write(store: &Published, hasher: &KeyHasher, number: u8) {
        let mut batch = WriteBatch::new();
        KEYS.iter().for_each(|key| batch.put(key, &[number]).unwrap());
        let first = u64::from(number - 1) * 2 + 1;
        assert_eq!(store.apply(&[&batch], first, hasher).unwrap(), first + 1);
    }

    /// Returns the number of the batch that a read sees, or 0 without one. Checks that all keys
    /// belong to this batch.
    fn read(state: &ReadState, sequence: u64, hasher: &KeyHasher) -> u8 {
        let get = |key: &&[u8]| state.get_from_memory::<Vec<u8>>(&Probe::new(key, hasher), sequence).flatten();
        let [a, b] = KEYS.each_ref().map(|key| get(key).map_or(0, |value| value[0]));
        assert_eq!(a, b, "a read at sequence number {sequence} saw half of a batch");
        a
    }

    #[test]
    fn a_reader_sees_whole_batches_while_memtables_are_replaced() {
        let mut builder = loom::model::Builder::new();
        // The same bound as in the models of the memtable.
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let state =
                ReadState { memtable: Arc::new(Memtable::new(1, 0)), immutable: vec![], version: Arc::default() };
            let store = loom::sync::Arc::new(Published::new(state, 0));
            let hasher = KeyHasher::from(HashSeed(1));
            let (for_writer, hasher_of_writer) = (store.clone(), hasher.clone());
            // A read must see every write that was acknowledged before it began.
            let acknowledged = loom::sync::Arc::new(AtomicU64::new(0));
            let acknowledge = acknowledged.clone();
            let writer = loom::thread::spawn(move || {
                write(&for_writer, &hasher_of_writer, 1);
                acknowledge.store(1, Ordering::Release);
                for_writer.change(|state| state.rotate(Arc::new(Memtable::new(2, 0))));
                write(&for_writer, &hasher_of_writer, 2);
            });
            let floor = acknowledged.load(Ordering::Acquire);
            let (state, sequence) = store.moment();
            let state = Arc::clone(&state);
            let first = read(&state, sequence, &hasher);
            assert!(u64::from(first) >= floor, "an acknowledged write is missing");
            let (later, later_sequence) = store.moment();
            assert!(read(&later, later_sequence, &hasher) >= first, "the read saw an older state than the first one");
            assert_eq!(read(&state, sequence, &hasher), first, "a snapshot has changed");
            writer.join().unwrap();
            let (state, sequence) = store.moment();
            assert_eq!(read(&state, sequence, &hasher), 2);
        });
    }
}
