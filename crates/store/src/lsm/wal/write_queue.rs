//! Defines the queue of waiting writers.

use std::sync::Arc;

use super::batch::WriteBatch;
use crate::error::Result;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// The maximum length in bytes of a group of batches in one log record, unless a single batch is
/// longer.
const MAX_GROUP_LEN_BYTES: usize = 1 << 20;

/// The maximum number of bytes that are written before the free space is checked again, because
/// other programs may write, too.
pub(crate) const MAX_UNSEEN_BYTES: u64 = 1 << 20;

/// The minimum number of bytes that are written before the free space is checked again. With this
/// minimum, deletions on a full disk do not check at each write. Only puts check at each write
/// while space is short.
const MIN_UNSEEN_BYTES: u64 = 4 << 10;

/// Writers that wait for the leader, the bytes of the current step, and the result of the last
/// check of the free space.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    pub(crate) inner: Mutex<Queue>,
    pub(crate) changed: Condvar,
    pub(crate) space: Space,
    /// Bytes written since the last step.
    in_step: AtomicU64,
}

/// The minimum number of bytes in a step. The leader slows down at most once per step.
const STEP_LEN_BYTES: u64 = 64 << 10;

impl WriteQueue {
    /// Counts bytes that the leader will write. Returns whether they complete a step.
    pub(crate) fn is_step_done(&self, len_bytes: u64) -> bool {
        // Only the leader changes the counter.
        let in_step = self.in_step.load(Ordering::Relaxed).saturating_add(len_bytes);
        let is_done = in_step >= STEP_LEN_BYTES;
        self.in_step.store(if is_done { 0 } else { in_step }, Ordering::Relaxed);
        is_done
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) has_leader: bool,
    pub(crate) waiting: Vec<Arc<Ticket>>,
    /// The number of sleeping threads. Without sleepers, the wake-up system call is skipped.
    pub(crate) sleepers: usize,
}

impl Queue {
    /// Takes the oldest waiting batches. Their total size is bounded, so that the first writer does
    /// not wait long and the log record does not overflow.
    pub(crate) fn take_group(&mut self) -> Vec<Arc<Ticket>> {
        let mut len_bytes = 0usize;
        let fitting = self.waiting.iter().take_while(|ticket| {
            len_bytes = len_bytes.saturating_add(ticket.batch.len_bytes());
            len_bytes <= MAX_GROUP_LEN_BYTES
        });
        let len = fitting.count().max(1).min(self.waiting.len());
        self.waiting.drain(..len).collect()
    }
}

/// The batch of a waiting writer. The leader stores the result of the write here.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) batch: WriteBatch,
    pub(crate) sync: bool,
    pub(crate) result: Mutex<Option<Result<()>>>,
}

/// The result of the last check of the free space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Bytes of batches, each with a record header, that writers have announced since the check.
    pub(crate) written: AtomicU64,
    /// Bytes that may be written before the next check.
    pub(crate) allowance: AtomicU64,
    /// Whether the free space was too small for puts.
    pub(crate) is_short: AtomicBool,
}

impl Space {
    pub(crate) fn allow(&self, bytes: u64, is_short: bool) {
        self.written.store(0, Ordering::Relaxed);
        self.allowance.store(bytes.clamp(MIN_UNSEEN_BYTES, MAX_UNSEEN_BYTES), Ordering::Relaxed);
        self.is_short.store(is_short, Ordering::Relaxed);
    }
}
