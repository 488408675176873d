//! Keeps space free on the disk, so that a full store can be emptied.
//!
//! Deletions need space before they release any: for their log records, for their SST file, and for
//! the merge that drops the deleted entries. The store therefore refuses puts as soon as only this
//! space is left, unless [`crate::lsm::Options::reserve_bytes`] is 0. Without the refusal, the disk
//! could become full in the merge that would release space, or in a write to the log. A failed
//! write to the log poisons the store.

use crate::error::{Error, Result};
use crate::lsm::manifest::edit::NUM_LEVELS;
use crate::lsm::shared::{MAX_UNSEEN_BYTES, Shared};
use crate::lsm::version::Version;
use crate::lsm::wal::RECORD_HEADER_LEN_BYTES;
use crate::lsm::wal::batch::WriteBatch;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// The space in bytes for `CURRENT`, for a log's header and for the unused end of each file's last
/// page.
const SMALL_FILES_BYTES: u64 = 64 << 10;

/// The maximum space in bytes that new SST files leave free for the log. If the free space is less
/// than four times this maximum, they leave a quarter of it. A log on a full disk refuses all
/// writes.
const LOG_ROOM_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, Copy)]
struct Room {
    free: u64,
    /// The reserve in bytes: see [`crate::lsm::Options::reserve_bytes`].
    kept: u64,
    /// The bytes of writes that are in memtables and in logs. They become SSTs and are merged
    /// later.
    in_memory: u64,
}

impl Room {
    /// Returns the space that must be free to accept a batch. A batch takes its length three times:
    /// in the log, in an SST file and in the merge.
    fn needed(&self, batch_len: u64) -> u64 {
        let unmerged = self.in_memory.saturating_mul(2).saturating_add(batch_len.saturating_mul(3));
        self.kept.saturating_add(unmerged)
    }
}

impl Shared {
    /// Checks that the disk has space for a batch. If space is short, the call may first flush the
    /// memtable and wait for the flush. The check is approximate: it reads the free space only from
    /// time to time, and other writes may be in progress, in this store or in other programs.
    ///
    /// # Errors
    /// Returns [`Error::NoSpace`] if space is short and the batch contains a put. May return
    /// [`Error::Poisoned`] if the store has failed before.
    pub(crate) fn check_space(&self, batch: &WriteBatch) -> Result<()> {
        if self.options.reserve_bytes == Some(0) {
            return Ok(());
        }
        let space = &self.writing.queue.space;
        let len = (batch.len_bytes() + RECORD_HEADER_LEN_BYTES) as u64;
        let written = space.written.fetch_add(len, Ordering::Relaxed).saturating_add(len);
        let is_refused = || space.is_short.load(Ordering::Relaxed) && has_puts(batch);
        if written <= space.allowance.load(Ordering::Relaxed) && !is_refused() {
            return Ok(());
        }
        self.look_for_space(batch, len)
    }

    #[cold]
    fn look_for_space(&self, batch: &WriteBatch, len: u64) -> Result<()> {
        // If the store has failed, report the failure and not the missing space.
        self.background.check_writable()?;
        let Some(mut room) = self.room() else {
            self.writing.queue.space.allow(MAX_UNSEEN_BYTES, false);
            return Ok(());
        };
        // Flush now: the SST of the memtable takes about as much space as the memtable, and later
        // this space may be gone. Do not flush a few bytes, because each flush creates an SST.
        let is_worth_it = room.in_memory > 0 && room.in_memory >= room.free / 32;
        if room.free < room.needed(len) && is_worth_it && !lock(&self.background.work).flushes.is_failing() {
            // Ignore a failed flush. Deletions continue as long as the log accepts them, and the
            // check below judges puts by the free space after the flush.
            let _ = self.flush();
            room = self.room().unwrap_or(room);
        }
        let is_short = room.free < room.needed(len);
        let unseen = room.free.saturating_sub(room.needed(len)) / 4;
        self.writing.queue.space.allow(unseen, is_short);
        if is_short && has_puts(batch) {
            return Err(
                Error::NoSpace { free_bytes: room.free, kept_bytes: room.needed(len) }.in_file(&self.identity.dir)
            );
        }
        Ok(())
    }

    /// `None` if the storage does not report its free space.
    fn room(&self) -> Option<Room> {
        // If the storage cannot tell the free space, the caller accepts the write. If there is no
        // space, the write itself fails.
        let free = self.options.storage.free_bytes(&self.identity.dir).ok()??;
        let state = self.reading.state.load();
        let in_memory: usize =
            state.immutable.iter().chain([&state.memtable]).map(|memtable| memtable.len_bytes()).sum();
        let kept = self.options.reserve_bytes.unwrap_or_else(|| self.reserve(&state.version));
        Some(Room { free, kept, in_memory: in_memory as u64 })
    }

    /// Returns the space for a manifest and for the largest background merge.
    fn reserve(&self, version: &Version) -> u64 {
        let mut bytes = [0u64; NUM_LEVELS + 1];
        let mut manifest = SMALL_FILES_BYTES;
        for (level, table) in version.all_tables() {
            if let Some(bytes) = bytes.get_mut(level) {
                *bytes = bytes.saturating_add(table.meta.len_bytes);
            }
            manifest += 64 + (table.meta.smallest.len() + table.meta.largest.len()) as u64;
        }
        if !self.options.auto_compaction {
            // The caller decides when to compact, so level 0 and its merge have no bound.
            return manifest;
        }
        // One SST of a level, together with the SSTs of the next level that it overlaps, has about
        // this length. Level 0 is merged as a whole.
        let of_one_table = self.options.table_size_bytes.saturating_mul(self.options.size_ratio().saturating_add(3));
        let merges = bytes.windows(2).enumerate().map(|(level, pair)| {
            let both = pair.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
            if level == 0 { both } else { both.min(of_one_table) }
        });
        merges.max().unwrap_or(0).saturating_add(manifest)
    }

    /// Returns the total length up to which the new SST files of a flush or merge may grow. They
    /// must leave space for the log: a merge without space is retried, but a log without space
    /// refuses all writes. There is no limit if [`crate::lsm::Options::reserve_bytes`] is 0 or the free
    /// space is unknown.
    pub(crate) fn table_allowance(&self) -> TableAllowance<'_> {
        let is_judged = self.options.reserve_bytes != Some(0);
        let free = if is_judged { self.options.storage.free_bytes(&self.identity.dir).ok().flatten() } else { None };
        let allowed = free.map_or(u64::MAX, |free| free - LOG_ROOM_BYTES.min(free / 4));
        TableAllowance { shared: self, free: free.unwrap_or(u64::MAX), allowed }
    }
}

/// The limit for the total length of new SST files: see [`Shared::table_allowance`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableAllowance<'a> {
    shared: &'a Shared,
    free: u64,
    allowed: u64,
}

impl TableAllowance<'_> {
    pub(crate) fn check(&self, len_bytes: u64) -> Result<()> {
        if len_bytes <= self.allowed {
            return Ok(());
        }
        let kept_bytes = self.free - self.allowed;
        Err(Error::NoSpace { free_bytes: self.free.saturating_sub(len_bytes), kept_bytes }
            .in_file(&self.shared.identity.dir))
    }
}

fn has_puts(batch: &WriteBatch) -> bool {
    batch.iter().any(|op| op.is_ok_and(|op| op.value().is_some()))
}
