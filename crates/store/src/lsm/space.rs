//! Room on the disk: what is kept free, so that a store that is full can be emptied.
//!
//! Deletions need room before they give any back: for their log, for their table, and for the merge that drops what they
//! delete. So puts are refused while that much is still there. Without it the first write that finds the disk full would
//! be one of the log, or the merge that makes room would be the one that has none.

use super::batch::WriteBatch;
use super::log_file::RECORD_HEADER_LEN_BYTES;
use super::shared::Shared;
use super::version::Version;
use super::version_edit::NUM_LEVELS;
use super::write_queue::MAX_UNSEEN_BYTES;
use crate::error::{Error, Result};
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// For `CURRENT`, a log's header, the end of each file's last page.
const SMALL_FILES_BYTES: u64 = 64 << 10;

/// What a table in the making leaves to the log, where there is as much: a log that meets the end of the disk refuses
/// all writes.
const LOG_ROOM_BYTES: u64 = 4 << 20;

/// What is free, and what for.
#[derive(Debug, Clone, Copy)]
struct Room {
    free: u64,
    /// For a manifest and a merge.
    kept: u64,
    /// In memtables, and so in logs: it becomes tables, and is merged then.
    in_memory: u64,
}

impl Room {
    /// What must be free for a batch: it is written to the log and to a table, and makes the merge longer.
    fn needed(&self, batch_len: u64) -> u64 {
        let unmerged = self.in_memory.saturating_mul(2).saturating_add(batch_len.saturating_mul(3));
        self.kept.saturating_add(unmerged)
    }
}

impl Shared {
    /// Whether there is room for a batch. Not exact: others may be under way, and others than this store may write.
    ///
    /// # Errors
    /// [`Error::NoSpace`] for a batch that puts, when less is free than is to be kept.
    pub(super) fn check_space(&self, batch: &WriteBatch) -> Result<()> {
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
        // A better reason, if there is one.
        self.background.check_writable()?;
        let Some(mut room) = self.room() else {
            self.writing.queue.space.allow(MAX_UNSEEN_BYTES, false);
            return Ok(());
        };
        // A full memtable would need as much again when it is too late. Not for a few bytes: each would become a table.
        let is_worth_it = room.in_memory > 0 && room.in_memory >= room.free / 32;
        if room.free < room.needed(len) && is_worth_it && !lock(&self.background.work).flushes.is_failing() {
            // Deletions go on as long as the log takes them, and puts are judged by what is free then.
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

    /// `None` where the storage does not say what is free.
    fn room(&self) -> Option<Room> {
        // A system that does not answer is no reason to refuse a write: should there be no room, the write will tell.
        let free = self.options.storage.free_bytes(&self.identity.dir).ok()??;
        let state = self.reading.state.load();
        let in_memory: usize = state.waiting.iter().chain([&state.memtable]).map(|memtable| memtable.len_bytes()).sum();
        let kept = self.options.reserve_bytes.unwrap_or_else(|| self.reserve(&state.version));
        Some(Room { free, kept, in_memory: in_memory as u64 })
    }

    /// What a manifest and the largest merge of the background take.
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
            // Level 0 grows as long as its owner wants, and so would what a merge of it takes.
            return manifest;
        }
        // One table of a level meets about so many of the next; level 0 is merged whole.
        let of_one_table = self.options.table_size_bytes.saturating_mul(self.options.size_ratio().saturating_add(3));
        let merges = bytes.windows(2).enumerate().map(|(level, pair)| {
            let both = pair.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
            if level == 0 { both } else { both.min(of_one_table) }
        });
        merges.max().unwrap_or(0).saturating_add(manifest)
    }

    /// How long tables may become that are written now. They must not take the log's room: a merge that finds none is
    /// tried again, and a log that finds none refuses all writes.
    pub(super) fn table_allowance(&self) -> TableAllowance<'_> {
        let is_judged = self.options.reserve_bytes != Some(0);
        let free = if is_judged { self.options.storage.free_bytes(&self.identity.dir).ok().flatten() } else { None };
        let allowed = free.map_or(u64::MAX, |free| free - LOG_ROOM_BYTES.min(free / 4));
        TableAllowance { shared: self, free: free.unwrap_or(u64::MAX), allowed }
    }
}

/// What [`Shared::table_allowance`] gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableAllowance<'a> {
    shared: &'a Shared,
    free: u64,
    allowed: u64,
}

impl TableAllowance<'_> {
    /// # Errors
    /// [`Error::NoSpace`] if so many bytes are too many.
    pub(super) fn check(&self, len_bytes: u64) -> Result<()> {
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
