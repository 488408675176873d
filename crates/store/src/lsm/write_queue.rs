//! The writers that wait for the leader, and what they know of the room on the disk.

use std::sync::Arc;

use super::batch::WriteBatch;
use crate::error::Result;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// Batches that are written as one record have so many bytes in all, unless one alone has more.
const MAX_GROUP_LEN_BYTES: usize = 1 << 20;

/// What may be written before the free space is looked at again: others may write, too.
pub(super) const MAX_UNSEEN_BYTES: u64 = 1 << 20;
const MIN_UNSEEN_BYTES: u64 = 4 << 10;

/// Writers that wait for the leader.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    pub(super) inner: Mutex<Queue>,
    pub(super) changed: Condvar,
    pub(super) space: Space,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) has_leader: bool,
    pub(super) waiting: Vec<Arc<Ticket>>,
    /// Threads that sleep: waking nobody would still cost a system call.
    pub(super) sleepers: usize,
}

impl Queue {
    /// The oldest that wait, up to a size that neither keeps the first waiting for long nor overflows a log record.
    pub(super) fn take_group(&mut self) -> Vec<Arc<Ticket>> {
        let mut len_bytes = 0usize;
        let fitting = self.waiting.iter().take_while(|ticket| {
            len_bytes = len_bytes.saturating_add(ticket.batch.len_bytes());
            len_bytes <= MAX_GROUP_LEN_BYTES
        });
        let len = fitting.count().max(1).min(self.waiting.len());
        self.waiting.drain(..len).collect()
    }
}

#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) batch: WriteBatch,
    pub(super) sync: bool,
    pub(super) result: Mutex<Option<Result<()>>>,
}

/// What was last seen of the free space.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Bytes of batches since then.
    pub(super) written: AtomicU64,
    /// How many there may be before it is looked at again.
    pub(super) allowance: AtomicU64,
    /// Whether it was too little for puts.
    pub(super) is_short: AtomicBool,
}

impl Space {
    pub(super) fn allow(&self, bytes: u64, is_short: bool) {
        self.written.store(0, Ordering::Relaxed);
        self.allowance.store(bytes.clamp(MIN_UNSEEN_BYTES, MAX_UNSEEN_BYTES), Ordering::Relaxed);
        self.is_short.store(is_short, Ordering::Relaxed);
    }
}
